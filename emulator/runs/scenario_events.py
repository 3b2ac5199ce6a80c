"""What happens to a scenario's jobs and nodes whoever schedules: rules of jobs, outages, nodes that sleep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from emulator.cluster.cluster import Cluster
from emulator.cluster.placement import Boundaries
from emulator.config.node_names import default_node_names
from emulator.events import node_failures
from emulator.events.external_events import ExternalEvents
from emulator.events.job_limits import limits_of
from emulator.events.job_rules import JobRules
from emulator.events.node_failures import Outage
from emulator.events.node_outages import NodeOutages, window_of
from emulator.events.power import SleepingNodes, SleepTimes
from emulator.machine.machine import HasOutages
from emulator.plugins import make_plugin
from emulator.plugins.failure import plugin_error
from emulator.runs.qos_rules import WHAT as QOS
from emulator.runs.qos_rules import check_scheduler
from emulator.runs.scenario import Scenario, ScenarioError
from emulator.simulation.mechanism import HasFailures, ability, plugin_name
from emulator.workload.files import TraceError
from emulator.workload.plugin_errors import is_own
from emulator.workload.relations import has_relations
from emulator.workload.streams import stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.random import Generator

    from emulator.config.run_parts import FailuresPart
    from emulator.events.node_failures import FailureModel
    from emulator.machine.machine import Machine
    from emulator.runs.preparation import Prepared
    from emulator.simulation.mechanism import Mechanism

# What a message says of keys that go only with some runs.
RULES = "workload, limits: dependencies, arrays, limits of users, cancellations and deadlines"
OUTAGES = "failures, maintenance: nodes that fail or are maintained"
SLEEP = "energy: nodes that are switched off"


def make_external_events(
    scenario: Scenario, prepared: Prepared, machine: Machine, mechanism: Mechanism | None
) -> ExternalEvents | None:
    """What happens to these jobs and nodes whoever schedules; None if nothing does.

    Raises ScenarioError, TraceError.
    """
    fails = bool(scenario.failures or scenario.maintenance)
    check_scheduler(scenario, prepared.jobs)
    try:
        limits = limits_of(scenario.limits, scenario.qos)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    has_rules = has_relations(prepared.jobs) or bool(limits)
    energy = scenario.energy
    if energy is not None and not (isinstance(machine, Cluster) and machine.node_count == prepared.nodes):
        raise ScenarioError(
            f"energy: it counts whole nodes; {_own_rules(scenario)} gives parts of them, or many as one"
        )
    sleeps = energy is not None and energy.sleep_after_s is not None
    selection = machine.selection if isinstance(machine, Cluster) else None
    boundaries = Boundaries(selection.events_us) if selection is not None and selection.events_us else None
    has_qos = scenario.qos is not None
    if not (fails or has_rules or sleeps or boundaries or has_qos):
        return None
    what = QOS if has_qos else RULES if has_rules else OUTAGES if fails else SLEEP
    only_fails = fails and not (has_rules or sleeps or has_qos)
    decides = machine.rules if only_fails and isinstance(machine, Cluster) else None
    own = ability(decides, HasOutages)  # type: ignore[type-abstract]
    if own is None and not (isinstance(machine, Cluster) and machine.takes_events):
        raise ScenarioError(
            f"{what} go with plain schedulers on whole nodes; {_own_rules(scenario)} decides over its jobs itself"
        )
    if mechanism is not None:
        _check_mechanism(scenario, machine, mechanism, sleeps=sleeps)
    try:
        rules = JobRules(prepared.jobs, limits) if has_rules else None
        requeues = own is None or own.expect_outages()
        outages = outages_of(scenario, prepared.nodes, requeues=requeues) if fails else None
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    sleeping = None
    if energy is not None and sleeps:
        sleeping = SleepingNodes(SleepTimes.of(energy.model_dump()))
    return ExternalEvents(rules, outages, sleeping, boundaries)


def _own_rules(scenario: Scenario) -> str:
    """What in the scenario has a machine with rules of its own."""
    if scenario.shared_nodes is not None:
        return "shared_nodes"
    if scenario.mechanism is not None:
        return f"the mechanism {plugin_name(scenario.mechanism)}"
    if scenario.scheduler_config.predict is not None:
        return "scheduler.predict"
    return f"the scheduler {scenario.scheduler_config.label}"


def _check_mechanism(scenario: Scenario, machine: Machine, mechanism: Mechanism, *, sleeps: bool) -> None:
    """Tells a mechanism that knows of failures that there are some. Raises ScenarioError for one that does not."""
    name = plugin_name(scenario.mechanism)
    knows = ability(mechanism, HasFailures)  # type: ignore[type-abstract]
    if scenario.maintenance and knows is not None:
        raise ScenarioError(
            f"maintenance goes with plain schedulers; {name} has `failures` alone: leave maintenance out"
        )
    if (
        scenario.failures
        and knows is not None
        and not (isinstance(machine, Cluster) and machine.counts_nodes)
    ):
        raise ScenarioError(
            f"failures go with {name} under a plain scheduler on whole nodes, "
            f"not under {scenario.scheduler_config.label}"
        )
    if sleeps or ((scenario.failures or scenario.maintenance) and knows is None):
        what = OUTAGES if scenario.failures or scenario.maintenance else SLEEP
        raise ScenarioError(
            f"{what} go with plain schedulers; the mechanism {name} would give away nodes that are down "
            "(failures go with balancer and static_partition; hybrid has its own, mtbf_s)"
        )
    if scenario.failures and knows is not None:
        try:
            knows.expect_failures()
        except ValueError as error:
            raise ScenarioError(f"mechanism: {error}") from error


def outages_of(scenario: Scenario, nodes: int, *, requeues: bool = True) -> NodeOutages:
    """When nodes go and come back. `requeues`: jobs may wait again, if the scenario has nothing against it.

    Raises ScenarioError, ValueError, TraceError.
    """
    names = default_node_names(nodes)
    failures: Iterator[Outage] = iter(())
    lost, model = not requeues, ""
    if scenario.failures is not None:
        model = plugin_name(scenario.failures.model)
        with scenario.plugged_in():
            failures = failures_of(scenario.failures, scenario.seed, names)
        lost = lost or scenario.failures.jobs == "lost"
    windows = [window_of(part, names) for part in scenario.maintenance]
    if not requeues:
        windows = [replace(window, lost=True) for window in windows]
    return NodeOutages(nodes, failures, lost=lost, windows=windows, model=model)


def failures_of(part: FailuresPart, seed: int, names: Sequence[str]) -> Iterator[Outage]:
    """When nodes fail, by the part's model. Raises ScenarioError, TraceError."""
    try:
        model = make_plugin(node_failures.GROUP, part.model)
    except ValueError as error:
        raise ScenarioError(f"failures: {error}") from error
    return _guarded(plugin_name(part.model), model, stream(seed, "failures"), names)


def _guarded(name: str, model: FailureModel, rng: Generator, names: Sequence[str]) -> Iterator[Outage]:
    """The model's outages; its failure is the plug-in's. What our own say of bad input stays what it is."""
    latest_us, own = 0, is_own(model)
    try:
        for outage in model.outages(rng, names):
            if own:
                _check_outage(outage, latest_us, len(names))
            latest_us = outage.begin_us
            yield outage
    except TraceError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and not own:
            raise
        raise plugin_error(f"failure model {name}", "outages", latest_us, error) from error


def _check_outage(outage: object, latest_us: int, nodes: int) -> None:
    """Raises TypeError and ValueError."""
    if not isinstance(outage, Outage) or not all(isinstance(each, int | np.integer) for each in outage):
        raise TypeError(
            f"it gave {outage!r}; an Outage of whole numbers (emulator.events.node_failures) is expected"
        )
    if not 0 <= outage.node < nodes:
        raise ValueError(f"it gave an outage of node {outage.node}; the nodes are 0 to {nodes - 1}")
    if not latest_us <= outage.begin_us < outage.end_us:
        raise ValueError(
            f"it gave an outage from {outage.begin_us} to {outage.end_us} us after one from {latest_us} us;"
            " it must begin no sooner, and end after its begin"
        )
