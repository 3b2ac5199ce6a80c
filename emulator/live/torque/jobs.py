"""A job as Torque knows it: what was asked for, and what became of it. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from balancer.clock import US
from emulator.kernel.job_states import RunOutcome
from emulator.live.qsub import TRACE_NUMBERS
from emulator.live.torque.errors import bad_value, infeasible

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRACE_NUMBERS = re.compile(r"(-?\d{1,9})/(-?\d{1,9})/(-?\d{1,9})")
DELETED = 271
"""Exit status of a job that was deleted while it ran: 256 + SIGTERM."""
OVER_WALLTIME = -11
PROLOGUE_ABORTS = -2
PROLOGUE_REQUEUES = -14


class PbsState(StrEnum):
    """The letter in the column S of qstat."""

    QUEUED = "Q"
    HELD = "H"
    RUNNING = "R"
    SUSPENDED = "S"
    EXITING = "E"
    COMPLETE = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What qsub asked for. `resources` is in the user's order, normalised as the server prints it.

    A job takes `nodes` whole nodes, whatever `ppn` (slots on each) says, unless a mechanism gives it parts of nodes.
    """

    name: str
    user: str
    group: str
    queue: str
    script: str
    nodes: int
    ppn: int
    walltime_us: int
    resources: tuple[tuple[str, str], ...]
    neednodes: str
    workdir: str
    account: str = ""
    hold: bool = False
    rerunnable: bool = True
    join: str = "n"
    keep: str = "n"
    mail_points: str = "a"
    priority: int = 0
    output_path: str = ""
    error_path: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    submit_args: str = ""

    @property
    def requested(self) -> str:
        """The resource list as prologue and epilogue get it."""
        listed = [pair for pair in self.resources if pair[0] != "nodect"]
        return ",".join(f"{name}={value}" for name, value in [*listed, ("neednodes", self.neednodes)])


@dataclass(slots=True, kw_only=True)
class Job:
    """One job of the server. `row` is its place in the cluster; times in us of cluster time, -1: not yet.

    `exec_nodes`: node indices, the mother superior first. `run` counts starts.
    """

    number: int
    row: int
    request: JobRequest
    ctime_us: int
    state: PbsState = PbsState.QUEUED
    etime_us: int = -1
    mtime_us: int = -1
    start_us: int = -1
    end_us: int = -1
    run: int = 0
    session: int | None = None
    exit_status: int | None = None
    exec_nodes: tuple[int, ...] = ()
    slots: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """On each of its nodes, where jobs share nodes."""
    user_hold: bool = False
    comment: str = ""
    deferred: bool = False
    ended_by: str = ""

    @property
    def over(self) -> bool:
        return self.state == PbsState.COMPLETE

    def slots_on(self, node: int) -> tuple[int, ...]:
        """Its slots there: the first `ppn`, unless nodes are shared."""
        return self.slots.get(node) or tuple(range(self.request.ppn))


_WALLTIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d{1,6})?)")


def trace_numbers(variables: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Queue, user and group of a replayed job in its trace, from its variables; None for any other job."""
    match = _TRACE_NUMBERS.fullmatch(variables.get(TRACE_NUMBERS, ""))
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def walltime_us(text: str) -> int:
    """`[[HH:]MM:]SS[.fraction]` in microseconds."""
    match = _WALLTIME.fullmatch(text)
    if match is None:
        raise bad_value("Resource_List.walltime")
    hours, minutes, rest = match.groups()
    return (int(hours or 0) * 3600 + int(minutes or 0) * 60) * US + int(Decimal(rest) * US)


def clock_text(duration_us: int) -> str:
    """HH:MM:SS, rounded to seconds as Torque rounds; hours may have more than two digits."""
    total_s = (duration_us + US // 2) // US
    return f"{total_s // 3600:02}:{total_s // 60 % 60:02}:{total_s % 60:02}"


_NODES = re.compile(r"(\d+)(?::ppn=(\d+))?")


def node_request(text: str) -> tuple[int, int]:
    """`N[:ppn=P]` as (N, P). Named nodes, properties and mixed kinds of nodes are not offered."""
    match = _NODES.fullmatch(text)
    if match is None:
        raise infeasible()
    nodes, ppn = int(match[1]), int(match[2] or 1)
    if nodes < 1 or ppn < 1:
        raise bad_value("Resource_List.nodes")
    return nodes, ppn


_SLEEP = re.compile(r"(?:exec\s+)?sleep\s+(\d+(?:\.\d*)?|\.\d+)")


def sleep_us(script: str) -> int | None:
    """The duration of a script that does nothing but (`exec`) `sleep SECONDS`; None for every other script.

    Such a job needs no process: its end is an alarm, exact to the microsecond.
    """
    lines = [line.strip() for line in script.splitlines()]
    commands = [line for line in lines if line and not line.startswith("#")]
    if len(commands) != 1:
        return None
    match = _SLEEP.fullmatch(commands[0])
    return None if match is None else int(Decimal(match[1]) * US)


def outcome_of(exit_status: int) -> RunOutcome:
    """What became of a run that nobody ended from outside."""
    ended = {OVER_WALLTIME: RunOutcome.KILLED, PROLOGUE_ABORTS: RunOutcome.CANCELLED}
    return ended.get(exit_status, RunOutcome.FINISHED)
