"""What a live run asks of its on-demand manager: the cloud of which the replayer takes the leases.

A manager is a plug-in (`emulator.ondemand_systems`, named by `live.ondemand`), as a batch system is: it says what it
cannot do, and makes an `Ondemand` for one run, which starts processes through the run and tells how leases are asked
for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from emulator.live.batch_system import Site, make_system
from emulator.live.names import ONDEMAND, ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from emulator.mechanisms.balancer import BalancerMechanism
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.simulation.mechanism import Mechanism

ONDEMAND_SYSTEMS = "emulator.ondemand_systems"


class OndemandSite(Site, Protocol):
    """What a manager sees of the run, once the Balancer listens."""

    balancer_url: str


class Ondemand(Protocol):
    """The manager of one run."""

    names: frozenset[str]
    """Its processes: one that ends is told in the report, and batch goes on."""

    def balancer_settings(self) -> dict[str, Any]:
        """What the Balancer must know of it."""

    def start_steps(self, mechanism: BalancerMechanism) -> Sequence[Callable[[], None]]:
        """What is to be done, in order, until leases can be asked for. Each may raise FleetProcessError."""

    def replayer_settings(self) -> dict[str, Any]:
        """How leases are asked for."""

    def cost(self) -> Mapping[str, float]:
        """How late its answers were, in us of cluster time: for the run's `pace`. Asked when all is over."""


class OndemandSystem(Protocol):
    """The plug-in."""

    can_wait: bool
    """Its processes keep to the run's clock, which waits for them (`live.pace: held`)."""

    def check_leases(self, scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None) -> None:
        """Raise ScenarioError for what it cannot do: nothing has begun yet."""

    def at(self, site: OndemandSite) -> Ondemand: ...


def make_ondemand_system(scenario: Scenario) -> OndemandSystem:
    """The manager of a scenario. Raises ScenarioError."""
    system: OndemandSystem = make_system(scenario, ONDEMAND_SYSTEMS, "ondemand", "on-demand manager")
    return system


class ManagerSystem:
    """`live.ondemand: manager`: our own small one (`emulator.live.ondemand`)."""

    can_wait = True

    def check_leases(self, scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None) -> None:
        """It can play all of them. Without a Balancer there is no cloud, and nobody misses it."""

    def at(self, site: OndemandSite) -> Ondemand:
        return Manager(site)


class Manager:
    """Its process, on this machine."""

    names = frozenset({ONDEMAND})

    def __init__(self, site: OndemandSite) -> None:
        self._site = site
        self._ready = site.work / "ondemand.ready"
        self._url = ""

    def balancer_settings(self) -> dict[str, Any]:
        return {}

    def start_steps(self, mechanism: BalancerMechanism) -> Sequence[Callable[[], None]]:
        return [partial(self._start, mechanism)]

    def settings(self, mechanism: BalancerMechanism) -> dict[str, Any]:  # noqa: ARG002 - for whoever derives from it
        """Of the process; see docs/live-ondemand.md. A manager that derives from this one may add to them."""
        return self._site.run_settings.ondemand(self._site.places).config

    def _start(self, mechanism: BalancerMechanism) -> None:
        site = self._site
        port = site.lasting_port()
        process_settings = {"ready_file": self._ready} | ({"port": port} if port != 0 else {})
        role_config = replace(site.run_settings.ondemand(site.places), config=self.settings(mechanism))
        config = site.config_of(ONDEMAND, role_config, **process_settings)
        process = site.launch(ONDEMAND, *ROLES[ONDEMAND].arguments(config))
        self._url = process.wait_ready(self._ready)["url"]

    def replayer_settings(self) -> dict[str, Any]:
        return self._site.run_settings.leases(replace(self._site.places, ondemand_url=self._url))

    def cost(self) -> Mapping[str, float]:
        return {}
