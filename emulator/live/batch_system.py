"""What a live run asks of its batch system.

A batch system is a plug-in (`emulator.batch_systems`, named by `live.batch`): it says what it cannot do, and makes a
`Batch` for one run, which starts processes through the run, tells how others reach it, and what happened in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from emulator.plugins import PluginError, make_plugin
from emulator.runs.scenario import Scenario, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from emulator.live.collect import BatchSide
    from emulator.live.failure import Failure
    from emulator.live.process import FleetProcess
    from emulator.live.replay_log import Counts
    from emulator.live.roles import Part, Places, RoleConfig, RunSettings
    from emulator.machine.machine import Machine
    from emulator.record.run_record import Mark
    from emulator.runs.preparation import Prepared
    from emulator.simulation.mechanism import Mechanism

BATCH_SYSTEMS = "emulator.batch_systems"


class Site(Protocol):
    """What a batch system sees of the run that it is part of. Everything it writes is below `work`."""

    scenario: Scenario
    prepared: Prepared
    names: tuple[str, ...]
    work: Path
    logs: Path
    bin: Path
    marks: list[Mark]
    slots_per_node: int
    now_us: int
    """Cluster time at the end of the run."""
    batch_decides: bool
    """The mechanism is the batch system's, not a service of its own."""
    run_settings: RunSettings
    """What each role is told."""

    @property
    def places(self) -> Places:
        """Where things are, for who is told of them."""

    @property
    def apart(self) -> tuple[str, ...]:
        """Nodes that need an agent of their own, since the scenario does something to them (`live.faults`)."""

    @property
    def has_balancer(self) -> bool: ...
    @property
    def balancer_ready(self) -> Path:
        """Tells where the Balancer listens, once it does."""

    @property
    def node_keys(self) -> Path:
        """Keys of the nodes, for what hooks send; there if `has_balancer`."""

    @property
    def clock_file(self) -> Path: ...
    @property
    def workload(self) -> Path: ...
    @property
    def replay_log(self) -> Path: ...
    @property
    def processes(self) -> dict[str, FleetProcess]: ...

    def config(self, name: str, settings: dict[str, Any]) -> Path:
        """Write a process's settings."""

    def config_of(self, name: str, role_config: RoleConfig, **process_settings: Any) -> Path:
        """Write what a role is told, and what is this process's own: where it listens and what it calls home."""

    def lasting_port(self) -> int:
        """Where a server is to listen that is found there again when it was killed; 0: anywhere, since none will be."""

    def launch(
        self,
        name: str,
        *arguments: str | Path,
        environ: dict[str, str] | None = None,
        program: Path | None = None,
    ) -> FleetProcess:
        """Start a process: a module of ours, or a program."""

    def end_with(self, tag: str, files: Iterable[Path]) -> None:
        """Whatever has this entry (`NAME=VALUE`) in its environment ends with the run, however the run ends.

        So does whatever has one of the files open. Then the files (and folders) are deleted.
        """


class RunningBatch(Protocol):
    """The batch system of a run that is under way, whoever started it."""

    def counts(self, replay_log: Path) -> Counts: ...

    @property
    def failure(self) -> Failure | None:
        """A plug-in that failed in it."""

    def is_settled(self) -> bool:
        """Asked when all jobs are over: everything that was done to them is told."""

    def stuck(self, now_us: int) -> str | None:
        """Nothing more will happen, though jobs wait: '' if that is how it should end, a text if not; else None."""

    def collect(self, job_ids: dict[int, str]) -> BatchSide:
        """Jobs, runs and marks. `job_ids`: what was submitted, job number -> identifier."""


class Batch(RunningBatch, Protocol):
    """The batch system of one run of processes."""

    def start_steps(self) -> Sequence[Callable[[], None]]:
        """What is to be done, in order, until jobs can be submitted. Each may raise FleetProcessError."""

    def balancer_settings(self) -> Part:
        """Its driver and the settings that go with it, and the environment of its process."""

    def replayer_settings(self) -> Part:
        """How jobs are submitted, and the environment of the process that does it."""

    def own_time(self) -> Callable[[], int] | None:
        """Cluster time is whatever this tells (us), from 0 at this call; None: it follows the run's clock."""

    def has_lost(self, name: str, process: FleetProcess, now_us: int) -> str | None:
        """A process that it started has ended: None if the run goes on, else why it cannot."""

    def close(self) -> None:
        """All processes are gone; tidy up. Also after a start that failed half-way."""


@runtime_checkable
class ComesBack(Protocol):
    """A `Batch` whose server and agents may be killed and started again in mid-run (`live.faults`)."""

    def serves_all_but(self, absent: int) -> bool:
        """The server has heard of the agents of all nodes but so many."""

    def prepare_return(self) -> None:
        """The server is about to be started again."""

    def is_back(self) -> bool:
        """The server that was started again answers."""


class BatchSystem(Protocol):
    """The plug-in."""

    can_wait: bool
    """Its processes keep to the run's clock, which waits for them (`live.pace: held`)."""

    def check(
        self, scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None, machine: Machine | None
    ) -> None:
        """Raise ScenarioError for what it cannot do: nothing has begun yet. `machine`: the mechanism's own."""

    def at(self, site: Site) -> Batch: ...


def make_batch_system(scenario: Scenario) -> BatchSystem:
    """The batch system of a scenario. Raises ScenarioError."""
    system: BatchSystem = make_system(scenario, BATCH_SYSTEMS, "batch", "batch system")
    return system


def make_system(scenario: Scenario, kind: str, key: str, what: str) -> Any:
    """The plug-in that `live.KEY` names. Raises ScenarioError, also where it cannot go at the run's pace."""
    try:
        with scenario.plugged_in():
            system = make_plugin(kind, getattr(scenario.live, key))
    except (PluginError, ValueError, TypeError) as error:
        raise ScenarioError(f"live.{key}: {error}") from error
    if scenario.live.pace == "held" and not system.can_wait:
        raise ScenarioError(
            f"live.pace: held is not possible with this {what}, which has a clock of its own; use free or strict"
        )
    return system
