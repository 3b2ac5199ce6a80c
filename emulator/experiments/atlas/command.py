"""`emulator reproduce PAPER --atlas` and `--world ID`: what they do, write and print."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from balancer.whole_file import replacing
from emulator.experiments.atlas.answer import Atlas, parameters_of
from emulator.experiments.atlas.page import render
from emulator.experiments.atlas.prior import HasAtlas
from emulator.experiments.atlas.rule import Column
from emulator.experiments.atlas.verdict import AtlasOutcome, judge
from emulator.experiments.atlas.worlds import Draw, Means, SampledWorld, Subject, experiment, replicas, sample
from emulator.report.terminal import stdout_console
from emulator.runs.scenario import ScenarioError
from emulator.text.number_text import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from emulator.experiments.atlas.prior import Prior
    from emulator.experiments.paper import Options, Paper
    from emulator.sweeps.pools import Pool

WORLDS, QUICK_WORLDS = 200, 20
_LEAST_FOR_REPLICAS = 40
ATLAS, PAGE, CLAIMS = "atlas.json", "atlas.html", "claims.json"
_STYLES = {
    AtlasOutcome.HOLDS: "green", AtlasOutcome.FAILS: "red", AtlasOutcome.CONTRADICTED: "red",
    AtlasOutcome.DEPENDS: "yellow", AtlasOutcome.CHANCE: "yellow", AtlasOutcome.OPEN: "", AtlasOutcome.UNTESTED: "dim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for, beside the paper and its options."""

    worlds: int
    folder: Path
    pool: Pool
    cores: int | None
    stop: Callable[[], bool]
    progress: Callable[[int, int], None]
    drawing: Callable[[int, int], None]
    say: Callable[[str], None]


def run_atlas(name: str, paper: Paper, options: Options, request: Request) -> Atlas:
    """Draw the worlds, run the quick experiments in each, judge, and write `atlas.json` and the page.

    Raises ScenarioError, and Interrupted: the same command goes on where it was.
    """
    subject = subject_of(name, paper)
    options = replace(options, quick=True)  # what varies are the worlds
    prior = subject.paper.prior().without(options.readings)
    usual = usual_verdicts(request.folder.with_name(name) / CLAIMS)
    cores = request.cores or len(os.sched_getaffinity(0))
    means = Means(
        request.pool, cores, request.folder, request.stop, request.progress, request.drawing, request.say
    )
    found = sample(subject, prior, options, request.worlds, means)
    if len(found.worlds) < request.worlds:
        request.say(f"only {len(found.worlds)} worlds agree with the paper, not {request.worlds}")
    claims = [claim for claim in paper.claims(options) if claim.id not in prior.not_judged]
    again = _replicas(subject, prior, options, found.worlds, means)
    values = experiment(paper, claims, options, found.worlds, means)
    of_replicas = experiment(
        paper, claims, options, [*again.values()], replace(means, folder=request.folder / "replicas")
    )
    columns = [
        Column.of(each, [world.value(each.name) for world in found.worlds])
        for each in parameters_of(prior, found)
    ]
    verdicts = tuple(judge(claims, values, columns, dict(zip(again, of_replicas, strict=True))))
    atlas = Atlas(paper, name, options, prior, found, again, verdicts, usual)
    _write(request.folder / ATLAS, json.dumps(atlas.as_json(), indent=2, ensure_ascii=False) + "\n")
    _write(request.folder / PAGE, render(atlas))
    return atlas


def _replicas(
    subject: Subject, prior: Prior, options: Options, worlds: Sequence[SampledWorld], means: Means
) -> dict[int, SampledWorld]:
    """Of every second world one that differs from it by chance alone; of few worlds none: nothing would follow."""
    if len(worlds) < _LEAST_FOR_REPLICAS:
        return {}
    some = range(0, len(worlds), 2)
    found = replicas(subject, prior, options, [worlds[place] for place in some], means)
    return {place: each for place, each in zip(some, found, strict=True) if each is not None}


def subject_of(name: str, paper: Paper) -> Subject:
    """The paper, if it can be run in other worlds. Raises ScenarioError for another one."""
    if not isinstance(paper, HasAtlas):
        raise ScenarioError(f"reproduce {name} --atlas: no file says yet what this paper leaves open")
    return Subject(name, paper)


def find_world(name: str, world: str, options: Options, folder: Path) -> Options:
    """The options with which the atlas in this folder ran a world of it. Raises ScenarioError.

    `options`: those of the command, of which the logs and what is quick are kept.
    """
    path = folder / ATLAS
    try:
        document = _read(path)
        every = (*document["worlds"], *document["replicas"])
        worlds = {each["id"]: Draw(name, each["seed"], each["values"]) for each in every}
        made = document["options"]
        readings, has_logs = dict(made["readings"]), bool(made["logs"])
    except FileNotFoundError as error:
        raise ScenarioError(
            f"--world {world}: {path}: {error.strerror}; make the atlas first: emulator reproduce {name} --atlas"
        ) from error
    except (KeyError, TypeError) as error:
        raise ScenarioError(f"--world {world}: {path}: no {error} in it; make the atlas again") from error
    if world not in worlds:
        known = ", ".join([*worlds][:3])
        raise ScenarioError(f"--world {world}: {path} has no such world; it has {known} and others")
    if has_logs != (options.traces is not None):
        raise ScenarioError(f"--world {world}: give --stand-in as for the atlas in {folder}, or neither")
    if dict(options.readings) not in ({}, readings):
        raise ScenarioError(f"--world {world}: the atlas in {folder} has its own readings; leave --read out")
    return worlds[world].options(replace(options, readings=readings))


def show(atlas: Atlas, folder: Path) -> None:
    """Print the verdicts."""
    console = stdout_console()
    console.print(f"[bold]{atlas.paper.title}[/bold]")
    for line in (atlas.in_short, atlas.resolution):
        console.print(line, markup=False, highlight=False)
    if not atlas.usual:
        console.print(
            f"Run `emulator reproduce {atlas.name}` first to see the verdicts without worlds beside these."
        )
    table = Table("claim", "without", "with worlds", "holds in", "95 % interval", "decides",
                  title="Claims over all worlds", title_justify="left", show_lines=True)  # fmt: skip
    for each in atlas.verdicts:
        style = _STYLES[each.outcome]
        text = f"[{style}]{each.outcome}[/{style}]" if style else str(each.outcome)
        low, high = each.interval
        table.add_row(
            f"[bold]{each.claim.id}[/bold] {each.claim.statement}",
            atlas.usual.get(each.claim.id, ""),
            text,
            f"{each.held} of {len(each.values)}" if each.values else "",
            f"{percent(low, 0)} to {percent(high, 0)}" if each.values else "",
            each.why if each.values else "",
        )
    console.print(table)
    console.print(f"{ATLAS} (worlds and their claims) and {PAGE} (maps) are in {folder}.", highlight=False)
    console.print(
        f"A world's runs and report: emulator reproduce {atlas.name} --quick --world ID; without --quick: of all"
        " experiments",
        highlight=False,
    )


def usual_verdicts(path: Path) -> dict[str, str]:
    """The verdicts that `emulator reproduce` wrote beside the atlas's folder; empty if it has not been run."""
    try:
        return {each["id"]: each["outcome"] for each in _read(path)["claims"]}
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError) as error:
        raise ScenarioError(
            f"{path}: no {error} in it; delete it, or run `emulator reproduce` again"
        ) from error


def _read(path: Path) -> Any:
    """A JSON file of ours. Raises ScenarioError for what is none, and FileNotFoundError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ScenarioError(
            f"{path}: not valid JSON ({error}); delete it and run the command again"
        ) from error


def _write(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")
