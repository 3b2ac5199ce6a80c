"""What a live run is asked for, whoever starts its processes, and whether it can be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.cluster.cluster import Cluster
from emulator.config.node_names import default_node_names
from emulator.config.run_parts import OUR_BATCH_SYSTEM
from emulator.live.names import BALANCER, ONDEMAND, PREDICTOR
from emulator.machine.machine import HasSlots, tells_work
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.runs.runner import check_live, make_machine, make_mechanism, make_ordered
from emulator.runs.scenario import ScenarioError
from emulator.simulation.mechanism import HasMachine, HasNotice, ability

if TYPE_CHECKING:
    from emulator.machine.machine import Machine
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.simulation.mechanism import Mechanism


@dataclass(frozen=True, slots=True)
class RunRequirements:
    """Who decides in a run, and what its nodes are like.

    `mechanism`: the scenario's; `machine`: its own, if it has one; `slotted`: that machine, where nodes are shared.
    """

    mechanism: Mechanism | None
    machine: Machine | None
    slotted: HasSlots | None

    @property
    def balancer(self) -> BalancerMechanism | None:
        """The mechanism that is a service of its own."""
        return self.mechanism if isinstance(self.mechanism, BalancerMechanism) else None

    @property
    def batch_decides(self) -> bool:
        """The batch server has the mechanism: every one but the Balancer."""
        return self.mechanism is not None and self.balancer is None

    @property
    def notice(self) -> HasNotice | None:
        """The mechanism in the batch server, if it wants to hear of jobs before their time."""
        return ability(self.mechanism, HasNotice) if self.batch_decides else None  # type: ignore[type-abstract]

    def has(self, role: str) -> bool:
        """Whether the run has this role: no Balancer without its mechanism, no predictor without forecasts."""
        if role == PREDICTOR:
            return self.balancer is not None and self.balancer.forecasts is not None
        return role not in {BALANCER, ONDEMAND} or self.balancer is not None

    @property
    def slots_per_node(self) -> int:
        return 1 if self.slotted is None else self.slotted.slots_per_node


def requirements_of(scenario: Scenario, prepared: Prepared) -> RunRequirements:
    """What the scenario wants of a live run; nothing has begun yet.

    Raises ScenarioError for what nobody could run, and PluginError for a plug-in that fails as it is made.
    """
    check_live(scenario, prepared)
    mechanism = make_mechanism(scenario)
    machine, slotted = None, None
    if ability(mechanism, HasMachine) is not None:  # type: ignore[type-abstract]
        machine = make_machine(scenario, prepared, mechanism)
        if scenario.live.jobs == "emulator-job" and not tells_work(machine):
            problem = "the mechanism's machine does not tell how far its jobs are; use sleep"
            raise ScenarioError(f"live.jobs: {problem}")
        slotted = ability(machine, HasSlots)  # type: ignore[type-abstract]
    found = RunRequirements(mechanism, machine, slotted)
    if machine is None and scenario.live.batch_name == OUR_BATCH_SYSTEM:
        _check_scheduler(scenario, prepared, found)
    if found.balancer is not None:
        try:
            found.balancer.check_cluster(default_node_names(prepared.nodes))
        except ValueError as error:
            raise ScenarioError(str(error)) from error
    return found


def _check_scheduler(scenario: Scenario, prepared: Prepared, found: RunRequirements) -> None:
    """Our batch server makes the same cluster; one whose nodes fail follows the loop of virtual time."""
    is_simulated = found.batch_decides and scenario.failures is not None
    scheduler = scenario.scheduler_config
    with scenario.plugged_in():
        make_ordered(
            scheduler, lambda: Cluster(prepared.nodes, scheduler, prepared.jobs, simulated=is_simulated)
        )
