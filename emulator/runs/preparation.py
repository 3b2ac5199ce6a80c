"""The jobs of a scenario: read or generated, transformed, and only those that its nodes and rules can run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from balancer.plugins import IN_USE
from emulator.cluster.features import TOO_FEW, too_wide
from emulator.cluster.partitions import partitions_on, refusals
from emulator.cluster.slurm_scheduler import slurm_in
from emulator.config.node_names import default_node_names
from emulator.config.run_parts import WorkloadPart
from emulator.runs.job_sizes import sized
from emulator.runs.node_rules import (
    shared_nodes_of,
    whose_nodes,
)
from emulator.runs.qos_rules import jobs_with_qos
from emulator.runs.scenario import Scenario, ScenarioError
from emulator.schedulers.slurm.select import has_memory
from emulator.workload.formats import GROUP as FORMATS
from emulator.workload.formats import load
from emulator.workload.generators import GROUP as GENERATORS
from emulator.workload.generators import parse_generators
from emulator.workload.local_times import in_zone
from emulator.workload.named_labels import LABELS, names_known
from emulator.workload.plugin_errors import jobs_from
from emulator.workload.recorded_waits import RecordedWaits
from emulator.workload.relations import ready_to_run
from emulator.workload.requests import with_constraints, with_qos, with_requests
from emulator.workload.rules import TOO_WIDE, limited, to_jobs
from emulator.workload.shared_memory import shared
from emulator.workload.streams import stream
from emulator.workload.table import JobTable
from emulator.workload.transforms import apply_transforms, parse_transforms
from emulator.workload.usage_columns import usage_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from balancer.plugins import Plugins
    from emulator.cluster.slurm_scheduler import Slurm
    from emulator.workload.workload import Workload

_NO_CHANGES: dict[str, list[Any]] = {"generate": [], "transforms": []}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scenario's jobs, ready to run, with what the input rules did to them."""

    jobs: JobTable
    nodes: int
    left_out: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    recorded: RecordedWaits | None = None
    """Of the log's jobs; None where they are not run as the log has them."""
    user_names: Mapping[int, str] = field(default_factory=dict)
    """By their numbers in the jobs. Users and groups of generated jobs have other numbers where the log has names."""
    queue_names: Mapping[int, str] = field(default_factory=dict)
    """Likewise, of the log's queues."""
    group_names: Mapping[int, str] = field(default_factory=dict)
    """Likewise, of its groups."""
    qos_names: Mapping[int, str] = field(default_factory=dict)
    """Likewise, of its QOS, for Slurm's twin."""
    constraint_names: Mapping[int, str] = field(default_factory=dict)
    """Likewise, of what its jobs ask of nodes, for Slurm's twin."""


def prepare(scenario: Scenario) -> Prepared:
    """Read or generate the jobs and transform them. Raises ScenarioError or the reader's TraceError."""
    with scenario.plugged_in():
        return _prepare(scenario)


def _prepare(scenario: Scenario) -> Prepared:
    part = scenario.workload
    try:
        transforms = parse_transforms(part.transforms)
        parse_generators(part.generate)
    except ValueError as error:
        raise ScenarioError(f"workload: {error}") from error
    size, asks = _of_nodes(scenario)
    if part.trace is not None:
        changed_ns = part.trace.stat().st_mtime_ns if part.trace.exists() else 0
        text = part.model_copy(update=_NO_CHANGES).model_dump_json()
        read = _read_trace.__wrapped__ if _is_given_in_python(FORMATS) else _read_trace
        work = read(text, size, changed_ns, IN_USE.get(), asks)
        prepared = Prepared(
            work.jobs,
            work.nodes,
            work.left_out,
            work.counted,
            _recorded(work, part),
            user_names=work.user_names,
            queue_names=work.queue_names,
            group_names=work.group_names,
            qos_names=work.qos_names,
            constraint_names=work.constraint_names,
        )
    else:
        nodes = size.said or size.of_site
        if nodes is None:
            raise ScenarioError("nodes: how many nodes? (a generated workload has no header to tell)")
        prepared = Prepared(JobTable.empty(), nodes)
    generate = json.dumps(part.generate, default=str)
    if part.trace is None and not _is_given_in_python(GENERATORS):
        changed = _last_changes(part.generate)
        jobs = _only_generated(generate, scenario.seed, prepared.nodes, IN_USE.get(), changed)
    elif part.trace is None:
        jobs = _with_generated(JobTable.empty(), generate, scenario.seed, prepared.nodes)
    else:
        jobs = _with_generated(prepared.jobs, generate, scenario.seed, prepared.nodes, prepared)
    counted = dict(prepared.counted)
    jobs = limited(jobs, part.overrun, counted)
    jobs, prepared = _transformed(transforms, jobs, prepared, scenario.seed, counted)
    left_out = dict(prepared.left_out)
    fits = jobs.nodes <= prepared.nodes
    if not fits.all():
        left_out[TOO_WIDE] = left_out.get(TOO_WIDE, 0) + int((~fits).sum())
        jobs = jobs.take(fits)
    try:
        jobs = _that_may_run(scenario, jobs, prepared.nodes, left_out)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    if not len(jobs):
        raise ScenarioError("workload: no job is left to run after the input rules and transforms")
    jobs = sized(scenario, jobs, prepared.nodes, counted)
    try:
        jobs = ready_to_run(jobs)
    except ValueError as error:
        raise ScenarioError(f"workload: {error}") from error
    return replace(prepared, jobs=jobs, left_out=left_out, counted=counted)


def _transformed(
    transforms: list[Any], jobs: JobTable, prepared: Prepared, seed: int, counted: dict[str, int]
) -> tuple[JobTable, Prepared]:
    """The jobs after all transforms, and `prepared` with the names that these bring. Raises ScenarioError."""
    names = {label: dict(getattr(prepared, f"{label}_names")) for label in LABELS}
    try:
        with names_known(names):
            jobs = apply_transforms(transforms, jobs, nodes=prepared.nodes, seed=seed, counted=counted)
    except ValueError as error:
        raise ScenarioError(f"workload.transforms: {error}") from error
    named: dict[str, Any] = {f"{label}_names": names[label] for label in LABELS}
    return jobs, replace(prepared, **named)


def _recorded(work: Workload, part: WorkloadPart) -> RecordedWaits | None:
    if work.wait_us is None or part.transforms or part.generate:
        return None
    return RecordedWaits(work.jobs.number, work.wait_us)


def _with_generated(
    jobs: JobTable, generate_json: str, seed: int, nodes: int, log: Prepared | None = None
) -> JobTable:
    for number, generator in enumerate(parse_generators(json.loads(generate_json))):
        name = f"workload.generate.{number}"
        try:
            made = jobs_from(GENERATORS, generator, "generate", stream(seed, name), nodes=nodes)
            jobs = jobs.merge(made if log is None else _strangers(made, log))
        except ValueError as error:
            raise ScenarioError(f"{name}: {error}") from error
    return jobs


def _strangers(made: JobTable, log: Prepared) -> JobTable:
    """Generated jobs whose users and groups are none of those that the log names: numbers behind the largest of these.

    A queue keeps its number: it is the log's queue. Raises ValueError where numbers run out.
    """
    labels: dict[str, Any] = {}
    for label, names in (("user", log.user_names), ("group", log.group_names)):
        known = getattr(made, label) >= 0
        numbers = getattr(made, label).astype(np.int64) + np.where(known, max(names, default=-1) + 1, 0)
        if numbers.max(initial=0) > np.iinfo(np.int32).max:
            raise ValueError(
                f"its largest {label} is {getattr(made, label).max()}, which leaves none for the log's"
            )
        labels[label] = numbers.astype(np.int32)
    return replace(made, **labels)


def _is_given_in_python(group: str) -> bool:
    """Whether plug-ins of this kind may do something else at each call, as a cell of a notebook that is run anew."""
    return any(each.group == group and each.identity for each in IN_USE.get().things)


def _last_changes(items: Any) -> tuple[int, ...]:
    """When the files that generators name were changed last."""
    if isinstance(items, dict | list):
        inner = items.values() if isinstance(items, dict) else items
        return tuple(chain.from_iterable(map(_last_changes, inner)))
    is_file = isinstance(items, str | os.PathLike) and os.path.isfile(items)  # noqa: PTH113 - no error for what is no path
    return (Path(items).stat().st_mtime_ns,) if is_file else ()


@lru_cache(maxsize=1)
def _only_generated(
    generate_json: str, seed: int, nodes: int, _: Plugins, _changed: tuple[int, ...]
) -> JobTable:
    """Kept, because a sweep makes many workloads of one generated log; its runs come in the order of the sweep."""
    return _with_generated(JobTable.empty(), generate_json, seed, nodes)


def _that_may_run(scenario: Scenario, jobs: JobTable, nodes: int, left_out: dict[str, int]) -> JobTable:
    """The jobs that partitions, features, QOS and the parts of nodes leave. Raises ValueError."""
    if scenario.partitions:
        found = partitions_on(scenario.partitions, default_node_names(nodes))
        jobs = _without(jobs, dict(refusals(jobs, found)), left_out)
    if scenario.partitions or scenario.features:
        wide = too_wide(jobs, whose_nodes(scenario, jobs, nodes))
        jobs = _without(jobs, {TOO_FEW: wide}, left_out)
    jobs = jobs_with_qos(scenario, jobs, nodes, left_out)
    if (parts := shared_nodes_of(scenario, nodes)) is not None:
        jobs = _without(jobs, parts.requests_of(jobs, nodes).left_out(jobs), left_out)
    return jobs


def _without(jobs: JobTable, wrong: dict[str, NDArray[np.bool_]], left_out: dict[str, int]) -> JobTable:
    """The jobs without those that are wrong, which are counted by reason; none is wrong for two."""
    goes = np.zeros(len(jobs), np.bool_)
    for why, which in wrong.items():
        if which.any():
            left_out[why] = left_out.get(why, 0) + int(which.sum())
            goes |= which
    return jobs.take(~goes) if goes.any() else jobs


class _Size(NamedTuple):
    """How many nodes there are: as `said`, else by the header of the log, else `of_site` by its slurm.conf."""

    said: int | None
    of_site: int | None


def _size_of(scenario: Scenario, twin: Slurm | None) -> _Size:
    """Raises ValueError for a slurm.conf that cannot be used."""
    if scenario.nodes is not None or twin is None:
        return _Size(scenario.nodes, None)
    return _Size(None, twin.site_nodes)


class _PartsOfNodes(NamedTuple):
    """Jobs of a trace share nodes: how its processors are put on them, and which memory they take.

    `has_memory`: whether somebody looks at it.
    """

    procs_per_node: int
    job_memory: Literal["requested", "used"]
    has_memory: bool


class _Asks(NamedTuple):
    """What is read of a trace beside sizes and times: parts of nodes, None for whole ones; for Slurm's twin more.

    That is the QOS and constraint of each job.
    """

    parts: _PartsOfNodes | None = None
    for_slurm: bool = False


def _of_nodes(scenario: Scenario) -> tuple[_Size, _Asks]:
    """How many nodes there are, and what is read of a trace because of them. Raises ScenarioError."""
    try:
        twin = slurm_in(scenario.scheduler_config)
        size = _size_of(scenario, twin)
        if scenario.workload.trace is None:
            return size, _Asks()
        return size, _Asks(_parts_of_nodes(scenario, twin), for_slurm=twin is not None)
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def _parts_of_nodes(scenario: Scenario, twin: Slurm | None) -> _PartsOfNodes | None:
    """None where jobs have whole nodes. Raises ValueError."""
    part = scenario.shared_nodes
    if part is not None:
        fewest = part.cores or min(each.cores for each in part.kinds.values())
        procs = _procs_per_node(scenario, "shared_nodes.cores", part.cores, fewest)
        return _PartsOfNodes(procs, part.job_memory, part.has_memory)
    if twin is None or twin.select is None:
        return None
    cores = twin.select.cores
    procs = _procs_per_node(scenario, "scheduler.slurm.select.cores", cores, twin.fewest_cores)
    return _PartsOfNodes(procs, "requested", has_memory(twin.select_parameters))


def _procs_per_node(scenario: Scenario, where: str, cores: int | None, fewest: int) -> int:
    """`cores` of all nodes, as `where` says them; None: they differ, `fewest` has the smallest."""
    said = scenario.workload.procs_per_node
    if cores is not None and said not in {1, cores}:
        raise ScenarioError(f"workload.procs_per_node is {said}, {where} {cores}: leave the first out")
    return cores or (said if said > 1 else fewest)


@lru_cache(maxsize=2)
def _read_trace(
    part_json: str,
    size: _Size,
    changed_ns: int,
    plugins: Plugins,
    asks: _Asks,
) -> Workload:
    """The jobs of a trace; kept, because the runs of a sweep change the same long log in many ways.

    The workers of a sweep share it, unless a plug-in may read it in its own way.
    """

    def read() -> Workload:
        return _read_anew(part_json, size, asks)

    return read() if plugins.things else shared(f"{part_json}\n{size}\n{changed_ns}\n{asks}", read)


def _read_anew(part_json: str, size: _Size, asks: _Asks) -> Workload:
    parts = asks.parts
    part = WorkloadPart.model_validate_json(part_json)
    trace = cast("Path", part.trace)
    with usage_in(trace, part.usage_column), in_zone(part.time_zone) as zone:
        log = load(trace, lenient=part.lenient)
    if part.time_zone is not None and zone is not None and not zone.is_used:
        raise ScenarioError(f"workload.time_zone: all times of {part.trace} say when they were; leave it out")
    work = to_jobs(
        log,
        nodes=size.of_site if size.said is None and not log.says_size else size.said,
        procs_per_node=part.procs_per_node if parts is None else parts.procs_per_node,
        overrun=part.overrun,
        size=part.size,
        origin_s=part.origin_s,
        zero_run=part.zero_run,
        no_estimate=part.no_estimate,
        dependencies=part.dependencies,
        cancelled=part.cancelled,
        queue_field=part.queue_field,
    )
    if asks.for_slurm:
        work = with_constraints(with_qos(work, log), log)
    if parts is None:
        return work
    counted = dict(work.counted)
    jobs = with_requests(work, log, parts.job_memory, counted if parts.has_memory else None, part.size)
    return replace(work, jobs=jobs, counted=counted)
