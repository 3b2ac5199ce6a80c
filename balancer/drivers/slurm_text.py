"""Reads `scontrol show node -o` and `squeue`; whatever does not read as a whole is `UnclearError`.

Why these two. `scontrol show node -o` has kept its form since Slurm 2 (the JSON forms change with the release;
22.05's scontrol has none) and prints one line a node: a lost line loses a whole node, never half of one. And it
names the flags: for some seconds after a restart of the controller `sinfo` calls a draining node that still
runs a job `drained`, where this says UNKNOWN+DRAIN. The jobs come from `squeue`, *with* its header: no output
at all would otherwise read as "no jobs".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from balancer.drivers.base import NodeState, NodeStatus, UnclearError
from balancer.drivers.incremental_parse import by_name
from balancer.drivers.marks import parse
from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JOBS_FORMAT = "%A|%T|%L|%N"
"""As all releases were recorded with it; the time left is of no use here."""
_JOBS_HEADER = "JOBID|STATE|TIME_LEFT|NODELIST"
_JOB = re.compile(r"([0-9][0-9A-Za-z_+,%\[\]-]*)\|([A-Z_]+)\|[^|]*\|([^|\s]*)")
# Reason and comment are free text and come last; what they say must not be taken for a field.
_TEXTS = "Comment|Extra|InstanceId|InstanceType|ReservationName"
_NODE = re.compile(rf"NodeName=(\S+) (.*? State=\S+ .*?)(?: +(Reason|{_TEXTS})=(.*))?")
_REASON = re.compile(rf"(.*?)(?: \[[^\[\]]*@[^\[\]]*\](?: (?:{_TEXTS}|Topology)=.*)?)?")
_ONCE = ("CPUAlloc", "CPUTot", "State", "BootTime", "CfgTRES", "AllocTRES")
_RESERVATION = re.compile(r"ReservationName=(\S+) StartTime=(\S+) .*? Nodes=(\S+) ")
# Old versions put a mark behind the state instead of spelling the flag out.
_SUFFIXES = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN"}
_HARMLESS = frozenset({"DRAIN", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM"})
_AWAY = frozenset({"NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"})
_ASLEEP = _AWAY - {"NOT_RESPONDING"}
_CHANGING = frozenset({"POWERING_DOWN", "POWERING_UP", "POWER_UP", "POWER_DOWN"})
_BUSY = frozenset({"ALLOCATED", "MIXED"})


@dataclass(frozen=True, slots=True)
class NodeLine:
    """What scontrol says of a node. `flags` are the words after the first of `State=IDLE+DRAIN`."""

    state: str
    flags: frozenset[str]
    allocated_cpus: int
    reason: str

    @property
    def is_drained(self) -> bool:
        """No new job starts here; the reason says by whose will."""
        return "DRAIN" in self.flags


def parse_nodes(text: str) -> dict[str, NodeLine]:
    """The output of `scontrol show node -o`, node name -> line."""
    return by_name(map(parse_node, node_lines(text)), "scontrol show node")


def node_lines(text: str) -> list[str]:
    """The output of `scontrol show node -o`, a line a node."""
    return _lines(text, "scontrol show node")


def parse_node(line: str) -> tuple[str, NodeLine]:
    """Name and facts of a node. Raises UnclearError."""
    match = _NODE.fullmatch(line)
    if match is None:
        raise UnclearError(f"scontrol show node printed what is no node: {line[:80]!r}")
    name, fields_text, first, text = match.groups()
    reason = _REASON.fullmatch(text) if first == "Reason" else None
    return name, _node(name, fields_text, "" if reason is None else reason[1].strip())


def job_nodes(nodelist: str) -> tuple[str, ...]:
    """The nodes of a job, as squeue writes them. Raises UnclearError."""
    try:
        return tuple(expand(nodelist))
    except NodeListError as error:
        raise UnclearError(f"squeue gives a job nodes that cannot be read: {error}") from error


def _nodes_of_each(nodelists: Iterable[str]) -> list[tuple[str, ...]]:
    return [job_nodes(nodelist) for nodelist in nodelists]


def parse_jobs(
    text: str, nodes_of: Callable[[Iterable[str]], list[tuple[str, ...]]] = _nodes_of_each
) -> dict[str, tuple[str, ...]]:
    """The output of `squeue --format=JOBS_FORMAT`, node name -> the jobs that have it, whatever they do there.

    `nodes_of`: `job_nodes` of each of these.
    """
    header, *lines = _lines(text, "squeue") or [""]
    if header.strip() != _JOBS_HEADER:
        raise UnclearError(f"squeue printed {header[:80]!r} instead of its header")
    listed: list[tuple[str, str]] = []
    for line in lines:
        match = _JOB.fullmatch(line.strip())
        if match is None:
            raise UnclearError(f"squeue printed what is no job: {line[:80]!r}")
        job, state, nodelist = match.groups()
        if nodelist:
            listed.append((job, nodelist))
        elif state in ("RUNNING", "SUSPENDED", "CONFIGURING"):
            raise UnclearError(f"squeue says that job {job} is {state} on no node")
    jobs: dict[str, tuple[str, ...]] = {}
    for (job, _), names in zip(listed, nodes_of(nodelist for _, nodelist in listed), strict=True):
        for name in names:
            others = jobs.get(name, ())
            if job not in others:
                jobs[name] = (*others, job)
    return jobs


def parse_reservations(text: str, prefix: str) -> frozenset[str]:
    """The output of `scontrol show reservation -o`: the nodes that a reservation PREFIX + node keeps."""
    return frozenset(nodes for name, _, nodes in _reservations(text) if name == prefix + nodes)


def parse_claims(text: str, prefix: str) -> dict[str, str]:
    """The same output: of the reservations PREFIX + ledger the ledger and the start."""
    found = ((name, start) for name, start, _ in _reservations(text) if name.startswith(prefix))
    return {name.removeprefix(prefix): start for name, start in found}


def _reservations(text: str) -> list[tuple[str, str, str]]:
    """Name, start and nodes of each."""
    found = []
    for line in _lines(text, "scontrol show reservation"):
        if line.startswith("No reservations in the system"):
            continue
        match = _RESERVATION.match(line)
        if match is None:
            raise UnclearError(f"scontrol show reservation printed what is no reservation: {line[:80]!r}")
        found.append((match[1], match[2], match[3]))
    return found


@dataclass(frozen=True, slots=True)
class Partition:
    """What scontrol says of a partition. `suspend_time`: as Slurm words it; "": it does not say."""

    nodes: frozenset[str]
    state: str
    suspend_time: str


def parse_partition(text: str, name: str) -> Partition:
    """The output of `scontrol show partition NAME -o`."""
    lines = _lines(text, "scontrol show partition")
    words = lines[0].split() if len(lines) == 1 else []
    fields = {key: value for key, _, value in (word.partition("=") for word in words)}
    if fields.get("PartitionName") != name or "Nodes" not in fields:
        raise UnclearError(f"scontrol show partition {name} printed what is no such partition: {text[:80]!r}")
    listed = fields["Nodes"]
    try:
        nodes = frozenset(expand(listed)) if listed and listed != "(null)" else frozenset()
    except NodeListError as error:
        raise UnclearError(f"the nodes of partition {name} cannot be read: {error}") from error
    return Partition(nodes, fields.get("State", ""), fields.get("SuspendTime", ""))


def status_of(node: NodeLine, jobs: tuple[str, ...], *, note: str, is_reserved: bool = False) -> NodeStatus:
    """All answers together; where they contradict each other the node is `unknown`.

    `is_reserved`: a reservation of ours keeps it, so that no job starts there also when it is not drained.
    """
    ours = parse(node.reason, note)
    mark = ours if node.is_drained else None
    # 24.11 leaves the reason of a node that somebody has resumed.
    reason = node.reason if ours is None or node.is_drained else ours.operator_note
    is_ours = mark is not None or (is_reserved and not node.is_drained)
    if is_reserved:
        node = replace(node, flags=node.flags - {"RESERVED"} | {"DRAIN"})
    is_asleep = node.state != "DOWN" and bool(node.flags & _ASLEEP)
    return NodeStatus(
        _state(node, has_jobs=bool(jobs)),
        jobs,
        reason or ("asleep: power saving has switched it off" if is_asleep else ""),
        marked=is_ours,
        is_ours=is_ours,
        is_foreign=node.is_drained and not is_ours,
        stamp=mark.stamp if mark is not None else None,
        is_asleep=is_asleep,
        # Slurm forgets a wish for power that comes while it still switches the node off.
        is_off=is_asleep and "POWERED_DOWN" in node.flags and not node.flags & _CHANGING,
    )


def _state(node: NodeLine, *, has_jobs: bool) -> NodeState:
    if node.state == "DOWN" or node.flags & _AWAY:
        return "down"
    if node.flags - _HARMLESS or node.state not in _BUSY | {"IDLE"}:
        return "unknown"
    runs = node.state in _BUSY or "COMPLETING" in node.flags
    if not runs and node.allocated_cpus:
        return "unknown"
    if "DRAIN" in node.flags:
        # Its job may have ended between the two answers, or squeue's may have lost a line.
        return "unknown" if runs and not has_jobs else "offline"
    return "busy" if runs or has_jobs else "idle"


def _node(name: str, text: str, reason: str) -> NodeLine:
    values: dict[str, str] = {}
    for key in _ONCE:
        found = re.findall(rf"(?:^|\s){key}=(\S*)(?=\s|$)", text)
        if len(found) != 1:
            raise UnclearError(f"scontrol show node gives node {name} {len(found)} times {key}=")
        values[key] = found[0]
    if "NodeName=" in text or not values["CPUAlloc"].isdecimal():
        raise UnclearError(f"scontrol show node printed a line about {name} that cannot be read")
    state, *flags = values["State"].split("+")
    if state and state[-1] in _SUFFIXES:
        flags.append(_SUFFIXES[state[-1]])
        state = state[:-1]
    return NodeLine(state, frozenset(flags), int(values["CPUAlloc"]), reason)


def _lines(text: str, command: str) -> list[str]:
    """Whole lines; one without its end may have lost more than that."""
    if text and not text.endswith("\n"):
        raise UnclearError(f"the output of {command} breaks off: {text[-80:]!r}")
    return [line.rstrip() for line in text.split("\n") if line.strip()]
