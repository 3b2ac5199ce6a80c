"""The out-of-band predictor of a running Balancer: reads `/v1/history`, calls `/v1/add_reserve`, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.client import Balancer, BalancerError
from balancer.clock import NEVER_US, US, Clock, micros, seconds
from balancer.predictors.interface import DAY_S, History, Predictor, Slots
from balancer.predictors.planner import Keep, Reservation, reservation

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence


KEY_REUSED = "balancer.idempotency_key_reused"
_RETRY_US = 60 * US
_LOOK_S = 0.5
"""Wall time between looks at `stop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was done at the beginning of a slot."""

    at_s: float
    slot_s: float
    """Begin of the slot."""
    nodes: int
    reserve_id: str
    """Empty: nothing was reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorRunner:
    """One predictor for one service. `history_days`: how far back it looks.

    `before` is what was requested in the slots before slot 0, oldest first, where the service is too young to
    know it. No slot that begins after `until_us` is begun (None: no end).
    """

    balancer: Balancer
    predictor: Predictor
    slots: Slots = field(default_factory=Slots)
    keep: Keep = Keep.SLOT
    history_days: int = 35
    before: Sequence[int] = ()
    until_us: int | None = None

    def step(self, now_us: int, *, dry_run: bool = False) -> Step:
        """Predict the present slot and reserve for it. Raises BalancerError.

        Its idempotency key is the slot, so that a restart within a slot reserves nothing twice.
        """
        slot = self.slots.at(now_us)
        begin_s = seconds(self.slots.begin_us(slot))
        start_s = max(0.0, begin_s - self.history_days * DAY_S)
        history = read_history(self.balancer, self.slots, start_s, seconds(now_us))
        if self.before and history.first == 0:
            history = History(-len(self.before), (*self.before, *history.nodes), self.slots.a_day)
        wish = reservation(self.predictor, history, now_us, most=len(self.balancer.nodes()), keep=self.keep)
        reserve_id = ""
        if wish.nodes and not dry_run:
            reserve_id = self._reserve(slot, wish)
        return Step(at_s=seconds(now_us), slot_s=begin_s, nodes=wish.nodes, reserve_id=reserve_id)

    def _reserve(self, slot: int, wish: Reservation) -> str:
        keep_s = None if wish.keep_us is None else seconds(wish.keep_us)
        key = f"predictor-{self.slots.a_day}-{slot}"
        try:
            return self.balancer.add_reserve(wish.nodes, 0, keep_s=keep_s, idempotency_key=key).id
        except BalancerError as error:
            if error.code == KEY_REUSED:  # a predictor that was restarted: this slot has its reserve
                return ""
            raise

    def run(
        self, clock: Clock, stop: threading.Event, on_step: Callable[[Step | BalancerError], None]
    ) -> None:
        """A step at the beginning of each slot, the first one at once, until `stop` is set.

        A Balancer that cannot be asked is told of, and asked again after a minute.
        """
        alarm = clock.alarm()
        try:
            while not stop.is_set():
                # On a paced clock the next alarm is set before time may go on.
                with clock.paused() as now_us:
                    due_us = self._step_and_tell(now_us, on_step)
                    alarm.set(due_us)
                if due_us == NEVER_US:
                    return
                while not stop.is_set() and not alarm.wait(_LOOK_S):
                    pass
        finally:
            alarm.close()

    def _step_and_tell(self, now_us: int, on_step: Callable[[Step | BalancerError], None]) -> int:
        """Returns when the next step is due; NEVER_US: it was the last one."""
        next_us = self.slots.begin_us(self.slots.at(now_us) + 1)
        if self.until_us is not None and next_us > self.until_us:
            next_us = NEVER_US
        try:
            on_step(self.step(now_us))
        except BalancerError as error:
            on_step(error)
            return min(next_us, now_us + _RETRY_US)
        return next_us


def read_history(balancer: Balancer, slots: Slots, start_s: float, end_s: float) -> History:
    """What the service was asked for from `start_s` on; the slot of `end_s` is the last one. BalancerError."""
    # The end is exclusive, and an empty span is refused.
    found = balancer.history(slot_s=slots.length_s, start_s=start_s, end_s=end_s + 1e-6)
    return History(slots.at(micros(found[0].start_s)), [slot.nodes_requested for slot in found], slots.a_day)
