"""When a claim holds: its kind, how far a figure must go, and the test over traces or seeds that decides.

A *difference* needs a margin that a world without any effect cannot reach, and more traces beyond it than chance
explains. A *level* is met within the precision that the paper prints. *Alike* is the claim that nothing differs.
*Exact* is a deterministic run, which counts once however many seeds there are. What cannot be tested says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEVEL = 0.05
"""How often a sign test may call a coin that falls to either side a difference."""
_FINEST = 0.001
"""Nobody's roundings are told apart below a thousandth of a printed figure."""
_WIDEST = 0.2
"""Seeds that spread over more than this share of the paper's figure cannot tell whether they meet it."""


class Kind(StrEnum):
    DIFFERENCE = "difference"
    LEVEL = "level"
    ALIKE = "alike"
    EXACT = "exact"
    UNTESTED = "not tested"


class Procedure(StrEnum):
    """How many figures become one verdict."""

    SIGN = "sign test"
    RANGE = "range"
    REPLAY = "replay"
    NONE = "none"


class Outcome(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be told"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True)
class Between:
    """Holds from `low` to `high`, both included; None: no bound on that side."""

    low: float | None = None
    high: float | None = None

    def holds(self, value: float) -> bool:
        return not (self.is_above(value) or self.is_below(value))

    def is_below(self, value: float) -> bool:
        return self.low is not None and value < self.low

    def is_above(self, value: float) -> bool:
        return self.high is not None and value > self.high

    def text(self, show: Callable[[float], str]) -> str:
        if self.low is None:
            return f"at most {show(self.high or 0.0)}"
        if self.high is None:
            return f"at least {show(self.low)}"
        return f"{show(self.low)} to {show(self.high)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """`margin`: how far from no effect a difference must be. `reason`: why the trace at hand cannot tell."""

    kind: Kind
    test: Procedure
    accepted: Between = Between()
    margin: float | None = None
    reason: str = ""

    def judge(self, values: Sequence[float]) -> Outcome:
        """The verdict on one figure a trace or seed."""
        if self.kind is Kind.UNTESTED:
            return Outcome.UNTESTED
        if not values or self.reason:
            return Outcome.OPEN
        if self.test is Procedure.REPLAY:
            return Outcome.HOLDS if all(map(self.accepted.holds, values)) else Outcome.FAILS
        return self._by_sign(values) if self.test is Procedure.SIGN else self._by_range(values)

    def in_one_world(self) -> Criterion:
        """The same for one world of the atlas, which is one deterministic run.

        A printed figure with chance in it is met up to half of the spread that `judge` allows beyond it: figures of
        two worlds that meet it are no further apart than those of seeds that do.
        """
        if self.kind is Kind.UNTESTED:
            return self
        accepted = self.accepted
        if self.test is Procedure.RANGE:
            room, low, high = _WIDEST / 2 * self._size, accepted.low, accepted.high
            accepted = Between(None if low is None else low - room, None if high is None else high + room)
        return replace(self, test=Procedure.REPLAY, accepted=accepted)

    def holds_in(self, value: float) -> bool:
        """Whether a claim holds in a world with this figure."""
        return self.in_one_world().accepted.holds(value)

    @property
    def _size(self) -> float:
        return max(abs(bound) for bound in (self.accepted.low, self.accepted.high) if bound is not None)

    def p(self, values: Sequence[float]) -> float | None:
        """Of the sign test: how likely as many figures are accepted if each were as likely not to be."""
        if self.test is not Procedure.SIGN or not values:
            return None
        return sign_test(sum(map(self.accepted.holds, values)), len(values))

    def _by_sign(self, values: Sequence[float]) -> Outcome:
        met = sum(map(self.accepted.holds, values))
        if sign_test(met, len(values)) <= LEVEL:
            return Outcome.HOLDS
        return Outcome.FAILS if sign_test(len(values) - met, len(values)) <= LEVEL else Outcome.OPEN

    def _by_range(self, values: Sequence[float]) -> Outcome:
        """The paper's figure, one draw of chance, must lie among ours, which must lie close together."""
        n = len(values)
        for is_off in (self.accepted.is_below, self.accepted.is_above):
            if sign_test(sum(map(is_off, values)), n) <= LEVEL:
                return Outcome.FAILS
        can_tell = sign_test(n, n) <= LEVEL and max(values) - min(values) <= _WIDEST * self._size
        return Outcome.HOLDS if can_tell or all(map(self.accepted.holds, values)) else Outcome.OPEN


def sign_test(successes: int, n: int) -> float:
    """One-sided and exact: the probability of as many heads or more among n throws of a fair coin."""
    return float(sum(comb(n, heads) for heads in range(successes, n + 1)) / 2**n)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """A confidence interval of the median from the values in order, two-sided; None: too few values for one."""
    ordered = sorted(values)
    cut = 0
    while 2 * sign_test(len(ordered) - cut, len(ordered)) <= LEVEL:
        cut += 1
    return (ordered[cut - 1], ordered[-cut]) if cut else None


def _procedure(replay: bool) -> Procedure:
    return Procedure.REPLAY if replay else Procedure.SIGN


def less(margin: float, than: float = 1.0, *, replay: bool = False) -> Criterion:
    """Lower than `than` (a ratio: 1, a difference: 0) by at least `margin`. `replay`: of a log, without chance."""
    return _difference(Between(high=than - margin), margin, replay=replay)


def more(margin: float, than: float = 1.0, *, replay: bool = False) -> Criterion:
    """Higher than `than` by at least `margin`."""
    return _difference(Between(low=than + margin), margin, replay=replay)


def more_up_to(margin: float, high: float) -> Criterion:
    """Higher than 1 by at least `margin`, and at most `high`."""
    return _difference(Between(1.0 + margin, high), margin, replay=False)


def _difference(accepted: Between, margin: float, *, replay: bool) -> Criterion:
    if margin <= 0:
        raise ValueError("a difference needs a margin above 0")
    return Criterion(kind=Kind.DIFFERENCE, test=_procedure(replay), accepted=accepted, margin=margin)


def alike(low: float | None, high: float | None, *, replay: bool = False) -> Criterion:
    """No difference to speak of, or none to the worse."""
    return Criterion(kind=Kind.ALIKE, test=_procedure(replay), accepted=Between(low, high))


def bound(low: float | None = None, high: float | None = None) -> Criterion:
    """A level of which the paper says a bound, or a value on a grid."""
    return Criterion(kind=Kind.LEVEL, test=Procedure.SIGN, accepted=Between(low, high))


def level(low: float, high: float) -> Criterion:
    """A level that the paper prints as a range."""
    return Criterion(kind=Kind.LEVEL, test=Procedure.RANGE, accepted=Between(low, high))


def printed(value: float, unit: float, *, replay: bool = False) -> Criterion:
    """A figure as the paper prints it: within half a unit of its last digit, and no finer than a thousandth."""
    near = max(unit / 2, _FINEST * abs(value))
    accepted = Between(value - near, value + near)
    if replay:
        return Criterion(kind=Kind.EXACT, test=Procedure.REPLAY, accepted=accepted)
    return Criterion(kind=Kind.LEVEL, test=Procedure.RANGE, accepted=accepted)


def exact(low: float | None = None, high: float | None = None) -> Criterion:
    """A replay of the paper's own log that chance has no part in."""
    return Criterion(kind=Kind.EXACT, test=Procedure.REPLAY, accepted=Between(low, high))


def other_log(criterion: Criterion, reason: str) -> Criterion:
    """The same, where the log at hand is not the paper's, so that nothing follows from either verdict."""
    return Criterion(
        kind=criterion.kind, test=criterion.test, accepted=criterion.accepted, margin=criterion.margin, reason=reason
    )  # fmt: skip


def untested(reason: str) -> Criterion:
    """Listed apart: our figure is calibrated on it, or nothing that could happen would contradict it."""
    return Criterion(kind=Kind.UNTESTED, test=Procedure.NONE, reason=reason)
