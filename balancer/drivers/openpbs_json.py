"""Reads what OpenPBS prints as JSON; whatever does not read as a whole is `UnclearError`.

A node's `state` is a comma list; `jobs` is a list of job ids that is there only when the node runs some;
`resources_assigned` holds what they took, without zeros.
"""

from __future__ import annotations

import json
import re
from typing import Any

from balancer.drivers.base import NodeStatus, UnclearError
from balancer.drivers.pbs import state_of

_BUSY = frozenset({"job-exclusive", "job-busy", "resv-exclusive", "busy"})
_JOB_ID = re.compile(r"\d+(\[\d*\])?\.[\w.-]+")
_NODES = re.compile(r'\n[ \t]+"nodes":[ \t]*\{(\n[ \t]+)(?=")')


def parse_nodes(text: str) -> dict[str, NodeStatus]:
    """The output of `pbsnodes -av -F json`, vnode name -> status."""
    nodes = _loaded(text).get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise UnclearError("pbsnodes lists no node at all")
    return {name: _status(name, node) for name, node in nodes.items()}


def pieces(text: str) -> list[str] | None:
    """The nodes of an answer of `pbsnodes`, as members of an object; None: it is not written a member a line.

    A line's end cannot be part of a string, so what begins and ends like this on lines of its own is what it seems.
    """
    match = _NODES.search(text)
    if match is None:
        return None
    begin, end = match[1], match[1] + "}"
    *nodes, last = text[match.end() :].split(f"{end},{begin}")
    final, ended, rest = last.partition(end)
    shell = _loaded(text[: match.start(1)] + rest)
    if not ended or shell.get("nodes") != {}:
        return None
    return [f"{node}{end}" for node in (*nodes, final)]


def parse_piece(piece: str) -> tuple[str, NodeStatus]:
    """Name and status of one of the `pieces`. Raises UnclearError."""
    node = _read(f"{{{piece}}}")
    if not isinstance(node, dict) or len(node) != 1:
        raise UnclearError(f"pbsnodes printed what is no node: {piece[:80]!r}")
    ((name, attributes),) = node.items()
    return name, _status(name, attributes)


def _loaded(text: str) -> dict[str, Any]:
    loaded = _read(text)
    if not isinstance(loaded, dict) or "pbs_server" not in loaded:
        raise UnclearError(f"pbsnodes printed JSON that is not an answer of OpenPBS: {text[:80]!r}")
    return loaded


def _read(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise UnclearError(f"pbsnodes says the same thing twice: {sorted(key for key, _ in pairs)[:8]}")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise UnclearError(f"pbsnodes printed what is not JSON ({error}): {text[:80]!r}") from error


def _status(name: str, node: Any) -> NodeStatus:
    if not isinstance(node, dict):
        raise UnclearError(f"pbsnodes says {node!r} of node {name}")
    states = node.get("state")
    assigned = node.get("resources_assigned")
    if not isinstance(states, str) or not isinstance(assigned, dict):
        raise UnclearError(f"pbsnodes does not say the state of node {name}, or what it has assigned")
    available = node.get("resources_available")
    if isinstance(available, dict) and available.get("vnode", name) != name:
        raise UnclearError(f"pbsnodes says of node {name} that it is {available['vnode']!r}")
    jobs = _jobs(name, node.get("jobs", []))
    words = frozenset(states.split(","))
    state = state_of(words, busy=_BUSY, has_jobs=bool(jobs))
    if not jobs and state in ("idle", "offline") and (assigned or "jobs" in node or words & _BUSY):
        state = "unknown"  # something runs there, and what it is has been lost
    return NodeStatus(state, jobs, str(node.get("comment", "")), marked="offline" in words)


def _jobs(name: str, listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise UnclearError(f"the jobs of node {name} cannot be read: {listed!r}")
    jobs = [each.partition("/")[0] for each in listed]
    strange = [job for job in jobs if not _JOB_ID.fullmatch(job)]
    if strange:
        raise UnclearError(f"the jobs of node {name} cannot be read: {strange[0]!r}")
    return tuple(dict.fromkeys(jobs))
