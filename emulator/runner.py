"""From a scenario to a run record, in virtual time. The live clock is `emulator/live/fleet.py`."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from balancer.clock import seconds, wall_us
from balancer.plugins import IN_USE
from emulator.harness.decisions import default_node_names
from emulator.harness.failure import PluginError, plugin_error
from emulator.harness.features import TOO_FEW, too_wide
from emulator.harness.loop import Loop
from emulator.harness.mechanism import HasArrival, HasFailures, HasMachine, ability, mechanism_of, plugin_name
from emulator.harness.moldable_cluster import MoldableCluster
from emulator.harness.partitions import partitions_on, refusals
from emulator.harness.run import make_cluster
from emulator.harness.shared_cluster import SharedNodesCluster
from emulator.job_sizes import MOLDABLE, check_moldable, sized
from emulator.metrics.recorded import beside_recorded
from emulator.node_rules import (
    COMPACT,
    PLACES,
    make_interconnect,
    make_placement,
    shared_nodes_of,
    whose_nodes,
)
from emulator.qos_rules import WHAT as QOS
from emulator.qos_rules import jobs_with_qos
from emulator.scenario import OUR_BATCH_SYSTEM, OUR_MANAGER, Scenario, ScenarioError, WorkloadPart
from emulator.scenario_events import OUTAGES, RULES, SLEEP, make_happenings
from emulator.scenario_parts import SharedNodesPart
from emulator.schedulers.slurm.scheduler import Slurm
from emulator.workload.formats import load
from emulator.workload.generators import GROUP as GENERATORS
from emulator.workload.generators import parse_generators
from emulator.workload.local_times import in_zone
from emulator.workload.own import jobs_from
from emulator.workload.recorded import RecordedWaits
from emulator.workload.relations import has_relations, ready_to_run
from emulator.workload.requests import with_requests
from emulator.workload.rules import TOO_WIDE, to_jobs
from emulator.workload.shared import shared
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from emulator.workload.transforms import apply_transforms, parse_transforms
from emulator.workload.usage_columns import usage_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from balancer.plugins import Plugins
    from emulator.harness.loop import OnProgress
    from emulator.harness.machine import Machine
    from emulator.harness.mechanism import Mechanism
    from emulator.harness.record import RunRecord
    from emulator.report.watch_page import WatchPage
    from emulator.workload.workload import Workload

UNDER_WAY = "under way"
"""Why the record of a run that goes on is not whole."""
_SHARED = "shared_nodes: jobs that share nodes by cores, memory and GPUs"
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
    """By their numbers in the jobs; empty where jobs are generated, whose users have numbers of their own."""


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
    if part.trace is not None:
        changed_ns = part.trace.stat().st_mtime_ns if part.trace.exists() else 0
        text = part.model_copy(update=_NO_CHANGES).model_dump_json()
        nodes = scenario.shared_nodes
        keys = {"cores", "memory_gib", "job_memory", "kinds"}
        what_nodes_have = "" if nodes is None else nodes.model_dump_json(include=keys)
        work = _read_trace(text, scenario.nodes, changed_ns, IN_USE.get(), what_nodes_have)
        names = {} if part.generate else work.user_names
        prepared = Prepared(work.jobs, work.nodes, work.left_out, work.counted, _recorded(work, part), names)
    else:
        if scenario.nodes is None:
            raise ScenarioError("nodes: how many nodes? (a generated workload has no header to tell)")
        prepared = Prepared(JobTable.empty(), scenario.nodes)
    generate = json.dumps(part.generate, default=str)
    if part.trace is None:
        jobs = _only_generated(generate, scenario.seed, prepared.nodes, IN_USE.get())
    else:
        jobs = _with_generated(prepared.jobs, generate, scenario.seed, prepared.nodes)
    try:
        counted = dict(prepared.counted)
        jobs = apply_transforms(transforms, jobs, nodes=prepared.nodes, seed=scenario.seed, counted=counted)
    except ValueError as error:
        raise ScenarioError(f"workload.transforms: {error}") from error
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


def _recorded(work: Workload, part: WorkloadPart) -> RecordedWaits | None:
    if work.wait_us is None or part.transforms or part.generate:
        return None
    return RecordedWaits(work.jobs.number, work.wait_us)


def _with_generated(jobs: JobTable, generate_json: str, seed: int, nodes: int) -> JobTable:
    for number, generator in enumerate(parse_generators(json.loads(generate_json))):
        name = f"workload.generate.{number}"
        try:
            jobs = jobs.merge(jobs_from(GENERATORS, generator, "generate", stream(seed, name), nodes=nodes))
        except ValueError as error:
            raise ScenarioError(f"{name}: {error}") from error
    return jobs


@lru_cache(maxsize=1)
def _only_generated(generate_json: str, seed: int, nodes: int, _: Plugins) -> JobTable:
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
        jobs = _without(jobs, parts.asked(jobs, nodes).left_out(jobs), left_out)
    return jobs


def _without(jobs: JobTable, wrong: dict[str, NDArray[np.bool_]], left_out: dict[str, int]) -> JobTable:
    """The jobs without those that are wrong, which are counted by reason; none is wrong for two."""
    goes = np.zeros(len(jobs), np.bool_)
    for why, which in wrong.items():
        if which.any():
            left_out[why] = left_out.get(why, 0) + int(which.sum())
            goes |= which
    return jobs.take(~goes) if goes.any() else jobs


@lru_cache(maxsize=2)
def _read_trace(
    part_json: str,
    nodes: int | None,
    changed_ns: int,
    plugins: Plugins,
    shared_json: str,
) -> Workload:
    """The jobs of a trace; kept, because the runs of a sweep change the same long log in many ways.

    The workers of a sweep share it, unless a plug-in may read it in its own way.
    """

    def read() -> Workload:
        return _read_anew(part_json, nodes, shared_json)

    return read() if plugins.things else shared(f"{part_json}\n{nodes}\n{changed_ns}\n{shared_json}", read)


def _read_anew(part_json: str, nodes: int | None, shared_json: str) -> Workload:
    part = WorkloadPart.model_validate_json(part_json)
    trace = cast("Path", part.trace)
    with usage_in(trace, part.usage_column), in_zone(part.time_zone) as zone:
        log = load(trace, lenient=part.lenient)
    if part.time_zone is not None and zone is not None and not zone.is_used:
        raise ScenarioError(f"workload.time_zone: all times of {part.trace} say when they were; leave it out")
    parts = SharedNodesPart.model_validate_json(shared_json) if shared_json else None
    if parts is not None and parts.cores is not None and part.procs_per_node not in {1, parts.cores}:
        raise ScenarioError(
            f"workload.procs_per_node is {part.procs_per_node}, shared_nodes.cores {parts.cores}: leave the first out"
        )
    work = to_jobs(
        log,
        nodes=nodes,
        procs_per_node=part.procs_per_node if parts is None else parts.procs_per_node(part.procs_per_node),
        overrun=part.overrun,
        size=part.size,
        origin_s=part.origin_s,
        zero_run=part.zero_run,
        dependencies=part.dependencies,
        cancelled=part.cancelled,
        queue_field=part.queue_field,
    )
    if parts is None:
        return work
    counted = dict(work.counted)
    jobs = with_requests(work, log, parts.job_memory, counted if parts.has_memory else None, part.size)
    return replace(work, jobs=jobs, counted=counted)


def make_mechanism(scenario: Scenario) -> Mechanism | None:
    """The scenario's mechanism with its parameters. Raises ScenarioError."""
    if scenario.mechanism is None:
        return None
    try:
        with scenario.plugged_in():
            return mechanism_of(scenario.mechanism)
    except (ValueError, TypeError) as error:
        raise ScenarioError(f"mechanism: {error}") from error


def make_machine(scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None) -> Machine:
    """The mechanism's own machine if it brings one, else whole nodes and a queue over them.

    Raises ScenarioError, and PluginError for a mechanism or a queue order that fails.
    """
    scheduler, jobs = scenario.scheduler_config, prepared.jobs
    decides = "" if scheduler.decide is None else plugin_name(scheduler.decide)
    if scenario.workload.overrun == "run_on" and decides == "slurm":
        raise ScenarioError(
            "workload.overrun: slurm ends jobs at their limit, so none runs on: extend or kill"
        )
    maker = ability(mechanism, HasMachine)  # type: ignore[type-abstract]
    if scenario.moldable is not None:
        return _moldable_machine(scenario, prepared, scenario.moldable.choose)
    if scenario.shared_nodes is not None:
        return _shared_machine(scenario, prepared)
    placement = make_placement(scenario, jobs, prepared.nodes)
    if placement is not None and mechanism is not None:
        raise ScenarioError(
            f"{PLACES} go with plain schedulers; the mechanism {plugin_name(scenario.mechanism)} "
            "would give such nodes away"
        )
    if placement is not None and scheduler.make_machine() is not None:
        raise ScenarioError(
            f"{PLACES} go with plain schedulers; {scheduler.label} has its own "
            "(scheduler: {slurm: {conf: ..., reservations: ...}})"
        )
    interconnect = make_interconnect(scenario, jobs, prepared.nodes)
    if maker is None:
        with scenario.plugged_in():
            cluster = _make(
                "queue order",
                scheduler.order_name,
                "its keys",
                lambda: make_cluster(prepared.nodes, scheduler, jobs, placement, interconnect),
            )
        if mechanism is not None and cluster.node_count != prepared.nodes:
            raise ScenarioError("mechanism: jobs share nodes under this scheduler: leave the mechanism out")
        return cluster
    with scenario.plugged_in():
        machine = _make(
            "mechanism",
            plugin_name(scenario.mechanism),
            "make_machine",
            lambda: maker.make_machine(prepared.nodes, scheduler, jobs, scenario.seed),
        )
    if ability(mechanism, HasArrival) is None:  # type: ignore[type-abstract]
        jobs = machine.job_table()
        for lease in jobs.number[jobs.kind == Kind.ON_DEMAND]:
            problem = "the mechanism has no on_arrival to serve it, and its machine does not either"
            raise ScenarioError(f"mechanism: job {lease} is an on-demand lease; {problem}")
    return machine


def _shared_machine(scenario: Scenario, prepared: Prepared) -> Machine:
    """Nodes that jobs share, under a plain scheduler."""
    scheduler, jobs = scenario.scheduler_config, prepared.jobs
    for what, is_there in (
        (
            f"the mechanism {plugin_name(scenario.mechanism)} has nodes of its own",
            scenario.mechanism is not None,
        ),
        (
            f"{scheduler.label} has its own (scheduler: {{slurm: {{select: ...}}}})",
            scheduler.make_machine() is not None,
        ),
        (f"{scheduler.label} is told of whole nodes", scheduler.is_plain),
        (
            "partitions, reservations and placement are of whole nodes",
            bool(scenario.partitions or scenario.reservations or scenario.placement),
        ),
    ):
        if is_there:
            raise ScenarioError(f"{_SHARED} go with plain schedulers alone; {what}")
    for lease in jobs.number[jobs.kind == Kind.ON_DEMAND][:1]:
        raise ScenarioError(f"{_SHARED} are for batch jobs; job {lease} is an on-demand lease")
    try:
        parts = shared_nodes_of(scenario, prepared.nodes)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    assert parts is not None  # noqa: S101 - asked for
    with scenario.plugged_in():
        return _make(
            "queue order",
            scheduler.order_name,
            "its keys",
            lambda: SharedNodesCluster(prepared.nodes, scheduler, jobs, parts),
        )


def _moldable_machine(scenario: Scenario, prepared: Prepared, choose: str) -> Machine:
    """Whole nodes and a queue of jobs with several sizes, under a plain scheduler."""
    check_moldable(scenario, prepared.jobs)
    scheduler = scenario.scheduler_config
    with scenario.plugged_in():
        return _make(
            "queue order",
            scheduler.order_name,
            "its keys",
            lambda: MoldableCluster(prepared.nodes, scheduler, prepared.jobs, choose),
        )


def check_live(scenario: Scenario, prepared: Prepared) -> None:
    """Raises ScenarioError for what happens in virtual time only, or with our own batch system."""
    if scenario.workload.overrun == "run_on" and scenario.live.batch_name != OUR_BATCH_SYSTEM:
        raise ScenarioError(
            f"workload.overrun: {scenario.live.batch_name} ends jobs at their walltime, so none runs on: extend or kill"
        )
    for what, is_there, keys in (
        (
            RULES,
            has_relations(prepared.jobs) or bool(scenario.limits),
            "`relations`, `dependencies`, `cancelled` and `limits`",
        ),
        (QOS, scenario.qos is not None, "`qos` (with the real Slurm: `live.batch.slurm`)"),
        (
            OUTAGES,
            bool(scenario.failures or scenario.maintenance) and not _plays_outages(scenario, prepared),
            "`failures` and `maintenance`",
        ),
        (
            PLACES,
            bool(scenario.features or scenario.partitions or scenario.reservations),
            "`features`, `partitions` and `reservations`",
        ),
        (_SHARED, scenario.shared_nodes is not None, "`shared_nodes`"),
        (COMPACT, scenario.placement is not None, "`placement`"),
        (MOLDABLE, scenario.moldable is not None, "`moldable`"),
        (
            SLEEP,
            scenario.energy is not None and scenario.energy.sleep_after_s is not None,
            "`energy.sleep_after_s`",
        ),
    ):
        if is_there:
            raise ScenarioError(f"{what} are for virtual time only; leave out {keys}")


def _plays_outages(scenario: Scenario, prepared: Prepared) -> bool:
    """Whether the live batch system is told when nodes go and come back. Raises ScenarioError."""
    live = scenario.live
    if scenario.mechanism is None:
        return live.batch_name == "slurm"
    if scenario.maintenance or ability(make_mechanism(scenario), HasFailures) is None:  # type: ignore[type-abstract]
        return False
    for what, is_there in (
        ("live.jobs: jobs sleep", live.jobs != "sleep"),
        ("live.faults: nodes fail by the model alone", bool(live.faults)),
        (
            "live.ondemand: only our manager looks after failed hosts",
            live.ondemand_name != OUR_MANAGER,
        ),
        ("checkpoints of jobs are for virtual time", "checkpoint_interval_us" in prepared.jobs.extra),
    ):
        if is_there:
            raise ScenarioError(f"failures under a mechanism, live: {what}; leave the other out")
    return live.batch_name == OUR_BATCH_SYSTEM


def _make(kind: str, name: str, event: str, make: Callable[[], Machine]) -> Machine:
    try:
        return make()
    except ValueError as error:  # what a plug-in says of its parameters and the jobs
        raise ScenarioError(f"{kind}: {error}") from error
    except Exception as error:
        raise plugin_error(f"{kind} {name}", event, 0, error) from error


def run_virtual(
    scenario: Scenario,
    prepared: Prepared,
    on_progress: OnProgress | None = None,
    *,
    page: WatchPage | None = None,
) -> RunRecord:
    """Run to the end in virtual time; an `on_progress` that answers False ends the run early, with a record.

    So does a plug-in that fails: `interrupted` and `traceback` of the record tell how. `page` shows the run so far.
    """
    return run_or_fail(scenario, prepared, on_progress, page=page)[0]


def run_or_fail(
    scenario: Scenario,
    prepared: Prepared,
    on_progress: OnProgress | None = None,
    *,
    page: WatchPage | None = None,
) -> tuple[RunRecord, PluginError | None]:
    """As `run_virtual`; also the failure of a plug-in that ended the run."""
    began_us = wall_us()
    mechanism = make_mechanism(scenario)
    machine = make_machine(scenario, prepared, mechanism)
    loop = Loop(
        machine,
        mechanism,
        node_names=getattr(machine, "node_names", None),
        name=plugin_name(scenario.mechanism),
        happenings=make_happenings(scenario, prepared, machine, mechanism),
    )
    complete = False

    def so_far() -> RunRecord:
        return describe(
            loop.record(interrupted=UNDER_WAY), scenario, prepared, wall_s=seconds(wall_us() - began_us)
        )

    def shown(now_us: int, ended: int, granted: int, rejected: int) -> bool:
        if page is not None:
            page.offer(so_far)
        return on_progress is None or on_progress(now_us, ended, granted, rejected)

    try:
        with scenario.plugged_in(), suppress(PluginError):  # the record tells of it
            complete = loop.run(on_progress if page is None else shown)
    except ValueError as error:  # a mechanism cannot serve these jobs
        raise ScenarioError(str(error)) from error
    record = loop.record(interrupted="" if complete else "stopped by the user")
    record = describe(record, scenario, prepared, wall_s=seconds(wall_us() - began_us))
    return record, loop.decisions.failure


def _not_followed(scenario: Scenario) -> tuple[str, ...]:
    """What the configuration of a whole scheduler says that it does not do: Slurm's twin tells."""
    with scenario.plugged_in():
        machine = scenario.scheduler_config.make_machine()
    return machine.not_followed() if isinstance(machine, Slurm) else ()


def describe(record: RunRecord, scenario: Scenario, prepared: Prepared, **changes: Any) -> RunRecord:
    """The record with what is known about its input."""
    return replace(
        record,
        left_out=dict(prepared.left_out),
        counted=dict(prepared.counted),
        recorded=beside_recorded(record, prepared.recorded),
        not_followed=() if record.clock == "live" else _not_followed(scenario),
        scenario=scenario.as_json(),
        seed=scenario.seed,
        **changes,
    )
