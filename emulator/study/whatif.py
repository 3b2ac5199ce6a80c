"""What another slurm.conf would have done: a log under today's settings and under changed ones, in Slurm's twin.

How well the twin meets the waits that the log recorded comes first: what it was not told of the site (QOS,
associations, reservations) or does not know (dependencies, nodes that were down) is missing in both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from balancer.clock import US
from emulator.cluster.slurm_scheduler import Slurm, slurm_in
from emulator.metrics.intervals import blocks, mean_in_blocks
from emulator.runs.queue_partitions import partitions_by_name, people_by_name
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.conf import release_in
from emulator.schedulers.slurm.node_sizes import parameters_in, says_select_type
from emulator.schedulers.slurm.refusals import never_started
from emulator.schedulers.slurm.releases import NEWEST, followed
from emulator.schedulers.slurm.select import has_memory
from emulator.simulation.run import simulate
from emulator.text.number_text import grouped, number_of
from emulator.workload.requests import with_constraints, with_qos, with_requests
from emulator.workload.rules import ESTIMATE_MISSING, OVERRUN, not_read, processors, remarks, to_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from emulator.simulation.loop import OnProgress
    from emulator.workload.swf import SwfLog
    from emulator.workload.table import JobTable
    from emulator.workload.workload import Workload

LENT = "nodes_lent"
_FILES = ("conf", "qos", "associations")
_FAR = 1.5
_SLACK_MIN = 10.0
_FEWEST_JOBS = 10
_MOST_NAMES = 12
_SIZES = (
    (1, "1 node"),
    (4, "2 to 4 nodes"),
    (16, "5 to 16 nodes"),
    (64, "17 to 64 nodes"),
    (1 << 40, "more nodes"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """A log as jobs of the twin. `recorded_us`: what each waited, negative where the log does not say.

    `refused` counts by reason the jobs that one of the settings would never start, `notes` what was done to the log.
    """

    jobs: JobTable
    nodes: int
    recorded_us: NDArray[np.int64]
    names: Mapping[str, Mapping[int, str]]
    today: Mapping[str, Any]
    changed: Mapping[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs of a kind and their mean waits in minutes; `low_min` to `high_min`: 95 % of the draws of the change.

    These are None where there are too few days to draw. `recorded_min` is that of jobs of which the log has the start,
    `same_jobs_min` that of the same jobs in the twin today; None if there are none.
    """

    by: str
    name: str
    jobs: int
    recorded_min: float | None
    same_jobs_min: float | None
    today_min: float
    changed_min: float
    low_min: float | None
    high_min: float | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer: all jobs first, then by partition, account and size. `blocks` and `unit`: what was drawn."""

    groups: tuple[Group, ...]
    blocks: int
    unit: str
    doubts: tuple[str, ...]
    notes: tuple[str, ...]


def settings(changes: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The settings of the twin that `--set` names, and how many nodes are lent. Raises ScenarioError."""
    known = {each.name for each in fields(Slurm)}
    found, lent = {}, 0
    for key, value in changes.items():
        name = key.replace(".", "_").lower()
        if value is None:
            raise ScenarioError(f"{key}: it needs a value; leave it out for today's")
        if name in found or (name == LENT and lent):
            raise ScenarioError(f"{key}: it is set twice")
        if name == LENT:
            if not isinstance(value, int) or value < 0:
                raise ScenarioError(f"nodes.lent: how many nodes, not {value!r}")
            lent = value
        elif name in known:
            found[name] = Path(value) if name in _FILES and isinstance(value, str) else value
        else:
            raise ScenarioError(
                f"{key}: no setting of Slurm's twin; known: nodes.lent, {', '.join(sorted(known))}"
            )
    return found, lent


def read_site(
    log: SwfLog,
    *,
    nodes: int | None,
    procs_per_node: int | None = None,
    conf: Path | None,
    changes: Mapping[str, Any],
    release: str | None = None,
    qos: Path | None = None,
    associations: Path | None = None,
) -> Site:
    """The jobs that both settings can run. `release`: the site's; `qos`, `associations`: what sacctmgr printed.

    Jobs share nodes where `conf` says so and the log says what they had of their nodes, unless `procs_per_node` takes
    these as whole. Raises TraceError, ScenarioError and ValueError.
    """
    is_said = nodes is not None or log.says_size
    if conf is not None and not is_said:
        nodes = Slurm(conf=conf).site_nodes
    work = to_jobs(log, nodes=nodes, procs_per_node=procs_per_node or 1, overrun="run_on", origin_s=0)
    notes = [] if is_said else [f"{number_of(work.nodes, 'node')}, by the NodeName lines of {conf}"]
    notes += [f"left out: {grouped(count)} {reason}" for reason, count in work.left_out.items()]
    notes += [*not_read(work), *remarks(log), *_of_limits(work)]
    queue_names = log.names_of("Queue")
    changed, lent = settings(changes)
    if lent >= work.nodes:
        raise ScenarioError(f"nodes.lent: {lent} of {work.nodes} nodes; some must be left")
    files = {"conf": conf, "qos": qos, "associations": associations}
    today: dict[str, Any] = {name: path for name, path in files.items() if path is not None}
    if release is not None:
        today["release"] = followed(release)
    elif conf is None or release_in(conf) is None:
        notes.append(f"nobody says the site's version of Slurm: the rules of {NEWEST} are taken (--release)")
    work = with_constraints(with_qos(work, log), log)
    jobs, of_nodes, said = _shared(log, work, today, procs_per_node)
    today |= of_nodes
    queues = partitions_by_name(_twin(today), work.nodes, queue_names, jobs)
    today["queues"] = dict(queues.by_queue)
    today |= {"qos_names": dict(work.qos_names)} if work.qos_names else {}
    today |= {"constraint_names": dict(work.constraint_names)} if work.constraint_names else {}
    today |= people_by_name(_twin(today), log.user_names, log.group_names)
    notes += [*said, *_twin(today).not_followed(jobs, work.nodes), *queues.not_followed(conf)]
    then = {**today, **changed, **({LENT: lent} if lent else {})}
    fits = np.ones(len(jobs), np.bool_)
    for parameters, whose in ((today, "today's"), (then, "the changed")):
        slurm = _twin(parameters)
        never, why = never_started(jobs.take(fits), slurm, slurm.rules(work.nodes), work.nodes)
        if never.any():
            left_out = number_of(int(never.sum()), "job")
            notes.append(f"left out: {left_out} that {whose} settings would never start: {why}")
        if never.all():
            raise ScenarioError(f"{whose} settings would start none of the jobs: {why}")
        fits[fits] = ~never
    waited_us = np.rint(log.column("wait_s")[work.rows] * US).astype(np.int64)
    unknown = int((waited_us[fits] < 0).sum())
    if 0 < unknown < fits.sum():
        notes.append(
            f"{grouped(unknown)} jobs have no recorded start: recorded waits are those of the others"
        )
    return Site(
        jobs=jobs.take(fits),
        nodes=work.nodes,
        recorded_us=waited_us[fits],
        names={"partition": queue_names, "account": log.group_names or log.names_of("Group")},
        today=today,
        changed=then,
        notes=tuple(notes),
    )


def _of_limits(work: Workload) -> Iterator[str]:
    """Sentences on jobs whose limits are not what Slurm knew of them."""
    if missing := work.counted.get(ESTIMATE_MISSING):
        yield f"{number_of(missing, 'job')}: the log does not say the limit; the run time is taken for it"
    if over := work.counted.get(OVERRUN):
        yield f"{number_of(over, 'job')} ran longer than the limit; the twin ends them at it"


def _twin(parameters: Mapping[str, Any]) -> Slurm:
    """Raises ValueError for what a scenario could not say either."""
    return cast("Slurm", slurm_in(SchedulerConfig(decide={"slurm": dict(parameters)})))


def _shared(
    log: SwfLog, work: Workload, files: Mapping[str, Any], procs_per_node: int | None
) -> tuple[JobTable, dict[str, Any], list[str]]:
    """The jobs with what they want of their nodes, what the twin is told of these, and what is to say of it."""
    if procs_per_node is not None:
        return work.jobs, {"cpus_per_node": procs_per_node} if procs_per_node > 1 else {}, []
    said_of = {name: files[name] for name in ("conf", "release") if name in files}
    conf = files.get("conf")
    parameters = None if conf is None else parameters_in(conf, _twin(said_of).said_release() or NEWEST)
    if conf is None or parameters is None or log.nodes is None or not (processors(log)[work.rows] > 0).any():
        return work.jobs, {}, []
    counted: dict[str, int] = {}
    jobs = with_requests(work, log, counted=counted if has_memory(parameters) else None)
    by_default = "" if says_select_type(conf) else " by the default of SelectType"
    said = [f"jobs share nodes, as {conf.name} says{by_default} (whole nodes: --procs-per-node)"]
    said += [f"{grouped(count)} jobs: {what}" for what, count in counted.items()]
    return jobs, {"select": {}}, said


def answer(site: Site, *, seed: int, on_progress: OnProgress | None = None) -> WhatIf:
    """Both runs, and what differs. `on_progress`: as of one run of the jobs of both.

    Raises ValueError for settings that do not go together.
    """

    def of_changed(now_us: int, ended: int, granted: int, rejected: int) -> bool:
        return on_progress is None or on_progress(now_us, len(site.jobs) + ended, granted, rejected)

    today_us = _waits(site, site.today, on_progress)
    changed_us = _waits(site, site.changed, of_changed)
    unit, block = blocks(site.jobs.submit_us)
    groups = []
    for by, name, selected in _kinds(site):
        change = mean_in_blocks(
            (changed_us - today_us)[selected] / US / 60, block[selected], unit, seed, "whatif.bootstrap"
        )
        known = selected & (site.recorded_us >= 0)
        groups.append(
            Group(
                by=by,
                name=name,
                jobs=int(selected.sum()),
                recorded_min=_mean_min(site.recorded_us[known]),
                same_jobs_min=_mean_min(today_us[known]),
                today_min=float(today_us[selected].mean()) / US / 60,
                changed_min=float(changed_us[selected].mean()) / US / 60,
                low_min=change.low,
                high_min=change.high,
            )
        )
    return WhatIf(tuple(groups), len(np.unique(block)), unit, tuple(_doubts(groups, site)), site.notes)


def _mean_min(waits_us: NDArray[np.int64]) -> float | None:
    return float(waits_us.mean()) / US / 60 if len(waits_us) else None


def _waits(site: Site, parameters: Mapping[str, Any], on_progress: OnProgress | None) -> NDArray[np.int64]:
    scheduler = SchedulerConfig(decide={"slurm": dict(parameters)})
    record = simulate(site.jobs, site.nodes, scheduler, on_progress=on_progress)
    place = np.argsort(record.jobs.number)
    rows = place[np.searchsorted(record.jobs.number[place], site.jobs.number)]
    waits: NDArray[np.int64] = record.start_us[rows] - site.jobs.submit_us
    return waits


def _kinds(site: Site) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    jobs = site.jobs
    yield "all", "all jobs", np.ones(len(jobs), np.bool_)
    for by, column in (("partition", jobs.queue), ("account", jobs.group)):
        numbers, counts = np.unique(column, return_counts=True)
        most = numbers[np.argsort(-counts, kind="stable")][:_MOST_NAMES].tolist()
        if len(numbers) > 1:
            for number in most:
                selected = column == number
                if selected.sum() >= _FEWEST_JOBS:
                    yield by, site.names[by].get(number, str(number)), selected
    size = np.searchsorted([most for most, _ in _SIZES], jobs.nodes)
    for at, (_, name) in enumerate(_SIZES):
        if (size == at).any():
            yield "size", name, size == at


def _doubts(groups: list[Group], site: Site) -> Iterator[str]:
    """Where the twin is not the site, and what is likely missing."""
    if groups[0].recorded_min is None:
        yield "The log has no starts: whether the twin does what the site's Slurm did cannot be seen."
        return
    shared = "" if "select" in site.today else " nodes are shared (--procs-per-node),"
    for each in (group for group in groups if group.by in {"all", "partition"}):
        if each.recorded_min is None or each.same_jobs_min is None:
            yield (
                f"Of jobs of partition {each.name} the log has no starts: whether the twin is right there cannot be"
                " seen."
            )
            continue
        was, now = each.recorded_min + _SLACK_MIN, each.same_jobs_min + _SLACK_MIN
        if 1 / _FAR <= now / was <= _FAR:
            continue
        where = "Jobs" if each.by == "all" else f"Jobs of partition {each.name}"
        why = (
            f"the twin has them wait for what the site did not: there were more nodes,{shared} or jobs could run"
            " elsewhere"
            if now > was
            else "on the site they waited for something that the twin was not told of (QOS, associations,"
            " reservations) or does not know: dependencies (a job that is not eligible counts as waiting), nodes"
            " that were down"
        )
        waited = f"{grouped(each.recorded_min)} min by the log and wait {grouped(each.same_jobs_min)} min in the twin"
        yield f"{where} waited {waited}: {why}."
