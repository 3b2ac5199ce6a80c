"""Orders for a job whose batch system can only send it signals: a file says what, SIGUSR2 that there is something new.

Who gives the orders writes them into a file of the job, and reads from the file `heard` beside it, one line an answer,
that the job has done what it was told:

    j17 3 5400000000        job j17 has heard its third order; so much of its work is done
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from balancer.clock import NEVER_US, seconds
from balancer.whole_file import write_text
from emulator.live.job.control import Message, MessageKind

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.clock.shared_clock import ClockReader

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
    fields are as in `control.Message`, for the first order of a run.
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
