"""From a scenario to a run record, in virtual time. The live clock is `emulator/live/fleet.py`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from balancer.clock import seconds, wall_us
from balancer.plugins import IN_USE
from emulator.cluster.cluster import Cluster
from emulator.cluster.selections.moldable import MoldableSelection
from emulator.cluster.selections.shared_nodes import shared_cluster
from emulator.cluster.slurm_scheduler import Slurm
from emulator.config.run_parts import OUR_BATCH_SYSTEM, OUR_MANAGER
from emulator.metrics.wait_comparison import beside_recorded
from emulator.plugins import named
from emulator.plugins.failure import PluginError, plugin_error
from emulator.record.run_record import UNDER_WAY
from emulator.runs.job_sizes import MOLDABLE, check_moldable
from emulator.runs.node_rules import (
    COMPACT,
    PLACES,
    make_interconnect,
    make_placement,
    shared_nodes_of,
)
from emulator.runs.qos_rules import WHAT as QOS
from emulator.runs.queue_partitions import names_of, partitions_of
from emulator.runs.scenario import Scenario, ScenarioError
from emulator.runs.scenario_events import OUTAGES, RULES, SLEEP, make_external_events
from emulator.simulation.loop import Loop
from emulator.simulation.mechanism import (
    HasArrival,
    HasFailures,
    HasMachine,
    ability,
    mechanism_of,
    plugin_name,
)
from emulator.simulation.run import make_cluster
from emulator.workload.relations import has_relations
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.machine.machine import Machine
    from emulator.record.run_record import RunRecord
    from emulator.report.watch_page import WatchPage
    from emulator.runs.preparation import Prepared
    from emulator.schedulers.config import SchedulerConfig
    from emulator.simulation.loop import OnProgress
    from emulator.simulation.mechanism import Mechanism

_SHARED = "shared_nodes: jobs that share nodes by cores, memory and GPUs"


def make_mechanism(scenario: Scenario) -> Mechanism | None:
    """The scenario's mechanism with its parameters. Raises ScenarioError."""
    if scenario.mechanism is None:
        return None
    try:
        with scenario.plugged_in():
            made = mechanism_of(scenario.mechanism)
    except (ValueError, TypeError) as error:
        name = plugin_name(scenario.mechanism)
        with scenario.plugged_in():
            owner = "" if str(error).startswith("mechanism ") else f"mechanism{_missing_name(name, error)}: "
        raise ScenarioError(f"{owner}{error}") from error
    knows = ability(made, HasFailures)  # type: ignore[type-abstract]
    if knows is not None and not scenario.failures:
        _check_no_failures(knows, plugin_name(scenario.mechanism))
    return made


def _check_no_failures(mechanism: HasFailures, name: str) -> None:
    """Raises ScenarioError where a parameter is set that means nothing without failures."""
    defaults = {each.name: each.default for each in fields(cast("Any", mechanism))}
    for key in mechanism.only_with_failures:
        if getattr(mechanism, key) != defaults[key]:
            raise ScenarioError(
                f"mechanism: {name}: {key}: no node fails in this run; add failures, or leave it out"
            )


def make_machine(scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None) -> Machine:
    """The mechanism's own machine if it brings one, else whole nodes and a queue over them.

    Raises ScenarioError, and PluginError for a mechanism or a queue order that fails.
    """
    scheduler, jobs = _with_names(scenario, prepared), prepared.jobs
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
            cluster = make_ordered(
                scheduler, lambda: make_cluster(prepared.nodes, scheduler, jobs, placement, interconnect)
            )
        if mechanism is not None and cluster.node_count != prepared.nodes:
            raise ScenarioError("mechanism: jobs share nodes under this scheduler: leave the mechanism out")
        return cluster
    with scenario.plugged_in():
        machine = _make(
            "mechanism",
            plugin_name(scenario.mechanism),
            "make_machine",
            lambda: _machine(maker.make_machine(prepared.nodes, scheduler, jobs, scenario.seed)),
        )
    if ability(mechanism, HasArrival) is None:  # type: ignore[type-abstract]
        jobs = machine.job_table()
        for lease in jobs.number[jobs.kind == Kind.ON_DEMAND]:
            problem = "the mechanism has no on_arrival to serve it, and its machine does not either"
            raise ScenarioError(f"mechanism: job {lease} is an on-demand lease; {problem}")
    return machine


def _with_names(scenario: Scenario, prepared: Prepared) -> SchedulerConfig:
    """The scheduler; Slurm's twin is told of the log's names, unless the scenario says other ones."""
    scheduler = scenario.scheduler_config
    try:
        found = names_of(scenario, prepared)
    except ValueError:  # told where the machine is made
        return scheduler
    if not found:
        return scheduler
    return replace(scheduler, decide={"slurm": {**(named(scheduler.decide, "slurm") or {}), **found}})


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
        (f"{scheduler.label} takes whole nodes", scheduler.is_plain),
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
        return make_ordered(scheduler, lambda: shared_cluster(prepared.nodes, scheduler, jobs, parts))


def _moldable_machine(scenario: Scenario, prepared: Prepared, choose: str) -> Machine:
    """Whole nodes and a queue of jobs with several sizes, under a plain scheduler."""
    check_moldable(scenario, prepared.jobs)
    scheduler, nodes, jobs = scenario.scheduler_config, prepared.nodes, prepared.jobs

    def make() -> Machine:
        return Cluster(nodes, scheduler, jobs, selection=MoldableSelection(nodes, scheduler, jobs, choose))

    with scenario.plugged_in():
        return make_ordered(scheduler, make)


def check_live(scenario: Scenario, prepared: Prepared, why: str = "are for virtual time only") -> None:
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
            raise ScenarioError(f"{what} {why}; leave out {keys}")


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


def _machine(made: Machine) -> Machine:
    if not hasattr(made, "advance"):
        raise TypeError(f"it returned {made!r}; return a machine (docs/mechanisms.md)")
    return made


def _missing_name(name: str, error: Exception) -> str:
    """The name of a plug-in from a file, behind a blank, if its error does not say it; nothing else."""
    is_own = any(name == each.name for each in IN_USE.get().things)
    return f" {name}" if is_own and name not in str(error) else ""


def make_ordered(scheduler: SchedulerConfig, make: Callable[[], Machine]) -> Machine:
    """A machine whose jobs get their keys as it is made, by the queue order, or by the rules of a scheduler's own.

    Raises ScenarioError for what these say of their parameters and the jobs, and PluginError if they fail.
    """
    if scheduler.make_machine() is not None:
        return _make("scheduler", scheduler.label, "make_cluster", make)
    return _make("queue order", scheduler.order_name, "its keys", make)


def _make(kind: str, name: str, event: str, make: Callable[[], Machine]) -> Machine:
    try:
        return make()
    except ValueError as error:  # what a plug-in says of its parameters and the jobs
        raise ScenarioError(f"{kind}{_missing_name(name, error)}: {error}") from error
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
        external_events=make_external_events(scenario, prepared, machine, mechanism),
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
        with scenario.plugged_in():
            owner = _missing_name(plugin_name(scenario.mechanism), error)
        raise ScenarioError(f"mechanism{owner}: {error}" if owner else str(error)) from error
    record = loop.record(interrupted="" if complete else "stopped by the user")
    record = describe(record, scenario, prepared, wall_s=seconds(wall_us() - began_us))
    return record, loop.decisions.failure


def _not_followed(scenario: Scenario, prepared: Prepared) -> tuple[str, ...]:
    """What the configuration of a whole scheduler says that it does not do: Slurm's twin tells."""
    with scenario.plugged_in():
        machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm):
        return ()
    queues = partitions_of(scenario, prepared)
    named = replace(machine, **names_of(scenario, prepared))
    return (
        *named.not_followed(prepared.jobs, prepared.nodes),
        *(queues.not_followed(machine.conf) if queues else ()),
    )


def describe(record: RunRecord, scenario: Scenario, prepared: Prepared, **changes: Any) -> RunRecord:
    """The record with what is known about its input."""
    return replace(
        record,
        left_out=dict(prepared.left_out),
        counted=dict(prepared.counted),
        recorded=beside_recorded(record, prepared.recorded),
        not_followed=() if record.clock == "live" else _not_followed(scenario, prepared),
        scenario=scenario.as_json(),
        seed=scenario.seed,
        **changes,
    )
