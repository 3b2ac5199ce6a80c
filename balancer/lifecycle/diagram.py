"""The page `docs/balancer/lifecycle.md`, made from the transition table.

python -m balancer.lifecycle.diagram > docs/balancer/lifecycle.md
"""

from __future__ import annotations

import sys

from balancer.lifecycle.states import TRANSITIONS, NodeState

_WHAT = {
    NodeState.OD_RESERVE: "in the on-demand pool, no lease: held for a request, the reserve, or `I`",
    NodeState.OD_ALLOC: "granted to an on-demand request",
    NodeState.OA_IDLE: "in the batch pool, without a job",
    NodeState.OA_BUSY: "in the batch pool, runs a job",
    NodeState.DOWN: "reported unreachable, or not seen yet; never given to anybody",
    NodeState.RECLAIMING: "batch was told to take it offline; not yet seen offline and empty",
    NodeState.RESTORING: "batch was told to bring it online; not yet seen online",
    NodeState.HELD: "nobody's: the ledger may be wrong about it ([backup](backup.md#nodes-in-doubt))",
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
  reads online. "Cannot be told" changes nothing; the question is asked again.
* A job may start while a node is `RESTORING`, because batch may be faster than our look at it.
* A job reported to start on an `OD_RESERVE`, `OD_ALLOC` or `RECLAIMING` node is refused, for all nodes of
  the job, and contests those: nobody is granted them until a look finds them offline and empty. Where a
  reclaim has had no outcome for `confirm_limit_s`, the job keeps the node instead.
* A `RESTORING` node that somebody else holds offline is `DOWN`: their mark is left alone.
* A node that is reserved or on its way and reported down is put back to batch, where its offline mark is
  removed; it counts as idle again when it is seen to be.
* Reports that come late, twice or in another order change nothing, or make a node busy at worst, never
  idle: the next look at the batch system puts that right.
* A grant has an owner. It is provisional until the owner confirms it, or the cloud shows a server on it, and
  goes back by itself `confirm_s` after it was made. A lease ends `lease_s` after the confirmation or the last
  renewal. Only the owner or an operator releases, withdraws, confirms or renews.
* Where a cloud is configured, nothing that is past its end goes back before the cloud, asked after that end, has
  said that no server runs there; until then the grant is `overdue`. A running server is never cut.
* A request is decided by its deadline, whatever the batch system does: W after it came, and `at_once_s` after
  where W is 0. Nothing is granted later; what had been gathered for it stays reserved for `I`.
* Nothing is granted without a look at it that is at most `refresh_age_s` old, or that began when nothing else was
  missing. A look that is wanted is taken by one thread for all; nobody who waits for an answer takes it.
* A `HELD` node is neither batch's nor grantable; only the cloud or an operator (`balancer ledger adopt`) settle whose
  it is. A job reported to start on one is refused. A doubt that was settled is not raised again.
* An illegal change raises `IllegalTransition`, which prints the node's story: its last changes, each with
  its time and the event that caused it. `Lifecycle.story(node_or_event)` gives the same at any time.
"""


def page() -> str:
    """The whole page: states, diagram, table, rules."""
    causes: dict[tuple[NodeState, NodeState], list[str]] = {}
    for start, to, cause in TRANSITIONS:
        causes.setdefault((start, to), []).append(cause)
    states = "".join(f"| `{state}` | {_WHAT[state]} |\n" for state in NodeState)
    arrows = "".join(f"    {start} --> {to}: {', '.join(why)}\n" for (start, to), why in causes.items())
    rows = "".join(f"| `{start}` | `{to}` | {cause} |\n" for start, to, cause in TRANSITIONS)
    return (
        f"{_HEAD}\n| state | a node in it is |\n| --- | --- |\n{states}"
        f"\n```mermaid\nstateDiagram-v2\n    [*] --> DOWN\n{arrows}```\n"
        f"\n| from | to | cause |\n| --- | --- | --- |\n{rows}\n{_TAIL}"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
