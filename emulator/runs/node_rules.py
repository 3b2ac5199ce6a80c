"""From a scenario to whose the nodes are and which of them go together (`docs/placement.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cluster.features import features_on, split
from emulator.cluster.interconnect import interconnect_of
from emulator.cluster.partitions import groups_of, partitions_on
from emulator.cluster.placement import everybody, placement_of
from emulator.cluster.reservations import owners, reserved_on
from emulator.cluster.shared_nodes import SharedNodes
from emulator.config.node_names import default_node_names
from emulator.runs.scenario import Scenario, ScenarioError
from emulator.simulation.mechanism import plugin_name
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from emulator.cluster.interconnect import Interconnect
    from emulator.cluster.placement import Group, Placement

PLACES = "features, partitions, reservations: nodes that are not for all jobs at any time"
COMPACT = "placement: nodes that go together"


def whose_nodes(scenario: Scenario, jobs: JobTable, nodes: int) -> tuple[Group, ...]:
    """Who may have which nodes. Raises ValueError."""
    names = default_node_names(nodes)
    groups = (
        groups_of(jobs, partitions_on(scenario.partitions, names))
        if scenario.partitions
        else (everybody(len(jobs), nodes),)
    )
    return split(jobs, groups, features_on(scenario.features, names))


def shared_nodes_of(scenario: Scenario, nodes: int) -> SharedNodes | None:
    """What nodes that jobs share have; None if they do not share them. Raises ValueError."""
    if scenario.shared_nodes is None:
        return None
    names = default_node_names(nodes)
    return SharedNodes.of(scenario.shared_nodes, names, features_on(scenario.features, names))


def make_placement(scenario: Scenario, jobs: JobTable, nodes: int) -> Placement | None:
    """Who may have which nodes, and when; None if that is everybody at any time. Raises ScenarioError."""
    if not (scenario.reservations or scenario.partitions or scenario.features):
        return None
    for lease in jobs.number[jobs.kind == Kind.ON_DEMAND][:1]:
        raise ScenarioError(f"{PLACES} are for batch jobs; job {lease} is an on-demand lease")
    try:
        reserved = reserved_on(scenario.reservations, default_node_names(nodes))
        groups = whose_nodes(scenario, jobs, nodes)
        own = owners(jobs, reserved, groups)
        return placement_of(len(jobs), nodes, groups=groups, reserved=reserved, reservation=own)
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def make_interconnect(scenario: Scenario, jobs: JobTable, nodes: int) -> Interconnect | None:
    """Which nodes a job gets together; None if that is any. Raises ScenarioError."""
    part = scenario.placement
    if part is None:
        return None
    scheduler = scenario.scheduler_config
    wrong = None
    if scenario.mechanism is not None:
        wrong = f"the mechanism {plugin_name(scenario.mechanism)} chooses nodes itself"
    elif scheduler.is_plain or scheduler.make_machine() is not None:
        wrong = f"{scheduler.label} decides in a way of its own"
    elif scenario.reservations or scenario.partitions or scenario.features:
        wrong = "leave out `features`, `partitions` and `reservations`, which choose nodes by class"
    elif len(leases := jobs.number[jobs.kind == Kind.ON_DEMAND]):
        wrong = f"job {leases[0]} is an on-demand lease"
    elif part.spread_penalty and _interrupts(scenario):
        wrong = "spread_penalty does not go with `failures`, `maintenance` and `energy.sleep_after_s`"
    if wrong is not None:
        raise ScenarioError(f"{COMPACT} are for batch jobs under plain schedulers: {wrong}")
    try:
        return interconnect_of(part, nodes, kills=scenario.workload.overrun == "kill")
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def _interrupts(scenario: Scenario) -> bool:
    """Whether something may be done to a job while it runs."""
    sleeps = scenario.energy is not None and scenario.energy.sleep_after_s is not None
    return bool(scenario.failures or scenario.maintenance) or sleeps
