"""The worlds of a paper: draws that agree with what it prints, and its experiments in each of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from emulator.experiments.atlas.draws import MET, search
from emulator.experiments.atlas.verdict import values_in
from emulator.experiments.claims import World
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.grid import LABEL, Run, Sweep
from emulator.sweeps.pools import on_cores
from emulator.sweeps.store import Store
from emulator.sweeps.sweep import describe, run_sweep
from emulator.text.number_text import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.experiments.atlas.draws import Search
    from emulator.experiments.atlas.prior import HasAtlas, Prior, Value
    from emulator.experiments.atlas.verdict import ClaimValue
    from emulator.experiments.claims import Claim
    from emulator.experiments.paper import Options, Paper
    from emulator.sweeps.pools import Pool

    Floats = NDArray[np.float64]

FIRST_SEED = 100_001
"""Seeds from here on are those of worlds: the first world drawn has it, the next one the next."""
SEED = 1
"""Of the quasi-random points."""
_BATCH = 256
_MOST_DRAWN = 300_000
_FIRST_REPLICA_SEED = FIRST_SEED + 1_000_000
_MOST_REPLICAS = 2000
"""So many are drawn of a world until one agrees."""
_CHUNK = 20
"""Worlds whose runs are kept in memory together."""
_ID_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Draw:
    """One world: its seed and its parameters, and a name that both give."""

    paper: str
    seed: int
    values: Mapping[str, Value]

    @property
    def id(self) -> str:
        text = json.dumps([self.paper, self.seed, dict(self.values)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]

    def options(self, options: Options) -> Options:
        """The same experiment in this world alone."""
        return replace(options, world=dict(self.values), first_seed=self.seed, seeds=1)


class Subject(NamedTuple):
    """A paper that can be run in other worlds, and its name."""

    name: str
    paper: HasAtlas


class SampledWorld(NamedTuple):
    """A world that agrees with the paper, and its figures: those that constraints are on, and those drawn."""

    draw: Draw
    figures: dict[str, float]

    def value(self, name: str) -> Value:
        """A parameter or a figure of this world."""
        return self.draw.values[name] if name in self.draw.values else self.figures[name]


class Sample(NamedTuple):
    """The worlds that agree with the paper, in the order in which they were drawn, and how they were found."""

    worlds: tuple[SampledWorld, ...]
    search: Search
    impossible: int
    """Draws of which the generator can make no workload."""


class Interrupted(Exception):
    """The user ended the command; what is finished is kept."""


@dataclass(frozen=True, slots=True)
class Means:
    """With what the runs are done."""

    pool: Pool
    cores: int
    folder: Path
    stop: Callable[[], bool]
    progress: Callable[[int, int], None]
    """Told how many of all runs are over."""
    drawing: Callable[[int, int], None]
    """Told of how many of the worlds of a round it is known whether they agree."""
    say: Callable[[str], None]


def sample(subject: Subject, prior: Prior, options: Options, target: int, means: Means) -> Sample:
    """Draw worlds until `target` agree with the paper. Raises ScenarioError if none does, and Interrupted."""
    name = subject.name
    figures: dict[int, dict[str, float]] = {}
    impossible = 0

    def assess(places: Floats, first: int) -> Floats:
        nonlocal impossible
        draws = [draw_at(name, prior, tuple(place), first + n) for n, place in enumerate(places.tolist())]
        distances, found = _assessed(subject, prior, options, draws, f"baselines/{first:06d}", means)
        impossible += int(np.isinf(distances).sum())
        figures.update({first + n: each for n, each in found.items()})
        agree = f"of these {int((distances <= MET).sum())} agree"
        means.say(f"{grouped(first + len(places))} worlds drawn, {agree}")
        return distances

    found = search(assess, len(prior.parameters), target, SEED, _BATCH, _MOST_DRAWN)
    if not len(found.met):
        raise ScenarioError(_none_agrees(name, prior, found, figures))
    worlds = tuple(
        SampledWorld(draw_at(name, prior, tuple(found.places[n].tolist()), n), _named(prior, figures[n]))
        for n in found.met[:target].tolist()
    )
    return Sample(worlds, found, impossible)


def replicas(
    subject: Subject, prior: Prior, options: Options, worlds: Sequence[SampledWorld], means: Means
) -> list[SampledWorld | None]:
    """For each world one with its parameters and another seed that agrees with the paper too; None: none was found.

    What differs between the two is chance alone. Raises Interrupted.
    """
    found: dict[int, SampledWorld] = {}
    tried = 0
    while tried < _MOST_REPLICAS and (waiting := [n for n in range(len(worlds)) if n not in found]):
        count = min(max(1, _BATCH // len(waiting)), _MOST_REPLICAS - tried)
        places = [place for place in waiting for _ in range(count)]
        draws = [
            Draw(
                subject.name,
                _FIRST_REPLICA_SEED + place * _MOST_REPLICAS + tried + n % count,
                worlds[place].draw.values,
            )
            for n, place in enumerate(places)
        ]
        distances, figures = _assessed(
            subject, prior, options, draws, f"replica-baselines/{tried:06d}", means
        )
        for n in np.flatnonzero(distances <= MET).tolist():
            found.setdefault(places[n], SampledWorld(draws[n], _named(prior, figures[n])))
        tried += count
        means.say(f"{len(found)} of {len(worlds)} worlds have a replica, after {tried} draws of each")
    return [found.get(place) for place in range(len(worlds))]


def _assessed(  # noqa: PLR0917
    subject: Subject, prior: Prior, options: Options, draws: Sequence[Draw], folder: str, means: Means
) -> tuple[Floats, dict[int, dict[str, float]]]:
    """How far each draw is from what the paper prints, and the figures of those whose workload agrees.

    Infinitely far: there is no such workload. Baselines are kept in the folder. Raises Interrupted.
    """
    paper, count = subject.paper, len(draws)
    # Half of the work is to make the workloads, the other half to run the baseline on those that agree.
    found = on_cores(
        _inputs,
        [(paper, draw.options(options)) for draw in draws],
        means.cores,
        lambda made: means.drawing(made // 2, count),
    )
    distances = np.array([np.inf if each is None else prior.distance("inputs", each) for each in found])
    met = np.flatnonzero(distances <= MET).tolist()
    rows = _baselines(
        paper,
        [draws[n].options(options) for n in met],
        Store(means.folder / folder),
        means,
        lambda run, all_: means.drawing((count + run * count // max(1, all_)) // 2, count),
    )
    means.drawing(count, count)
    figures = {n: {**(found[n] or {}), **row} for n, row in zip(met, rows, strict=True)}
    for n, each in figures.items():
        distances[n] = max(distances[n], prior.distance("baseline", each))
    return distances, figures


def draw_at(name: str, prior: Prior, place: tuple[float, ...], number: int) -> Draw:
    """The world at a place of the unit cube; `number`: how many were drawn before it."""
    return Draw(name, FIRST_SEED + number, prior.values(place))


def experiment(
    paper: Paper, claims: Sequence[Claim], options: Options, worlds: Sequence[SampledWorld], means: Means
) -> list[dict[str, ClaimValue]]:
    """Run the paper's experiments in each world; what each claim comes to there. Raises ScenarioError, Interrupted."""
    found: list[dict[str, ClaimValue]] = []
    for first in range(0, len(worlds), _CHUNK):
        chunk = worlds[first : first + _CHUNK]
        runs = {each.draw.id: _runs(paper, each.draw, options) for each in chunk}
        store = Store(means.folder / "worlds" / f"{first // _CHUNK:03d}")
        progress = _part(means.progress, first, len(chunk), len(worlds))
        _do(Sweep("atlas", tuple(run for some in runs.values() for run in some)), store, means, progress)
        for each in chunk:
            rows = {str(run.varied[LABEL]): store.row(run) for run in runs[each.draw.id]}
            world = World(each.draw.seed, {label: row for label, row in rows.items() if row is not None})
            found.append(values_in(claims, each.draw.id, world))
    return found


def _part(
    progress: Callable[[int, int], None], first: int, count: int, worlds: int
) -> Callable[[int, int], None]:
    """Progress of all worlds from that of a chunk: each has as many runs."""
    return lambda over, all_: progress(all_ * first // count + over, all_ * worlds // count)


def _runs(paper: Paper, draw: Draw, options: Options) -> list[Run]:
    runs = paper.sweep(draw.options(options)).runs
    return [replace(run, varied={**run.varied, "world": draw.id}) for run in runs]


def _inputs(pair: tuple[HasAtlas, Options]) -> dict[str, float] | None:
    """The figures of a world's workload; None: its parameters contradict each other, no workload has them."""
    paper, options = pair
    try:
        return paper.inputs(options)
    except ScenarioError:
        return None


def _baselines(
    paper: HasAtlas,
    worlds: Sequence[Options],
    store: Store,
    means: Means,
    progress: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """The row of the baseline in each world."""
    runs = [paper.baseline(options) for options in worlds]
    _do(Sweep("baselines", tuple(runs)), store, means, progress)
    return [store.row(run) or {} for run in runs]


def _do(sweep: Sweep, store: Store, means: Means, progress: Callable[[int, int], None]) -> None:
    """Raises ScenarioError for a run that failed, and Interrupted."""
    outcome = run_sweep(sweep, store, means.pool, stop=means.stop, on_done=progress)
    if outcome.interrupted:
        raise Interrupted
    for run, reason in outcome.failed:
        raise ScenarioError(f"{describe(run)}: {reason}")


def _named(prior: Prior, figures: Mapping[str, float]) -> dict[str, float]:
    names = [*(each.figure for each in prior.constraints), *(each.name for each in prior.drawn)]
    return {name: float(figures[name]) for name in names}


def _none_agrees(name: str, prior: Prior, found: Search, figures: Mapping[int, Mapping[str, float]]) -> str:
    """What to say if no world agrees: the nearest one, and the figure that it misses most."""
    drawn = grouped(len(found.places))
    text = f"reproduce {name} --atlas: of {drawn} worlds drawn none agrees with what the paper prints"
    nearest = int(np.argmin(found.distances))
    if nearest not in figures:
        return f"{text} about its workload; look at the ranges of its atlas.yaml"
    worst = max(prior.constraints, key=lambda each: each.distance(figures[nearest][each.figure]))
    low, high = worst.ends
    return f"{text}; the nearest has {worst.figure} {figures[nearest][worst.figure]:.4g}, not {low:.4g} to {high:.4g}"
