"""A real Nova with a real Placement as the on-demand manager of a live run, asking the Balancer through its filter.

Processes: Keystone, Glance and an empty Neutron (`front`), PostgreSQL, Nova and Placement in one process of their own
environment (`services`) with a FakeDriver host a node, and `balancer nova agent`. None of them knows the run's clock.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import openstack

from balancer.drivers.openstack import ERRORS
from emulator.live.clock_cost import lease_cost
from emulator.live.nova import environment
from emulator.live.nova.environment import DATABASES, DISK_GB, RAM_MB, VCPUS, NovaConf, Postgres
from emulator.live.process import FleetProcessError, read_ready
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from emulator.live.ondemand_system import Ondemand, OndemandSite
    from emulator.live.process import FleetProcess
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.simulation.mechanism import Mechanism

SERVICES = Path(__file__).with_name("services.py")
FLAVOR = "node"
_NOVA, _FRONT, _POSTGRES, _AGENT = "nova", "nova-front", "nova-postgres", "nova-agent"
_TAG = "EMULATOR_NOVA"
_OWNER = "fleet"
_LOOK_S, _GRACE_S, _CONFIRM_S = 0.5, 30.0, 120.0
"""Wall times: how often servers are looked at; a grant on which nothing starts; a grant that nobody confirms."""
_DATABASES_S, _READY_S, _READY_HOST_S = 600.0, 120.0, 4.0


class NovaSystem:
    """`live.ondemand: nova`. `environment`: the folder with Nova, if not what scripts/nova-environment made."""

    can_wait = False

    def __init__(self, environment: Path | None = None) -> None:
        self._environment_folder = None if environment is None else Path(environment)

    @property
    def folder(self) -> Path:
        return environment.environment(self._environment_folder)

    def check_leases(self, scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None) -> None:  # noqa: ARG002
        """What is not on this machine, and a run without leases to be asked for."""
        if not isinstance(mechanism, BalancerMechanism):
            raise ScenarioError("live.ondemand: nova asks the Balancer; it needs the mechanism balancer")
        if unused := sorted(mechanism.cloud_settings):
            problem = f"a real one starts and deletes in its own time, leave {unused[0]} out"
            raise ScenarioError(f"live.ondemand: nova: {problem}")
        try:
            environment.check(self.folder)
        except environment.NotThereError as error:
            raise ScenarioError(f"live.ondemand: {error}") from error

    def at(self, site: OndemandSite) -> Ondemand:
        return NovaRun(self.folder, site)


class NovaRun:
    """See `emulator.live.ondemand_system.Ondemand`."""

    names = frozenset({_NOVA, _FRONT, _POSTGRES, _AGENT})

    def __init__(self, folder: Path, site: OndemandSite) -> None:
        self._environment, self._site = folder, site
        self._speed = site.scenario.live.speed
        self._postgres: Postgres | None = None
        self.home = site.work / "nova"
        self._status, self._hints = self.home / "agent.json", self.home / "agent.ready"
        self.url = ""
        self._tag = str(uuid4())

    def balancer_settings(self) -> dict[str, Any]:
        """A grant is confirmed once a server is seen, which takes wall time."""
        return {"confirm_s": max(3600.0, _CONFIRM_S * self._speed)}

    def replayer_settings(self) -> dict[str, Any]:
        """An administrator sees on which hosts servers are."""
        settings = self._site.run_settings.leases(replace(self._site.places, ondemand_url=self.url))
        settings["cloud"] |= {"username": "admin", "project": "admin", "flavor": FLAVOR, "times": "wall"}
        return settings | {"poll_s": max(1.0, _LOOK_S * self._speed)}

    def cost(self) -> Mapping[str, float]:
        return lease_cost(self._site.places.ledger, self._site.replay_log)

    # Starting: whoever is named in the configuration of another one first.

    def start_steps(self, mechanism: BalancerMechanism) -> Sequence[Callable[[], None]]:
        return [
            self._start_front,
            self._start_agent,
            self._start_postgres,
            partial(self._configure, mechanism),
            self._make_databases,
            self._start_nova,
            self._make_flavor,
            self._wait_for_agent,
        ]

    def _launch(self, name: str, *arguments: str | Path, **how: Any) -> FleetProcess:
        environ = how.pop("environ", {}) | {_TAG: self._tag}
        return self._site.launch(name, *arguments, environ=environ, **how)

    def _start_front(self) -> None:
        site, ready = self._site, self._site.work / "nova-front.ready"
        self.home.mkdir()
        settings = {"hosts": site.names, "urls": self.home / "urls.json", "ready_file": ready}
        process = self._launch(
            _FRONT, "-m", "emulator.live.nova.front", "--config", site.config(_FRONT, settings)
        )
        self.url = process.wait_ready(ready)["url"]

    def _account(self) -> dict[str, str]:
        return {
            "auth_url": f"{self.url}/identity/v3", "username": "admin", "password": "secret", "project_name": "admin",
            "user_domain_id": "default", "project_domain_id": "default", "region_name": "RegionOne",
        }  # fmt: skip

    def _start_agent(self) -> None:
        site = self._site
        environ = {f"OS_{name.upper()}": value for name, value in self._account().items()}
        process = self._launch(
            _AGENT, "-m", "balancer", "nova", "agent", "--url", site.balancer_url, "--owner", _OWNER,
            "--period-s", str(_LOOK_S), "--grace-s", repr(_GRACE_S * self._speed),
            "--hint-address", "127.0.0.1:0", "--status-file", self._status, "--ready-file", self._hints,
            environ=environ | {"BALANCER_TOKEN": site.places.token},
        )  # fmt: skip
        process.wait_until(lambda: _hint_address(self._hints) is not None)

    def _start_postgres(self) -> None:
        self._postgres = postgres = Postgres()
        self._site.end_with(f"{_TAG}={self._tag}", [postgres.folder])
        postgres.initialise(DATABASES)
        program, *arguments = postgres.command
        process = self._launch(_POSTGRES, *arguments, program=Path(program))
        process.wait_until(lambda: postgres.is_up)

    def _configure(self, mechanism: BalancerMechanism) -> None:
        assert self._postgres is not None  # noqa: S101 - a step before this one
        token = self.home / "token"
        token.touch(0o600)
        token.write_text(self._site.places.token, encoding="utf-8")
        balancer = {
            "url": self._site.balancer_url, "token_file": token, "wait": True, "wait_s": mechanism.wait_s,
            "patience_s": 60, "hint_address": _hint_address(self._hints),
        }  # fmt: skip
        conf = NovaConf(
            environment=self._environment, front=self.url, database=self._postgres.url, balancer=balancer,
            logs=self._site.logs,
        )  # fmt: skip
        conf.write(self.home)

    def _run(self, name: str, *arguments: str) -> FleetProcess:
        return self._launch(
            name, SERVICES, self.home, *arguments, program=environment.python_of(self._environment)
        )

    def _make_databases(self) -> None:
        name = "nova-databases"
        process = self._run(name, "--make-databases")
        process.wait_until(lambda: process.exit_status == 0, _DATABASES_S)
        process.stop()
        del self._site.processes[name]

    def _start_nova(self) -> None:
        hosts = self._site.names
        process = self._run(_NOVA, *hosts)
        limit_s = _READY_S + _READY_HOST_S * len(hosts)
        process.wait_until((self.home / "urls.json").exists, limit_s)
        (self.home / "go").touch()
        process.wait_until((self.home / "ready.json").exists, limit_s)

    def _make_flavor(self) -> None:
        try:
            account: dict[str, Any] = {**self._account(), "load_yaml_config": False, "load_envvars": False}
            with openstack.connect(**account, api_timeout=60) as cloud:
                cloud.compute.create_flavor(name=FLAVOR, vcpus=VCPUS, ram=RAM_MB, disk=DISK_GB)
        except ERRORS as error:
            raise FleetProcessError(f"nova does not take its flavor: {error}") from error

    def _wait_for_agent(self) -> None:
        """It was there before Nova, and has not seen it until it looks again."""
        since_ns = (self.home / "ready.json").stat().st_mtime_ns

        def looks() -> bool:
            status = read_ready(self._status)
            return status is not None and not status["problem"] and self._status.stat().st_mtime_ns > since_ns

        self._site.processes[_AGENT].wait_until(looks)


def _hint_address(ready: Path) -> str | None:
    """Where the agent listens for hints. Its file may be there and not be written yet."""
    if not ready.exists() or not (text := ready.read_text(encoding="utf-8")).endswith("\n"):
        return None
    address: str = json.loads(text)["hints"]
    return address
