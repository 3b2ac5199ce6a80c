"""Who tells a job the time and what happens to it: its node's agent, or, for a plain program, clock and signals."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Protocol

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import alarm_of
from emulator.live.torque.protocol import connect

if TYPE_CHECKING:
    from pathlib import Path

    from balancer.clock import Clock

ADDRESS_VARIABLE = "EMULATOR_JOB_AGENT"
KEY_VARIABLE = "EMULATOR_JOB_KEY"


OVER = "over"
"""Why a job leaves whose work is all done."""


class MessageKind(StrEnum):
    """What a job hears of."""

    BEGIN = "begin"
    TICK = "tick"
    """The time it waited for has come."""
    CHANGE = "change"
    """Other nodes, another rate, a stall, or a checkpoint to write."""
    LEAVE = "leave"
    """It loses its nodes."""


@dataclass(frozen=True, slots=True)
class Message:
    """One thing a job hears, at a time.

    With BEGIN and CHANGE: it computes on `nodes` nodes at the rate `num / den` from `since_us` on (NEVER_US: it stands
    still), and what is done by now becomes a checkpoint that is whole at `save_us` (NEVER_US: it does not). With BEGIN:
    `begun` (so much of what it saved before counts, None: all), and the `interval_us` and `cost_us` of checkpoints of
    its own, None where the job may have its own way; `total`, how much work there is, in units in which
    `nodes * num / den` are done in a microsecond (None: as the job thinks); `told_end`: it is over when a LEAVE says so
    (`why` is OVER), not by itself. With LEAVE: `save` (write a checkpoint before).
    """

    what: MessageKind
    at_us: int
    nodes: int = 1
    num: int = 1
    den: int = 1
    since_us: int | None = None
    save_us: int = NEVER_US
    begun: int | None = None
    interval_us: int | None = None
    cost_us: int = 0
    total: int | None = None
    told_end: bool = False
    save: bool = False
    why: str = ""
    run: int = 1


class JobControl(Protocol):
    """Gives a job its next message."""

    def begin(self, total: int) -> Message: ...

    def wait(self, until_us: int, done: int) -> Message:
        """Nothing to do before `until_us`; `done` is how far the job is. The next message, TICK at the latest then."""

    def over(self, done: int) -> None:
        """The job has written its last line."""


class AgentControl:
    """The node's agent: each message is answered by the next `wait` or `over`, which lets the clock go on."""

    def __init__(self, address: str, key: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = connect((host, int(port)))
        self._key = key

    def begin(self, total: int) -> Message:
        self._connection.send({"do": "hello", "key": self._key, "total": total})
        return self._hear()

    def wait(self, until_us: int, done: int) -> Message:
        self._connection.send({"do": "wait", "until_us": until_us, "done": done})
        return self._hear()

    def over(self, done: int) -> None:
        self._connection.send({"do": "over", "done": done})
        self._connection.receive()  # the agent has taken note

    def _hear(self) -> Message:
        message = self._connection.receive()
        if message is None:
            raise ConnectionResetError("the node's agent is gone, and this job with it")
        return Message(**message | {"what": MessageKind(message["what"])})


class SignalControl:
    """A clock, signals and a file with the number of nodes, for a job without an agent.

    SIGUSR1: write a checkpoint. SIGUSR2: look at the file again. SIGTERM: save if that is possible, and leave.
    """

    def __init__(self, clock: Clock, nodes_file: Path | None, nodes: int, speed: float) -> None:
        self._clock = clock
        self._nodes_file = nodes_file
        self._nodes = nodes
        self._speed = speed
        self._origin_us = clock.now_us()
        self._alarm = alarm_of(clock, EventPriority.JOB_END)
        self._heard: deque[int] = deque()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, _: object) -> None:
        self._heard.append(number)
        # From a thread: the signal may have interrupted a lock that waking needs.
        threading.Thread(target=self._alarm.wake, daemon=True).start()

    def _now_us(self) -> int:
        passed_us = self._clock.now_us() - self._origin_us
        return self._origin_us + round(passed_us * self._speed)

    def begin(self, total: int) -> Message:  # noqa: ARG002 - the agent wants to know
        return Message(MessageKind.BEGIN, self._now_us(), nodes=self._read_nodes())

    def wait(self, until_us: int, done: int) -> Message:  # noqa: ARG002
        self._alarm.set(until_us if until_us == NEVER_US else self._clock_us(until_us))
        while not self._heard:
            if self._alarm.wait():
                return Message(MessageKind.TICK, max(self._now_us(), until_us))
        return self._message_of(self._heard.popleft())

    def _clock_us(self, time_us: int) -> int:
        """When the clock shows this much of our time, rounded up."""
        return self._origin_us + ceil((time_us - self._origin_us) / self._speed)

    def _message_of(self, number: int) -> Message:
        now_us = self._now_us()
        if number == signal.SIGUSR1:
            return Message(MessageKind.CHANGE, now_us, nodes=self._nodes, save_us=now_us)
        if number == signal.SIGUSR2:
            return Message(MessageKind.CHANGE, now_us, nodes=self._read_nodes())
        return Message(MessageKind.LEAVE, now_us, save=True, why=signal.Signals(number).name)

    def _read_nodes(self) -> int:
        if self._nodes_file is not None:
            text = self._nodes_file.read_text(encoding="utf-8")
            # A number, or names of nodes, one line a slot.
            self._nodes = int(text) if text.strip().isdecimal() else len(set(text.split()))
        if self._nodes < 1:
            raise ValueError(f"{self._nodes_file}: a job needs at least one node")
        return self._nodes

    def over(self, done: int) -> None:  # noqa: ARG002
        self._alarm.close()


def agent_control() -> AgentControl | None:
    """The agent that started this process, if one did."""
    address = os.environ.get(ADDRESS_VARIABLE)
    return AgentControl(address, os.environ.get(KEY_VARIABLE, "")) if address else None
