"""What the worlds that a paper allows say of a claim: the share in which it holds, its interval, and what decides."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from math import sqrt
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from emulator.experiments.atlas.rule import Column, rank_differences, rule
from emulator.experiments.claims import MissingRunError
from emulator.experiments.criteria import Kind
from emulator.text.number_text import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.experiments.atlas.rule import Rule
    from emulator.experiments.claims import Claim, World
    from emulator.experiments.criteria import Criterion

_Z = 1.959964
"""Two-sided, 95 %."""
MOST = 0.75
"""A claim holds (or fails) if the whole interval of its share lies above this (or below one minus this)."""
NONE = 0.05
"""A claim is contradicted if it holds in no world, and in at most this share of others (73 worlds tell that)."""
DECIDES = 0.25
"""A rule is told as what decides if it explains so much of the variance, in worlds that it was not made from."""
MOSTLY = 0.5
"""Chance is told as what decides if at least so much of the variance is between worlds that differ by it alone."""


class AtlasOutcome(StrEnum):
    """The verdict over worlds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    CONTRADICTED = "contradicted by the paper's own figures"
    DEPENDS = "depends"
    CHANCE = "chance decides"
    OPEN = "cannot be told"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True)
class ClaimValue:
    """A claim in one world: our figure, and whether the claim holds with it."""

    world: str
    value: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Chance:
    """In how many of so many pairs of worlds that differ by chance alone a claim came out otherwise.

    `least`: of the claim's variance over worlds the least share (at 95 %) that lies within such pairs. It is one minus
    the closed Sobol index of all parameters together, by the pick-freeze estimator.
    """

    pairs: int
    otherwise: int
    least: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[bool, bool]], share: float) -> Self | None:
        """`share`: of all worlds in which the claim holds. None without pairs, or if all worlds agree."""
        if not pairs or share in {0.0, 1.0}:
            return None
        otherwise = sum(one is not other for one, other in pairs)
        by_chance_alone = 2 * share * (1 - share)
        return cls(len(pairs), otherwise, min(1.0, wilson(otherwise, len(pairs))[0] / by_chance_alone))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasVerdict:
    """A claim over all worlds. `rule` and `differences` say which parameters decide, `chance` how much none does.

    `replicas`: the claim in worlds that differ from one of these by chance alone.
    """

    claim: Claim
    outcome: AtlasOutcome
    values: tuple[ClaimValue, ...]
    interval: tuple[float, float]
    rule: Rule | None
    differences: dict[str, float]
    chance: Chance | None = None
    replicas: tuple[ClaimValue, ...] = ()

    @property
    def held(self) -> int:
        return sum(each.holds for each in self.values)

    @property
    def share(self) -> float:
        """Of the worlds in which it holds; 0 without any."""
        return self.held / len(self.values) if self.values else 0.0

    @property
    def nearest(self) -> ClaimValue | None:
        """Of worlds where it does not hold the one with the figure that is nearest to holding."""
        criterion = self.claim.criterion
        failing = [each for each in self.values if not each.holds]
        return min(failing, key=lambda each: _misses(criterion, each.value), default=None)

    @property
    def axes(self) -> tuple[str, ...]:
        """The two parameters that decide most, those of the rule first."""
        names = [] if self.rule is None else list(self.rule.parameters)
        names += sorted(self.differences, key=lambda name: -self.differences[name])
        return tuple(dict.fromkeys(names))[:2]

    @property
    def why(self) -> str:
        """The verdict in one sentence or two."""
        if self.outcome is AtlasOutcome.UNTESTED or not self.values:
            return self.claim.criterion.reason or "no world has the runs"
        nearest, show = self.nearest, self.claim.show
        parts = []
        if self.held == 0 and nearest is not None:
            parts.append(f"Nearest: {show(nearest.value)} in world {nearest.world}.")
        if self.rule is not None and self.rule.explained >= DECIDES:
            parts.append(f"It {self.rule.text()} ({percent(self.rule.explained, 0)} explained).")
        elif self.outcome in {AtlasOutcome.OPEN, AtlasOutcome.CHANCE}:
            parts.append(f"No parameter decides it in these {len(self.values)} worlds.")
            if self.chance is not None:
                parts.append(
                    f"Another draw of the same parameters came out otherwise in {self.chance.otherwise} of"
                    f" {self.chance.pairs} (chance explains {percent(self.chance.least, 0)} or more)."
                )
        elif self.outcome is AtlasOutcome.FAILS and self.held:
            parts.append(f"No parameter decides in which of these {len(self.values)} worlds it holds.")
        return " ".join(parts)

    def as_json(self) -> dict[str, Any]:
        nearest = self.nearest
        return {
            "id": self.claim.id,
            "statement": self.claim.statement,
            "where": self.claim.where,
            "paper": self.claim.paper,
            "told": self.outcome,
            "worlds": len(self.values),
            "held": self.held,
            "share": self.share,
            "interval": list(self.interval),
            "rule": None if self.rule is None else {
                "text": self.rule.text(),
                "explained": self.rule.explained,
                "parameters": list(self.rule.parameters),
                "leaves": [
                    {"where": list(leaf.conditions), "worlds": leaf.worlds, "held": leaf.held}
                    for leaf in self.rule.leaves
                ],
            },
            "rank_differences": self.differences,
            "chance": None if self.chance is None else asdict(self.chance),
            "nearest": None if nearest is None or self.held else {"world": nearest.world, "value": nearest.value},
            "values": {each.world: each.value for each in self.values},
            "holds_in": [each.world for each in self.values if each.holds],
            "values_in_replicas": {each.world: each.value for each in self.replicas},
            "holds_in_replicas": [each.world for each in self.replicas if each.holds],
            "why": self.why,
        }  # fmt: skip


def wilson(held: int, worlds: int) -> tuple[float, float]:
    """Wilson's interval of a share at 95 %; (0, 1) without worlds."""
    if not worlds:
        return 0.0, 1.0
    share, square = held / worlds, _Z * _Z
    middle = share + square / (2 * worlds)
    half = _Z * sqrt(share * (1 - share) / worlds + square / (4 * worlds * worlds))
    whole = 1 + square / worlds
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def counts(verdicts: Sequence[AtlasVerdict]) -> dict[AtlasOutcome, int]:
    """How many claims came out in each way."""
    found = [verdict.outcome for verdict in verdicts]
    return {each: found.count(each) for each in AtlasOutcome}


def outcome_of(held: NDArray[np.bool_], found: Rule | None, chance: Chance | None = None) -> AtlasOutcome:
    """The verdict on a claim that holds in these worlds."""
    low, high = wilson(int(held.sum()), len(held))
    if low >= MOST:
        return AtlasOutcome.HOLDS
    if high <= 1 - MOST:
        return AtlasOutcome.CONTRADICTED if not held.any() and high <= NONE else AtlasOutcome.FAILS
    if found is not None and found.explained >= DECIDES:
        return AtlasOutcome.DEPENDS
    return AtlasOutcome.CHANCE if chance is not None and chance.least >= MOSTLY else AtlasOutcome.OPEN


def values_in(claims: Sequence[Claim], name: str, world: World) -> dict[str, ClaimValue]:
    """Each claim in one world, by the claim's id; a claim whose runs this world does not have is left out."""
    found = {}
    for claim in claims:
        if claim.criterion.reason:  # not tested, or no log here can tell
            continue
        try:
            value = claim.measure(world)
        except (MissingRunError, ZeroDivisionError):
            continue
        found[claim.id] = ClaimValue(name, value, claim.criterion.holds_in(value))
    return found


def judge(
    claims: Sequence[Claim],
    found: Sequence[Mapping[str, ClaimValue]],
    columns: Sequence[Column],
    replicas: Mapping[int, Mapping[str, ClaimValue]] | None = None,
) -> list[AtlasVerdict]:
    """The verdict on each claim from what `values_in` found in each world; `columns`: the worlds' parameters.

    `replicas`: the same of another world with the parameters of that at this place.
    """
    verdicts = []
    for claim in claims:
        places = [place for place, world in enumerate(found) if claim.id in world]
        some = [Column(each.parameter, each.codes[places]) for each in columns]
        pairs = [
            (found[place][claim.id], again[claim.id])
            for place, again in (replicas or {}).items()
            if claim.id in found[place] and claim.id in again
        ]
        verdicts.append(verdict_of(claim, [found[place][claim.id] for place in places], some, pairs))
    return verdicts


def verdict_of(
    claim: Claim,
    values: Sequence[ClaimValue],
    columns: Sequence[Column],
    pairs: Sequence[tuple[ClaimValue, ClaimValue]] = (),
) -> AtlasVerdict:
    """The verdict from the claim's figure in each world; `columns` has the parameters of these worlds.

    `pairs`: the claim in a world, and in one that differs from it by chance alone.
    """
    held = np.array([each.holds for each in values], bool)
    best = rule(columns, held) if len(held) else None
    alike = [(one.holds, other.holds) for one, other in pairs]
    chance = Chance.of(alike, float(held.mean())) if len(held) else None
    is_tested = claim.criterion.kind is not Kind.UNTESTED
    verdict = outcome_of(held, best, chance) if is_tested else AtlasOutcome.UNTESTED
    return AtlasVerdict(
        claim=claim,
        outcome=verdict,
        values=tuple(values),
        interval=wilson(int(held.sum()), len(held)),
        rule=best,
        differences=rank_differences(columns, held) if len(held) else {},
        chance=chance,
        replicas=tuple(other for _, other in pairs),
    )


def _misses(criterion: Criterion, value: float) -> float:
    """How far a figure is from what is accepted."""
    low, high = criterion.accepted.low, criterion.accepted.high
    return max(0.0 if low is None else low - value, 0.0 if high is None else value - high, 0.0)
