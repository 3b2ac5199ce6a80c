"""The real slurmctld and a slurmd a node as the batch system of live runs: its settings, and what it cannot do."""

from __future__ import annotations

import os
import shlex
from pathlib import Path  # noqa: TC003 - parameters of a plug-in are converted to their types
from typing import TYPE_CHECKING, Literal

import numpy as np

from emulator.cluster.slurm_scheduler import Slurm
from emulator.config.node_names import default_node_names
from emulator.live.slurm import database
from emulator.live.slurm.batch import SlurmBatch
from emulator.live.slurm.programs import FakeTimeError, Programs, find_library, problem_with_machine
from emulator.live.slurm.requirements import (
    check_constraints,
    check_fair_shares,
    check_limits_of_users,
    check_partitions,
    check_qos,
    other_release,
    problem_with_preemption,
    unheard_setting,
)
from emulator.live.slurm.sbatch import is_user
from emulator.machine.machine import HasSlots
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.slurm.conf_fragment import Fragment, problem_without_database, read_fragment
from emulator.schedulers.slurm.conf_lines import ConfError
from emulator.simulation.mechanism import ability, plugin_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.live.batch_system import Site
    from emulator.machine.machine import Machine
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.simulation.mechanism import Mechanism

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "salloc", "squeue", "scontrol", "sinfo", "scancel")


class SlurmSystem:
    """`live.batch: slurm`.

    `conf`: a slurm.conf whose partitions and scheduling parameters are used. `partitions` and `users`: of the trace's
    queues and users, by number (users only as root); without them a job goes to the default partition as who runs this.
    `libfaketime`: where it is, if not where Debian has it. `root`: a folder with another Slurm (`scripts/slurm-root`).

    `accounting`: where results come from, Slurm's job log or slurmdbd. With slurmdbd `accounts` gives users of
    the trace (by number) an account, and each line of `sacctmgr` is told to that command before the run.
    """

    can_wait = False

    def __init__(  # noqa: PLR0917 - parameters of a plug-in are given by name
        self,
        conf: Path | None = None,
        partitions: dict[int, str] | None = None,
        users: dict[int, str] | None = None,
        libfaketime: Path | None = None,
        accounting: Literal["jobcomp", "slurmdbd"] = "jobcomp",
        accounts: dict[int, str] | None = None,
        sacctmgr: list[str] | None = None,
        root: Path | None = None,
    ) -> None:
        self.conf = conf
        self.partitions = partitions or {}
        self.users = users or {}
        self._libfaketime = libfaketime
        self.programs = Programs(root and root.absolute())
        self.has_database = accounting == "slurmdbd"
        self.accounts = accounts or {}
        self.sacctmgr = [shlex.split(line) for line in sacctmgr or []]

    @property
    def servers(self) -> tuple[str, ...]:
        """Programs that no user calls."""
        return database.SERVER_PROGRAMS if self.has_database else ()

    @property
    def commands(self) -> tuple[str, ...]:
        return _PROGRAMS + (database.COMMANDS if self.has_database else ())

    def check(
        self, scenario: Scenario, prepared: Prepared, mechanism: Mechanism | None, machine: Machine | None
    ) -> None:
        """What Slurm, or this machine, cannot do."""
        settings = {"conf": self.conf, "queues": self.partitions}
        told = self.sacctmgr if self.has_database else None
        if unheard := unheard_setting(scenario, settings, told) or self._unenforced(scenario):
            raise ScenarioError(unheard)
        check_partitions(scenario, prepared, self.partitions)
        check_qos(scenario, prepared)
        check_constraints(scenario, prepared)
        problem = ""
        decides = mechanism is not None and not isinstance(mechanism, BalancerMechanism)
        if ability(machine, HasSlots) is not None:  # type: ignore[type-abstract]
            problem = (
                f"jobs on Slurm have whole nodes, which {plugin_name(scenario.mechanism)} shares among them"
            )
        elif machine is not None and not np.array_equal(machine.job_table().nodes, prepared.jobs.nodes):
            problem = "jobs on Slurm have the nodes that they ask for; use a topology that gives them so many"
        elif decides and scenario.live.jobs != "emulator-job":
            problem = "a job that sleeps cannot be stopped and go on: with this mechanism set live.jobs to emulator-job"
        elif self.users and scenario.live.jobs != "sleep":
            problem = "users: processes of others cannot write into the folder of the run; leave it out"
        elif self.users and os.geteuid() != 0:
            problem = "users: only root can submit jobs for others; leave it out, and all jobs are yours"
        elif unknown := [name for name in self.users.values() if not is_user(name)]:
            problem = f"users: this machine has no user {unknown[0]}"
        else:
            starts_ours = scenario.live.jobs != "sleep" or scenario.live.hooks != "in_process"
            packages = "slurmctld slurmd slurm-client" + " slurmdbd mariadb-server" * self.has_database
            programs = (*self.commands, *self.servers)
            problem = (
                self._problem_with_accounting()
                or self.programs.problem(programs, packages, has_ours=starts_ours)
                or problem_with_machine()
            )
        if problem:
            raise ScenarioError(f"live.batch: {problem}")
        self._check_limits(prepared)
        check_fair_shares(scenario, prepared, self.users, self.accounts)
        if problem := other_release(scenario, self.programs.root, self.programs.version):
            raise ScenarioError(problem)

    def _unenforced(self, scenario: Scenario) -> str:
        """Why limits would count in the twin alone; '' if they would not."""
        machine = scenario.scheduler_config.make_machine()
        if not isinstance(machine, Slurm) or machine.qos is None or machine.conf is not None:
            return ""
        return (
            "scheduler.slurm.qos: the real Slurm enforces no limits without AccountingStorageEnforce=limits; name a"
            " slurm.conf with it in scheduler.slurm.conf and live.batch.slurm.conf"
        )

    def _problem_with_accounting(self) -> str:
        if self.has_database:
            problem = problem_with_preemption(" ".join(words) for words in self.sacctmgr)
            return f"sacctmgr: {problem}" if problem else ""
        keys = [name for name in ("accounts", "sacctmgr") if getattr(self, name)]
        return f"{keys[0]}: Slurm's job log has no accounts; set accounting to slurmdbd" if keys else ""

    def _check_limits(self, prepared: Prepared) -> None:
        lines = () if self.conf is None else self.fragment(default_node_names(prepared.nodes)).lines
        told = [" ".join(words) for words in self.sacctmgr]
        check_limits_of_users((*lines, *told), prepared.jobs, self.users)

    def library(self) -> Path:
        try:
            return find_library(self._libfaketime, self.programs.root)
        except FakeTimeError as error:
            raise ScenarioError(f"live.batch: {error}") from error

    def fragment(self, names: Sequence[str]) -> Fragment:
        if self.conf is None:
            return Fragment()
        try:
            found = read_fragment(self.conf, names, has_database=self.has_database)
        except ConfError as error:
            raise ScenarioError(f"live.batch: {error}") from error
        unknown = sorted(set(self.partitions.values()) - set(found.partitions))
        if unknown:
            raise ScenarioError(f"live.batch: {self.conf} has no partition {unknown[0]}")
        problem = "" if self.has_database else problem_without_database(found)
        if problem := problem or problem_with_preemption(found.lines):
            raise ScenarioError(f"live.batch: {self.conf}: {problem}")
        return found

    def at(self, site: Site) -> SlurmBatch:
        return SlurmBatch(self, site)
