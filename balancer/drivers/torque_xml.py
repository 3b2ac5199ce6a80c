"""Reads what `pbsnodes -x` prints; whatever does not read as a whole is `UnclearError`.

The forms are those of Torque 6.1 (and older): a node's `state` is a comma list, `jobs` is there only when the
node runs some and reads `0-1/17.server,3/18.server` (slots / job).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from balancer.drivers.base import NodeStatus, UnclearError
from balancer.drivers.incremental_parse import by_name
from balancer.drivers.pbs import state_of

_BUSY = frozenset({"job-exclusive", "job-sharing", "busy"})
_HELD = frozenset({"job-exclusive", "job-sharing"})
_SLOTS = re.compile(r"\d+(-\d+)?")
_HEAD, _NODE_END, _TAIL = "<Data>", "</Node>", "</Data>"
_NOT_READ = ("status", "gpu_status", "mic_status")
"""What a node says of itself, anew each time: loads, free memory, clocks."""


def parse_nodes(text: str) -> dict[str, NodeStatus]:
    """The output of `pbsnodes -x`, node name -> status."""
    return by_name(map(_node, _nodes(text)), "pbsnodes -x")


def pieces(text: str) -> list[str] | None:
    """The nodes of an answer of `pbsnodes -x`, without what is not read; None: it has not the usual form.

    Well-formed XML without comments and the like has `</Node>` nowhere but where a node ends.
    """
    text = text.strip()
    if not (text.startswith(_HEAD) and text.endswith(_TAIL)):
        return None
    *nodes, rest = text[len(_HEAD) : -len(_TAIL)].split(_NODE_END)
    return None if rest.strip() else [_what_is_read(node) for node in nodes]


def parse_piece(piece: str) -> tuple[str, NodeStatus]:
    """Name and status of one of the `pieces`. Raises UnclearError."""
    # A second one could only follow a first without a name.
    return _node(_nodes(f"{_HEAD}{piece}{_NODE_END}{_TAIL}")[0])


def _what_is_read(node: str) -> str:
    for tag in _NOT_READ:
        head, opened, rest = node.partition(f"<{tag}>")
        if opened:
            text, closed, tail = rest.partition(f"</{tag}>")
            if closed and "<" not in text:
                node = head + tail
    return node


def _node(element: ET.Element) -> tuple[str, NodeStatus]:
    name = _text(element, "name")
    if not name:
        raise UnclearError("pbsnodes -x lists a node without a name")
    return name, _status(element, name)


def _nodes(text: str) -> list[ET.Element]:
    # Entities could blow a small text up to gigabytes; pbsnodes never prints a document type.
    if "<!" in text:
        raise UnclearError(f"pbsnodes -x printed a document type or a comment: {text[:80]!r}")
    try:
        root = ET.fromstring(text)  # nosec B314 # noqa: S314 - declarations are refused above
    except ET.ParseError as error:
        raise UnclearError(f"pbsnodes -x printed what is not XML ({error}): {text[:80]!r}") from error
    if root.tag != "Data":
        raise UnclearError(f"pbsnodes -x printed <{root.tag}> instead of <Data>")
    strange = [child.tag for child in root if child.tag != "Node"]
    if strange:
        raise UnclearError(f"pbsnodes -x printed <{strange[0]}> instead of <Node>")
    return list(root)


def _text(element: ET.Element, tag: str) -> str:
    found = element.findall(tag)
    if len(found) > 1:
        raise UnclearError(f"pbsnodes -x gives a node two <{tag}>")
    return (found[0].text or "").strip() if found else ""


def _status(element: ET.Element, name: str) -> NodeStatus:
    jobs = _jobs(_text(element, "jobs"), name)
    has_jobs_element = element.find("jobs") is not None
    words = frozenset(_text(element, "state").split(","))
    state = state_of(words, busy=_BUSY, has_jobs=bool(jobs))
    if not jobs and (has_jobs_element or (state == "offline" and _HELD & words)):
        state = "unknown"  # a job holds it, and which one has been lost
    if state == "idle" and _text(element, "power_state") not in ("", "Running"):
        state = "down"
    return NodeStatus(state, jobs, _text(element, "note"), marked="offline" in words)


def _jobs(text: str, name: str) -> tuple[str, ...]:
    jobs: list[str] = []
    open_slots = False
    for part in text.split(",") if text else ():
        slots, slash, job = part.strip().partition("/")
        if not _SLOTS.fullmatch(slots) or (slash and not job):
            raise UnclearError(f"the jobs of node {name} cannot be read: {text!r}")
        open_slots = not slash  # "0,2/17.server": slots 0 and 2 belong to one job
        if slash and job not in jobs:
            jobs.append(job)
    if open_slots:
        raise UnclearError(f"the jobs of node {name} end in mid-air: {text!r}")
    return tuple(jobs)
