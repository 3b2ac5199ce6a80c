"""What `scheduler: {slurm: ...}` asks of the real Slurm, too: advance reservations, and that jobs share nodes.

So both have it from one place. What Slurm makes of them: https://slurm.schedmd.com/reservations.html and
https://slurm.schedmd.com/cons_tres.html.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import numpy as np

from emulator.cluster.slurm_scheduler import Slurm
from emulator.live.fleet_process import FleetProcessError
from emulator.runs.queue_partitions import partitions_of
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.slurm.conf_fragment import hostlist
from emulator.schedulers.slurm.reservations import reserved_on, which_of
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.schedulers.slurm.reservations import Reserved
    from emulator.schedulers.slurm.select import Select
    from emulator.workload.table import JobTable


_CARRIED_OUT = {"reservations", "select", "release"}
_IN_THE_DATABASE = {"qos", "queue_qos", "user_qos", "cpus_per_node", "shares"}
"""What sacctmgr tells the real one; the twin has it from the scenario."""


def unheard_setting(scenario: Scenario, live_settings: Mapping[str, object], *, has_database: bool) -> str:
    """A key that the twin would go by and the real Slurm would not hear, and what to do; '' if there is none.

    `live_settings`: what `live.batch` says for a key of the twin.
    """
    machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm):
        return ""
    heard = _CARRIED_OUT | (_IN_THE_DATABASE if has_database else set())
    for each in fields(machine):
        value = getattr(machine, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if value == default or each.name in heard or value == live_settings.get(each.name):
            continue
        if each.name in _IN_THE_DATABASE:
            remedy = "set live.batch.slurm.accounting to slurmdbd and say it there by sacctmgr"
        elif each.name == "queues":
            remedy = "say the same in live.batch.slurm.partitions"
        else:
            remedy = "say it in a slurm.conf that live.batch.slurm.conf names"
        return f"scheduler.slurm.{each.name}: the real Slurm would not hear of it; {remedy}, or leave it out"
    return ""


def other_release(scenario: Scenario, root: Path | None, version: Callable[[], str]) -> str:
    """Why the twin and the real Slurm, of that version, would not mean one release; '' if they do, or none is said."""
    machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm) or (told := machine.said_release()) is None:
        return ""
    if (found := version()).startswith(f"{told}."):
        return ""
    key = "conf" if machine.release is None else "release"
    here = f"live.batch.slurm.root: {root}" if root else "this machine, without live.batch.slurm.root,"
    return f"scheduler.slurm.{key} says Slurm {told}, and {here} has {found or 'none'}; make the two the same"


def check_partitions(scenario: Scenario, prepared: Prepared, live_queues: Mapping[int, str]) -> None:
    """Raises ScenarioError where queues of the log go to partitions of their names in the twin alone."""
    try:
        queues = partitions_of(scenario, prepared)
    except ValueError as error:
        raise ScenarioError(f"scheduler: {error}") from error
    if queues is not None and dict(queues.by_queue) != dict(live_queues):
        named = ", ".join(f"{number}: {name}" for number, name in queues.by_queue.items())
        raise ScenarioError(
            "live.batch.slurm.partitions: in virtual time queues of the log go to the partitions of their names; "
            f"say the same here, {{{named}}}, or other ones here and in scheduler.slurm.queues"
        )


@dataclass(frozen=True, slots=True)
class SlurmRequirements:
    """`reserved`: of a run's nodes, which are called `names`. `select`: how jobs share them, None if they do not."""

    names: tuple[str, ...]
    reserved: tuple[Reserved, ...] = ()
    select: Select | None = None

    @classmethod
    def by(cls, scenario: Scenario, names: tuple[str, ...]) -> Self:
        """Raises ScenarioError."""
        machine = scenario.scheduler_config.make_machine()
        if not isinstance(machine, Slurm):
            return cls(names)
        try:
            return cls(names, reserved_on(machine.reservations, len(names)), machine.select)
        except ValueError as error:
            raise ScenarioError(f"scheduler: {error}") from error

    def options(self, jobs: JobTable) -> dict[int, list[str]]:
        """Of sbatch, for batch jobs that ask for something, by number."""
        found: dict[int, list[str]] = {}
        for row in np.flatnonzero(jobs.kind == Kind.BATCH) if self.reserved else ():
            number = int(jobs.number[row])
            place = which_of(self.reserved, number, int(jobs.user[row]))
            if place >= 0:
                found[number] = [f"--reservation={self.reserved[place].name}"]
        if self.select is not None:
            rows = zip(jobs.number, self.select.cores_of(jobs), self.select.memory_of(jobs), strict=True)
            for number, cores, memory_mb in rows:
                options = found.setdefault(int(number), [])
                options += ["--ntasks-per-node=1", f"--cpus-per-task={cores}"]
                options += [f"--mem={memory_mb}M"] if self.select.has_memory else []
        return found

    def make_reservations(self, ask: Callable[..., str], users: Iterable[str], begun_s: int) -> None:
        """Have `ask` (program, arguments) create them in a run that began at `begun_s`. Raises FleetProcessError.

        `users`: of this machine, who submit jobs beside us. All may use each: who does not ask for one does not.
        """
        users_allowed = sorted({pwd.getpwuid(os.geteuid()).pw_name, *users})
        for each in self.reserved:
            options = arguments(each, [self.names[node] for node in each.nodes], users_allowed, begun_s)
            try:
                ask("scontrol", *options)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                output = (
                    (error.stderr or "") if isinstance(error, subprocess.CalledProcessError) else "no answer"
                )
                raise FleetProcessError(f"scontrol {' '.join(options)}: {output.strip()}") from error


def arguments(each: Reserved, nodes: Sequence[str], users: Sequence[str], begun_s: int) -> list[str]:
    """What scontrol is told; a reservation from the begin of the run on begins now, which is a little later."""
    begin = _date(begun_s + each.start_s) if each.start_s else "now"
    return [
        "create", "reservation", f"ReservationName={each.name}", f"StartTime={begin}",
        f"EndTime={_date(begun_s + each.end_s)}", f"Nodes={hostlist(nodes)}", f"Users={','.join(users)}",
    ]  # fmt: skip


def _date(unix_s: int) -> str:
    """As Slurm's commands take it; those of a run live in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
