"""Made papers: a hidden world, the figures that its paper prints, and claims of which some are true in it. And a real
one with few runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emulator.experiments.atlas import command
from emulator.experiments.atlas.draws import search
from emulator.experiments.atlas.prior import Constraint, Parameter, Prior
from emulator.experiments.atlas.rule import Column
from emulator.experiments.atlas.verdict import AtlasOutcome, judge, values_in
from emulator.experiments.claims import Claim, World, plain
from emulator.experiments.criteria import bound
from emulator.experiments.realtime.paper import RealtimePaper
from emulator.sweeps.grid import Sweep
from emulator.sweeps.pools import Here

PARAMETERS = tuple(Parameter(name=name, about="", source="", low=0, high=1) for name in ("a", "b", "c"))
NOISE = 0.03
CLAIMS = 8


class MadePaper(NamedTuple):
    """`truths`: whether each claim holds in the hidden world."""

    prior: Prior
    claims: list[Claim]
    truths: list[bool]


def outcomes(place, seed, slopes):
    """What a world's workload, its baseline and its mechanism come to, with the chance of the world's own seed."""
    rng = np.random.default_rng(seed)
    a, b, c = place
    inputs = {"load": a + NOISE * rng.standard_normal()}
    baseline = {"wait": a * (1 + b) + NOISE * rng.standard_normal()}
    mechanism = {f"g{n}": float(w @ (a, b, c) + NOISE * rng.standard_normal()) for n, w in enumerate(slopes)}
    return inputs | baseline, mechanism


def slopes_of(number):
    return np.random.default_rng([number, 1]).normal(size=(CLAIMS, 3))


def made_paper(number, printed=("load", "wait"), ranges=PARAMETERS):
    """A paper that prints these figures; its claims are bounds that are drawn without a look at the hidden world."""
    rng, slopes = np.random.default_rng([number, 0]), slopes_of(number)
    figures, mechanism = outcomes(rng.random(3), 10_000 + number, slopes)
    bounds = [float(w @ rng.random(3)) for w in slopes]
    claims = [
        Claim(id=f"g{n}", statement="", where="", paper="", measure=lambda world, n=n: world("run", f"g{n}"),
              criterion=bound(low=low), show=plain)
        for n, low in enumerate(bounds)
    ]  # fmt: skip
    constraints = [
        Constraint(figure=name, of="inputs" if name == "load" else "baseline", says="", where="",
                   value=figures[name], tolerance=0.02)
        for name in printed
    ]  # fmt: skip
    truths = [mechanism[f"g{n}"] >= low for n, low in enumerate(bounds)]
    return MadePaper(Prior(parameters=ranges, constraints=tuple(constraints)), claims, truths)


def atlas_of(number, paper, worlds=60):
    """The verdicts of the atlas on a made paper."""
    slopes = slopes_of(number)

    def place_of(place):
        return tuple(paper.prior.values(tuple(place)).values())

    def assess(places, first):
        found = [outcomes(place_of(place), first + n, slopes)[0] for n, place in enumerate(places)]
        return np.array(
            [max(paper.prior.distance(of, each) for of in ("inputs", "baseline")) for each in found]
        )

    found = search(assess, 3, worlds, number, 256, 50_000)
    kept = found.met[:worlds]
    values = [
        values_in(paper.claims, str(n), World(n, {"run": outcomes(place_of(found.places[n]), n, slopes)[1]}))
        for n in kept.tolist()
    ]
    columns = [
        Column.of(each, [each.value(place) for place in found.places[kept, d]])
        for d, each in enumerate(paper.prior.parameters)
    ]
    return judge(paper.claims, values, columns)


def told_and_true(papers, **changes):
    """Of all claims of so many made papers: the verdict, the share of worlds, and the truth."""
    found = []
    for number in range(papers):
        paper = made_paper(number, **changes)
        verdicts = atlas_of(number, paper)
        found += [(each.outcome, each.share, true) for each, true in zip(verdicts, paper.truths, strict=True)]
    return found


SURE = {AtlasOutcome.HOLDS: True, AtlasOutcome.FAILS: False, AtlasOutcome.CONTRADICTED: False}


class FewRuns(RealtimePaper):
    """Real-time jobs with the runs of a few claims, and constraints that most worlds meet."""

    def sweep(self, options):
        wanted = {
            f"{scheme}/{share}/0" for scheme in ("baseline", "hpq", "pre_rest") for share in (10, 20, 30, 50)
        }
        return Sweep(
            "few", tuple(run for run in super().sweep(options).runs if run.varied["label"] in wanted)
        )

    def prior(self):
        usual = super().prior()
        on_baseline = [each for each in usual.constraints if each.of == "baseline"]
        wide = [each.model_copy(update={"low": 1.0, "high": 30.0}) for each in on_baseline]
        return usual.model_copy(update={"constraints": (usual.constraints[0], *wide)})


def nothing(*_):
    """Progress that nobody watches."""


def request(folder, worlds=20, drawing=nothing):
    said = []
    return command.Request(worlds, folder, Here(), 1, lambda: False, nothing, drawing, said.append), said
