"""Who tells a job the time and what happens to it: its node's agent, a file of orders, or clock and signals alone.

Orders are for a job whose batch system can only send it signals: a file says what, SIGUSR2 that there is something new.
Who gives them writes them into a file of the job, and reads from the file `heard` beside it, one line an answer, that
the job has done what it was told:

    j17 3 5400000000        job j17 has heard its third order; so much of its work is done
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import deque
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Protocol

from balancer.clock import NEVER_US, seconds
from balancer.whole_file import write_text
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import alarm_of
from emulator.live.torque.protocol import connect

if TYPE_CHECKING:
    from pathlib import Path

    from balancer.clock import Clock
    from emulator.clock.shared_clock import ClockReader

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


NEWS = signal.SIGUSR2
HEARD = "heard"
_SIGNALS = (NEWS, signal.SIGTERM, signal.SIGINT)
_LONGEST_WAIT_S = 1.0
"""Wall time after which a job looks whether its run still goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a job is to do from the moment at which it hears it: times are from then on, in us.

    It computes on `nodes` nodes at `num / den`, after standing still for `idle_us` (None: until the next order), and
    what is done when it hears this is a checkpoint that is whole after `save_us` (None: it is not one). The other
    fields are as in `Message`, for the first order of a run.
    """

    seq: int
    nodes: int
    num: int = 1
    den: int = 1
    idle_us: int | None = 0
    save_us: int | None = None
    begun: int | None = None
    interval_us: int | None = None
    cost_us: int = 0
    total: int | None = None

    def write(self, path: Path) -> None:
        """The file appears whole or not at all."""
        write_text(path, json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Order:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def message(self, what: MessageKind, now_us: int) -> Message:
        """The same for a job that hears it now."""
        return Message(
            what,
            now_us,
            nodes=self.nodes,
            num=self.num,
            den=self.den,
            since_us=NEVER_US if self.idle_us is None else now_us + self.idle_us,
            save_us=NEVER_US if self.save_us is None else now_us + self.save_us,
            begun=self.begun,
            interval_us=self.interval_us,
            cost_us=self.cost_us,
            total=self.total,
        )


class OrderControl:
    """A clock that waits for nobody, and orders, if there are any; SIGTERM: leave at once."""

    def __init__(self, clock: ClockReader, orders: Path | None, nodes: int) -> None:
        # From here on signals wait until they are asked for.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._clock = clock
        self._orders = orders
        self._nodes = nodes
        self._seq = 0
        self._owes_answer = False

    def begin(self, total: int) -> Message:  # noqa: ARG002 - nobody wants to know
        return self._next_order(MessageKind.BEGIN) or Message(
            MessageKind.BEGIN, self._clock.now_us(), nodes=self._nodes
        )

    def wait(self, until_us: int, done: int) -> Message:
        self._answer(done)
        while (to_go_us := until_us - self._clock.now_us()) > 0:
            wait_s = min(seconds(to_go_us) / self._clock.speed, _LONGEST_WAIT_S)
            heard = signal.sigtimedwait(_SIGNALS, wait_s)
            if self._clock.stopped or (heard is not None and heard.si_signo != NEWS):
                return Message(MessageKind.LEAVE, self._clock.now_us(), why="SIGTERM")
            if heard is not None and (order := self._next_order(MessageKind.CHANGE)) is not None:
                return order
        return Message(MessageKind.TICK, self._clock.now_us())

    def over(self, done: int) -> None:
        self._answer(done)

    def _next_order(self, what: MessageKind) -> Message | None:
        if self._orders is None:
            return None
        order = Order.read(self._orders)
        if order.seq == self._seq:
            return None  # two signals for one order
        self._seq, self._owes_answer = order.seq, True
        return order.message(what, self._clock.now_us())

    def _answer(self, done: int) -> None:
        if not self._owes_answer or self._orders is None:
            return
        self._owes_answer = False
        line = f"{self._orders.name} {self._seq} {done}\n".encode()
        # Many jobs write into one file: each line as a whole.
        file = os.open(self._orders.with_name(HEARD), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)
