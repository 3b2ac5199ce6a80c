"""The page `docs/balancer/lifecycle.md`, made from the transition table.

python -m balancer.lifecycle.diagram > docs/balancer/lifecycle.md
"""

from __future__ import annotations

import sys

from balancer.lifecycle.states import TRANSITIONS, NodeState

_WHAT = {
    NodeState.OD_RESERVE: "in the on-demand pool, no lease: for a request, the reserve, or `I`",
    NodeState.OD_ALLOC: "granted to an on-demand request",
    NodeState.OA_IDLE: "in the batch pool, without a job",
    NodeState.OA_BUSY: "in the batch pool, runs a job",
    NodeState.DOWN: "reported unreachable, or not seen yet; never given to anybody",
    NodeState.RECLAIMING: "batch was told to take it offline; not yet seen offline and empty",
    NodeState.RESTORING: "batch was told to bring it online; not yet seen online",
    NodeState.QUARANTINED: "no pool's: the ledger may be wrong about it ([backup](backup.md#nodes-in-doubt))",
}

_HEAD = """\
# The life cycle of a node

Made from the transition table: `python -m balancer.lifecycle.diagram > docs/balancer/lifecycle.md`.

The four states of the paper (balancer-liu-2018, II-C.1), `DOWN`, and the two steps between asking the batch
system for a node and seeing that it obeyed. A node is enabled in the batch system only in `OA_IDLE` and
`OA_BUSY`, and in the on-demand pool only in `OD_RESERVE` and `OD_ALLOC`; between the two it is in no pool.
"""

_TAIL = """\
* Only what was seen counts: `RECLAIMING` ends when the node reads offline and empty, `RESTORING` when it
  reads online. "Cannot be told" changes nothing.
* A job may start while a node is `RESTORING`, because batch may be faster than our look at it.
* A job reported to start on an `OD_RESERVE`, `OD_ALLOC`, `RECLAIMING` or `QUARANTINED` node is refused, for all nodes
  of the job, and contests those.
* A node that is reserved or on its way and reported down is put back to batch, where its offline mark is removed.
* Reports that come late, twice or in another order change nothing, or make a node busy at worst, never idle.
* Nothing is granted without a look at it that is at most `refresh_age_s` old, or that began when nothing else was
  missing. What had been gathered for a request that is rejected stays reserved for `I`.
* An illegal change raises `IllegalTransition`, which prints the node's story. `Lifecycle.story(node_or_event)` gives
  the same at any time.

[The API](api.md) says how grants, leases and deadlines end, [reconcile](reconcile.md) what a reading changes.
"""


def page() -> str:
    """The whole page: states, diagram, rules."""
    causes: dict[tuple[NodeState, NodeState], list[str]] = {}
    for start, to, cause in TRANSITIONS:
        causes.setdefault((start, to), []).append(cause)
    states = "".join(f"| `{state}` | {_WHAT[state]} |\n" for state in NodeState)
    arrows = "".join(f"    {start} --> {to}: {', '.join(why)}\n" for (start, to), why in causes.items())
    return (
        f"{_HEAD}\n| state | a node in it is |\n| --- | --- |\n{states}"
        f"\n```mermaid\nstateDiagram-v2\n    [*] --> DOWN\n{arrows}```\n\n{_TAIL}"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
