"""What an atlas found, for those who print it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.experiments.atlas.verdict import AtlasOutcome, counts
from emulator.experiments.atlas.worlds import SEED
from emulator.record.provenance import versions
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.experiments.atlas.prior import Parameter, Prior
    from emulator.experiments.atlas.verdict import AtlasVerdict
    from emulator.experiments.atlas.worlds import Sample, SampledWorld
    from emulator.experiments.paper import Options, Paper

_PLURALS = {
    AtlasOutcome.HOLDS: "hold", AtlasOutcome.FAILS: "do not hold",
    AtlasOutcome.CONTRADICTED: "are contradicted by the paper's own figures",
    AtlasOutcome.DEPENDS: "depend on a parameter", AtlasOutcome.CHANCE: "are decided by chance",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Atlas:
    """What an atlas found.

    `replicas`: of the world at this place of `sample` one that differs from it by chance alone.
    `usual`: the verdicts of `emulator reproduce` without it, by claim, if they are there.
    """

    paper: Paper
    name: str
    options: Options
    prior: Prior
    sample: Sample
    replicas: Mapping[int, SampledWorld]
    verdicts: tuple[AtlasVerdict, ...]
    usual: Mapping[str, str]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What rules may name: the parameters, and the figures that chance decides."""
        return parameters_of(self.prior, self.sample)

    @property
    def in_short(self) -> str:
        """How the claims came out."""
        found = counts(self.verdicts)
        outcomes = ", ".join(
            f"{found[each]} {_PLURALS.get(each, each)}" for each in AtlasOutcome if found[each]
        )
        drawn, worlds = len(self.sample.search.places), len(self.sample.worlds)
        agree = f"{worlds} worlds agree with what the paper prints, of {grouped(drawn)} drawn."
        return f"{agree} {len(self.verdicts)} claims: {outcomes}."

    @property
    def resolution(self) -> str:
        """What became of the claims that cannot be told without the atlas; empty if their verdicts are not known."""
        open_ = [each for each in self.verdicts if self.usual.get(each.claim.id) == AtlasOutcome.OPEN]
        if not self.usual:
            return ""
        count = sum(each.outcome is not AtlasOutcome.OPEN for each in open_)
        return f"Of {len(open_)} claims that cannot be told from seeds alone, the worlds tell {count}."

    def as_json(self) -> dict[str, Any]:
        found = self.sample
        return {
            "title": self.paper.title,
            "paper": self.name,
            "options": {
                "readings": dict(self.options.readings), "seed": SEED,
                "logs": self.options.traces is not None,
            },
            "versions": versions(),
            **self.prior.model_dump(mode="json"),
            "rounds": [
                {"drawn": each.drawn, "agree": each.met, "tolerance": each.tolerance,
                 "low": each.box.low.tolist(), "high": each.box.high.tolist()}
                for each in found.search.rounds
            ],
            "impossible": found.impossible,
            "worlds": [_as_json(each) for each in found.worlds],
            "replicas": [
                {"of": found.worlds[place].draw.id, **_as_json(each)} for place, each in self.replicas.items()
            ],
            "counts": counts(self.verdicts),
            "claims": [{**each.as_json(), "without_atlas": self.usual.get(each.claim.id)} for each in self.verdicts],
        }  # fmt: skip


def _as_json(world: SampledWorld) -> dict[str, Any]:
    draw = world.draw
    return {"id": draw.id, "seed": draw.seed, "values": dict(draw.values), "figures": world.figures}


def parameters_of(prior: Prior, found: Sample) -> tuple[Parameter, ...]:
    """The parameters, and the figures that chance decides as if they were some."""
    drawn = [each.parameter([world.figures[each.name] for world in found.worlds]) for each in prior.drawn]
    return (*prior.parameters, *drawn)
