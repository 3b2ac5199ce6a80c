"""From a scenario to the sizes at which its jobs can run, and what does not go with them (`docs/moldable.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.runs.scenario import Scenario, ScenarioError
from emulator.simulation.mechanism import plugin_name
from emulator.workload.files import TraceError
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from emulator.config.scenario_parts import MoldablePart

MOLDABLE = "moldable: jobs that can run at several sizes"


def sized(scenario: Scenario, jobs: JobTable, nodes: int, counted: dict[str, int]) -> JobTable:
    """The jobs of a scenario, with their sizes if it says `moldable`. Raises ScenarioError, TraceError."""
    part: MoldablePart | None = scenario.moldable
    if part is None:
        return jobs
    from emulator.runs.moldable_sizes import with_sizes  # noqa: PLC0415 - and a mechanism's parts with it

    try:
        return with_sizes(
            jobs,
            part,
            nodes=nodes,
            rng=stream(scenario.seed, "moldable"),
            kills=scenario.workload.overrun == "kill",
            counted=counted,
        )
    except TraceError:
        raise
    except (ValueError, TypeError) as error:
        raise ScenarioError(f"moldable: {error}") from error


def check_moldable(scenario: Scenario, jobs: JobTable) -> None:
    """Raises ScenarioError for what does not go with jobs of several sizes."""
    scheduler = scenario.scheduler_config
    energy = scenario.energy
    wrong = None
    if scenario.mechanism is not None:
        wrong = f"the mechanism {plugin_name(scenario.mechanism)} goes by the nodes that a job asks for"
    elif scheduler.is_plain or scheduler.make_machine() is not None:
        wrong = f"{scheduler.label} decides in a way of its own"
    elif scenario.features or scenario.partitions or scenario.reservations or scenario.placement:
        wrong = "leave out `features`, `partitions`, `reservations` and `placement`: nodes are chosen for one size"
    elif scenario.shared_nodes is not None:
        wrong = "leave out `shared_nodes`, whose jobs have parts of nodes"
    elif scenario.failures or scenario.maintenance or (energy and energy.sleep_after_s is not None):
        again = "a job that begins again would have two sizes"
        wrong = f"leave out `failures`, `maintenance` and `energy.sleep_after_s`: {again}"
    elif any(limit.nodes is not None or limit.node_h is not None for limit in scenario.limits):
        wrong = "`limits` count `jobs` only, because a job's number of nodes is not known beforehand"
    elif scenario.qos is not None:
        wrong = "leave out `qos`, whose limits count nodes"
    elif len(leases := jobs.number[jobs.kind == Kind.ON_DEMAND]):
        wrong = f"job {leases[0]} is an on-demand lease"
    if wrong is not None:
        raise ScenarioError(f"{MOLDABLE} are for batch jobs under plain schedulers: {wrong}")
