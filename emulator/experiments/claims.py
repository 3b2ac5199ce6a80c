"""A claim of a paper as data, and the verdict on it over several seeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from emulator.experiments.criteria import LEVEL, Kind, Outcome, Procedure, median_interval
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from emulator.experiments.criteria import Criterion


class MissingRunError(LookupError):
    """A claim looks at a run that the sweep does not have (its failure was reported)."""


@dataclass(frozen=True, slots=True)
class World:
    """The runs of one seed, by label."""

    seed: int
    rows: Mapping[str, Mapping[str, Any]]

    def __call__(self, label: str, figure: str) -> float:
        """A figure of a run. Raises MissingRunError if there is no such run or figure."""
        value = self.rows.get(label, {}).get(figure)
        if value is None:
            raise MissingRunError(f"run {label!r} has no {figure}")
        return float(value)

    def has(self, label: str) -> bool:
        return label in self.rows


def worlds(rows: Iterable[Mapping[str, Any]]) -> tuple[World, ...]:
    """The rows of a sweep by seed, in order of seeds."""
    by_seed: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_seed.setdefault(int(row["seed"]), {})[str(row["label"])] = row
    return tuple(World(seed, by_seed[seed]) for seed in sorted(by_seed))


Measure = "Callable[[World], float]"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, and when we say that it holds: a row, in this order.

    `measure` computes our figure from the runs of one seed. `criterion` says what kind of claim it is and decides
    over the seeds whether it holds; it was written down before the runs. `also` measures the same under another
    reading of what the paper leaves open, by the reading's name. `open_points` says what could explain a difference.
    """

    id: str
    statement: str
    where: str
    paper: str
    measure: Callable[[World], float]
    criterion: Criterion
    show: Callable[[float], str]
    also: Mapping[str, Callable[[World], float]] = field(default_factory=dict)
    open_points: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a claim came out. `values` is one figure a seed; empty if none could be computed."""

    claim: Claim
    values: tuple[float, ...]
    also: Mapping[str, tuple[float, ...]]
    problem: str = ""

    @property
    def outcome(self) -> Outcome:
        return self.claim.criterion.judge(self.values)

    @property
    def holds(self) -> bool:
        return self.outcome is Outcome.HOLDS

    @property
    def n(self) -> int:
        """How many figures decide; a deterministic run is one, however often it was run."""
        return len(set(self.values)) if self.claim.criterion.test is Procedure.REPLAY else len(self.values)

    @property
    def ours(self) -> str:
        return self.claim.show(median(self.values)) if self.values else "none"

    @property
    def spread(self) -> str:
        """Least and largest over the seeds; empty where there is one figure."""
        if self.n <= 1:
            return ""
        return f"{self.claim.show(min(self.values))} to {self.claim.show(max(self.values))}"

    @property
    def why(self) -> str:
        """The reason for the verdict in one or a few sentences."""
        return f"{self.reason} {self.open_points}".rstrip()

    @property
    def open_points(self) -> str:
        """What could explain why our runs do not show the claim; empty where they do, or where they are missing."""
        return "" if self.holds or self._is_missing else self.claim.open_points

    @property
    def _is_missing(self) -> bool:
        return not self.values and self.claim.criterion.kind is not Kind.UNTESTED

    @property
    def reason(self) -> str:
        """The reason for the verdict, without what could explain it."""
        claim = self.claim
        if self._is_missing:
            return self.problem
        parts = [self._accepted()]
        if claim.criterion.reason:
            parts.append(claim.criterion.reason)
        for name, values in self.also.items():
            middle = claim.show(median(values)) if values else "not run"
            ends = f" ({claim.show(min(values))} to {claim.show(max(values))})" if len(values) > 1 else ""
            parts.append(f"Under reading {name}: {middle}{ends}.")
        return " ".join(parts)

    def _accepted(self) -> str:
        criterion = self.claim.criterion
        if criterion.kind is Kind.UNTESTED:
            return "Not tested."
        met = sum(map(criterion.accepted.holds, self.values))
        p = criterion.p(self.values)
        test = f" (sign test: p = {p:.2g})" if p is not None else ""
        how = f"met with {met} of {self.n} seeds"
        if criterion.test is Procedure.REPLAY:
            how = f"{'met' if met == len(self.values) else 'not met'} (deterministic run)"
        return f"Accepted: {criterion.accepted.text(self.claim.show)}; {how}{test}."

    def as_json(self) -> dict[str, Any]:
        claim, criterion = self.claim, self.claim.criterion
        interval = median_interval(self.values)
        return {
            "id": claim.id,
            "statement": claim.statement,
            "where": claim.where,
            "paper": claim.paper,
            "ours": self.ours,
            "spread": self.spread,
            "mean": fmean(self.values) if self.values else None,
            "values": list(self.values),
            "kind": criterion.kind,
            "accepted": "" if criterion.kind is Kind.UNTESTED else criterion.accepted.text(claim.show),
            "margin": criterion.margin,
            "test": criterion.test,
            "level": LEVEL if criterion.test in {Procedure.SIGN, Procedure.RANGE} else None,
            "n": self.n,
            "p": criterion.p(self.values),
            "interval": list(interval) if interval else None,
            "also": {name: list(values) for name, values in self.also.items()},
            "outcome": self.outcome,
            "holds": self.holds,
            "why": self.why,
        }


def counted(verdicts: Iterable[Verdict]) -> dict[Outcome, int]:
    """How many claims came out in each way, in the order in which they are told."""
    outcomes = [verdict.outcome for verdict in verdicts]
    return {outcome: outcomes.count(outcome) for outcome in Outcome}


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many claims these runs decide and how, how many they leave open, and how many are not tested."""
    found = counted(verdicts)
    holds, fails, is_open = (found[each] for each in (Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN))
    decided = f"{holds + fails} of {holds + fails + is_open} claims"
    text = f"{decided} can be decided from these runs: {holds} held, {fails} not."
    if is_open:
        text += f" {is_open} undecided: they need more seeds or another trace."
    return text + (f" {found[Outcome.UNTESTED]} not tested." if found[Outcome.UNTESTED] else "")


def open_points(verdicts: Iterable[Verdict]) -> dict[str, list[str]]:
    """What could explain claims that do not hold, each once, with the names of the claims."""
    found: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.open_points:
            found.setdefault(verdict.open_points, []).append(verdict.claim.id)
    return found


def judge(claims: Sequence[Claim], found: Sequence[World]) -> list[Verdict]:
    """The verdict on each claim."""
    return [_judge(claim, found) for claim in claims]


def _judge(claim: Claim, found: Sequence[World]) -> Verdict:
    problem = "there are no runs"
    values = []
    for world in found:
        try:
            values.append(claim.measure(world))
        except MissingRunError as error:
            problem = str(error)
        except ZeroDivisionError:
            problem = "what it is compared with is 0"
    also: dict[str, tuple[float, ...]] = {}
    for name, measure in claim.also.items():
        also[name] = tuple(_values(measure, found))
    return Verdict(claim=claim, values=tuple(values), also=also, problem=problem)


def _values(measure: Callable[[World], float], found: Sequence[World]) -> list[float]:
    values = []
    for world in found:
        try:
            values.append(measure(world))
        except (MissingRunError, ZeroDivisionError):
            continue
    return values


def middle(found: Sequence[World], label: str, figure: str) -> float | None:
    """The median over the seeds of a run's figure; None if nobody has it."""
    values = _values(lambda world: world(label, figure), found)
    return median(values) if values else None


def middle_text(found: Sequence[World], label: str, figure: str, factor: float) -> str:
    """The median in other units, for a table; '' if nobody has it."""
    value = middle(found, label, figure)
    return "" if value is None else f"{value * factor:.1f}"


# How figures are shown.


def plain(value: float) -> str:
    return grouped(value, 2)


def count(value: float) -> str:
    return grouped(value, 0 if value == round(value) else 1)


def points(value: float) -> str:
    """A difference of shares."""
    return f"{grouped(100 * value, 1)} points"


def times(value: float) -> str:
    return f"{grouped(value, 1)}x"


def minutes(value: float) -> str:
    return f"{grouped(value)} min"
