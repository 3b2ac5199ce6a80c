"""The Torque-like batch server as the batch system of a live run, with one agent that plays all nodes."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from emulator.live.collect import BatchSide
from emulator.live.failure import Failure, read_failure
from emulator.live.names import BATCH, NODE, ROLES
from emulator.live.process import read_address
from emulator.live.replay_log import Counts
from emulator.live.roles import EPOCH_S
from emulator.live.torque.accounting import read_accounting
from emulator.live.torque.commands import install_commands
from emulator.live.torque.protocol import request
from emulator.workload import store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from emulator.live import roles
    from emulator.live.batch_system import Site
    from emulator.live.process import FleetProcess
    from emulator.live.torque.protocol import Message
    from emulator.machine.machine import Machine
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.simulation.mechanism import Mechanism

_COMPILES_S = 600.0
"""The first time after an installation a mechanism's kernels may have to be compiled."""


class TorqueSystem:
    """`live.batch: torque`."""

    can_wait = True

    def check(
        self, scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None, machine: Machine | None
    ) -> None:
        """It runs every mechanism."""

    def at(self, site: Site) -> TorqueBatch:
        return TorqueBatch(site)


class BatchServer(ABC):
    """Our batch server, as who started it asks it. `batch_decides`: it has the mechanism."""

    def __init__(self, home: Path, *, batch_decides: bool) -> None:
        self.home = home
        self._batch_decides = batch_decides

    @abstractmethod
    def ask(self, what: str) -> Message:
        """Its answer. Raises OSError if there is none."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Its nodes."""

    def counts(self, replay_log: Path) -> Counts:
        return Counts(self.home, replay_log)

    @property
    def failure(self) -> Failure | None:
        return read_failure(self.home)

    def is_settled(self) -> bool:
        return self._is("all_told")

    def stuck(self, now_us: int) -> str | None:  # noqa: ARG002
        """A mechanism may leave jobs waiting for good: nothing more will happen then, as in virtual time."""
        return "" if self._batch_decides and self._is("is_over") else None

    def _is(self, what: str) -> bool:
        """Ask the batch server for its state; False if it is gone, which is noticed elsewhere."""
        try:
            return bool(self.ask("state").get(what))
        except OSError:
            return False

    def collect(self, job_ids: dict[int, str]) -> BatchSide:  # noqa: ARG002 - the server knows its jobs
        """What the batch server says, or, when it does not answer any more, what it wrote into its log."""
        try:
            exported = self.ask("export")
        except OSError:  # it is gone: its accounting log is not
            log = self.home / "server_priv" / "accounting"
            return BatchSide(read_accounting(log, self.names, EPOCH_S), None)
        if "record" in exported:
            return BatchSide([], [], exported["record"])
        return BatchSide(exported["jobs"], exported["offline"], down=exported.get("down"))


class TorqueBatch(BatchServer):
    """See `emulator.live.batch_system.Batch`."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.work / "torque", batch_decides=site.batch_decides)
        self._site = site

    @property
    def names(self) -> Sequence[str]:
        return self._site.names

    def ask(self, what: str) -> Message:
        if (address := read_address(self.home)) is None:
            raise ConnectionRefusedError("the batch server does not listen")
        return request(address, {"do": what})

    def start_steps(self) -> Sequence[Callable[[], None]]:
        site = self._site
        apart = [partial(self._start_agent, name, (name,)) for name in site.apart]
        rest = tuple(name for name in site.names if name not in site.apart)
        return [
            self._start_server,
            *([partial(self._start_agent, "agent", rest)] if rest else []),
            *apart,
            self._wait_for_agents,
        ]

    def _start_server(self) -> None:
        site = self._site
        self.home.mkdir(exist_ok=True)
        self.prepare_return()
        process_settings: dict[str, Any] = {"nodes": site.names}
        if (port := site.lasting_port()) != 0:
            process_settings["port"] = port
        if site.batch_decides:
            store.save(site.prepared.jobs, site.workload)
        config = site.config_of("batch", site.run_settings.batch(site.places), **process_settings)
        process = site.launch(BATCH, *ROLES[BATCH].arguments(config, site.clock_file))
        process.wait_until(lambda: read_address(self.home) is not None, _COMPILES_S)
        address = read_address(self.home)
        assert address is not None  # noqa: S101 - waited for
        install_commands(site.bin, address)

    def _start_agent(self, name: str, nodes: tuple[str, ...]) -> None:
        site = self._site
        is_apart = name in site.apart
        in_process = site.scenario.live.hooks == "in_process"
        scripts = None if in_process or not site.has_balancer else self._hook_scripts()
        role_config = site.run_settings.node(nodes, is_the_node=is_apart, hook_scripts=scripts)
        home = site.work / (f"mom-{name}" if is_apart else "mom")
        config = site.config_of(name, role_config, home=home, server_home=self.home)
        site.launch(
            name,
            *ROLES[NODE].arguments(config, site.clock_file),
            environ={
                "BALANCER_READY_FILE": str(site.balancer_ready),
                "BALANCER_MARKER": str(site.work / "no-marker"),
                "BALANCER_HOOK_KEY_FILE": str(site.node_keys),
            },
        )  # fmt: skip

    def _wait_for_agents(self) -> None:
        processes = self._site.processes
        agents = [processes[name] for name in ("agent", *self._site.apart) if name in processes]

        def have_ended() -> list[FleetProcess]:
            return [agent for agent in agents if agent.exit_status is not None]

        agents[0].wait_until(lambda: bool(have_ended()) or self._is_whole())
        for agent in have_ended():
            agent.wait_until(lambda: self.failure is not None)  # which tells why

    def _is_whole(self) -> bool:
        # It may have failed as the run began; who watches tells.
        return self.failure is not None or bool(self.ask("state")["all_nodes_up"])

    def _hook_scripts(self) -> dict[str, str]:
        site, scripts = self._site, {}
        for name in ("prologue", "epilogue"):
            script = site.bin / name
            script.write_text(
                "#!/bin/sh\n"
                f"BALANCER_URL=$({sys.executable} -c "
                f'\'import json; print(json.load(open("{site.balancer_ready}"))["url"])\') '
                f"BALANCER_MARKER={site.work / 'no-marker'} "
                f"BALANCER_HOOK_KEY_FILE={site.node_keys} "
                f'exec {sys.executable} -m balancer hook {name} "$@"\n',
                encoding="utf-8",
            )
            script.chmod(0o755)
            scripts[name] = str(script)
        return scripts

    def balancer_settings(self) -> roles.Part:
        return self._site.run_settings.torque_driver(self._site.places)

    def replayer_settings(self) -> roles.Part:
        return self._site.run_settings.torque_submitting(self._site.places)

    def own_time(self) -> None:
        """It follows the run's clock."""

    def serves_all_but(self, absent: int) -> bool:
        try:
            served = self.ask("state")["nodes_served"]
        except OSError:
            return False
        return bool(served == len(self._site.names) - absent)

    def prepare_return(self) -> None:
        (self.home / "address").unlink(missing_ok=True)

    def is_back(self) -> bool:
        return read_address(self.home) is not None

    def has_lost(self, name: str, process: FleetProcess, now_us: int) -> str:  # noqa: ARG002
        return process.exit_summary()

    def close(self) -> None:
        """Everything is below the run's folder."""
