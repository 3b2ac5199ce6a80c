"""Slurm as the batch system of one live run: its processes, how others reach it, and what happened in the end."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from balancer.clock import US, micros
from emulator.live.collect import BatchSide
from emulator.live.failure import read_failure
from emulator.live.job.proof import ProofError, prove
from emulator.live.process import FleetProcessError
from emulator.live.slurm import database
from emulator.live.slurm.accounting import QUEUE_FORMAT, SlurmCounts, read_jobs, read_marks, read_starts
from emulator.live.slurm.database import ASSOCIATIONS, Database, DatabaseError, associations
from emulator.live.slurm.hooks import SCRIPT
from emulator.live.slurm.jobs import refusals_in
from emulator.live.slurm.patience import Patience, QueuedJob
from emulator.live.slurm.programs import FakeTime, ReservedPorts, own_address, own_name, write_script
from emulator.live.slurm.requirements import (
    PlayedOutages,
    SlurmRequirements,
    has_outages,
    problem_with_outages,
)
from emulator.record.run_record import Mark, NodePool
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.slurm.conf_fragment import gres_conf, slurm_conf
from emulator.workload import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from emulator.live.batch_system import Site
    from emulator.live.failure import Failure
    from emulator.live.process import FleetProcess
    from emulator.live.slurm.programs import Programs
    from emulator.schedulers.slurm.conf_fragment import Fragment

_EPOCH_S = 1_767_225_600
_READY_S = 120.0
_MOST_RESTARTS = 5
_SLURMCTLD = "slurmctld"
_TAG = "EMULATOR_RUN"
_HOOKS = "hooks"
_MECHANISM = "mechanism"
_COMPILES_S = 600.0
"""The first time after an installation a mechanism's kernels may have to be compiled."""


class SlurmSettings(Protocol):
    """What a run must know of the plug-in's parameters (`system.py`)."""

    partitions: dict[int, str]
    users: dict[int, str]
    accounts: dict[int, str]
    sacctmgr: list[list[str]]
    programs: Programs
    has_database: bool

    @property
    def commands(self) -> tuple[str, ...]:
        """Of Slurm, that users call."""

    def library(self) -> Path:
        """Libfaketime. Raises ScenarioError."""

    def fragment(self, names: Sequence[str]) -> Fragment:
        """What is used of the site's slurm.conf. Raises ScenarioError."""


class SlurmBatch:
    """See `emulator.live.batch_system.Batch`. All of Slurm lives in `time`, which runs by itself."""

    def __init__(self, system: SlurmSettings, site: Site) -> None:
        self._system = system
        self._site = site
        self._fragment = system.fragment(site.names)
        if problem := problem_with_outages(site.scenario, self._fragment):
            raise ScenarioError(f"live.batch: {problem}")
        self._library = system.library()
        self.home = site.work / "slurm"
        self._calls, self._orders = self.home / "hook-calls", self.home / "orders"
        self._refusals = site.logs / "refused.jsonl"
        self._spool = Path()
        self.jobcomp = site.logs / "jobcomp.txt"
        self.log = site.logs / "slurmctld-log.txt"
        self._time: FakeTime | None = None
        self._ports: ReservedPorts | None = None
        self._tag = str(uuid4())
        self._begun_s = _EPOCH_S
        self._restarts = 0
        self._database: Database | None = None
        self._patience = Patience(site.scenario.live.speed)
        self._requirements = SlurmRequirements.by(site.scenario, site.names)
        self._outages: PlayedOutages | None = None

    # Starting.

    def start_steps(self) -> Sequence[Callable[[], None]]:
        stored = [self._start_mariadb, self._start_slurmdbd] if self._system.has_database else []
        hooks = [self._start_hooks] if self._site.has_balancer and self._hooks_in_process else []
        mechanism = [self._start_mechanism] if self._site.batch_decides else []
        return [self._install, *hooks, *stored, self._start_controller, self._start_nodes, *mechanism]

    @property
    def _hooks_in_process(self) -> bool:
        return self._site.scenario.live.hooks == "in_process"

    def _install(self) -> None:
        """Folders, configuration, and every program of Slurm bound to both and to the faster clock."""
        site = self._site
        for folder in ("state", "run"):
            (self.home / folder).mkdir(parents=True)
        # Not in the run's folder: Slurm has sockets here, whose names may not be long, and a job's script, whose user
        # has no business where tokens are.
        self._spool = Path(mkdtemp(prefix="emulator-spool-"))
        if self._system.users:
            self._spool.chmod(0o711)
        for name in site.names:
            (self._spool / name).mkdir()
        self._ports = ReservedPorts(len(site.names) + 2, address := own_address())
        self._time = FakeTime(
            self._library, site.scenario.live.speed, _EPOCH_S, for_all_users=bool(self._system.users)
        )
        site.end_with(f"{_TAG}={self._tag}", [*self._time.files, self._spool])
        conf = self.home / "slurm.conf"
        programs = self._system.programs
        plain = {"PATH": programs.search, "HOME": str(self.home), "LC_ALL": "C.UTF-8", _TAG: self._tag}
        environ = {"SLURM_CONF": str(conf), **plain, **self._time.environ}
        site.bin.mkdir(exist_ok=True)
        for name in self._system.commands:
            write_script(site.bin / name, programs.bound(name, environ))
        port, database_port, *node_ports = self._ports.ports
        user = own_name()
        if self._system.has_database:
            log = site.logs / "slurmdbd-log.txt"
            self._database = Database(
                folder=self._spool / "db", commands=site.bin, log=log, user=user, address=address,
                port=database_port, start=self._launch
            )  # fmt: skip
            self._database.install(programs, plain, environ, self.home / "slurmdbd.conf")
        text = slurm_conf(
            self._fragment, site.names, home=self.home, log=self.log, jobcomp=self.jobcomp,
            host=socket.gethostname().partition(".")[0], address=address, user=user,
            port=port, node_ports=node_ports, spool=self._spool, speed=site.scenario.live.speed,
            hooks=self._hook_scripts() if site.has_balancer else {},
            has_mechanism=site.batch_decides,
            database_port=database_port if self._system.has_database else None,
            shared=self._requirements.shared, features=self._requirements.features,
            node_sets=self._requirements.node_sets,
            has_outages=has_outages(site.scenario),
        )  # fmt: skip
        conf.write_text(text, encoding="utf-8")
        (site.logs / "slurm.conf").write_text(text, encoding="utf-8")
        if (shared := self._requirements.shared) is not None and shared.has_gpus:
            files = [
                self.home / f"gpu{number:03}" for number in range(max(each.gpus for each in shared.sizes))
            ]
            for file in files:
                file.touch()
            (self.home / "gres.conf").write_text(gres_conf(site.names, shared, files), encoding="utf-8")
        # Without it Debian's 22.05 looks for cgroups that a container may not have.
        (self.home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")

    def _hook_scripts(self) -> dict[str, Path]:
        site, found = self._site, {}
        for key, hook in {"PrologSlurmctld": "slurm-prolog", "EpilogSlurmctld": "slurm-epilog"}.items():
            text = SCRIPT.format(hook=hook, calls=self._calls)
            if not self._hooks_in_process:
                text = (
                    "#!/bin/sh\n"
                    f'export BALANCER_URL=$(sed \'s/.*"url": "\\([^"]*\\)".*/\\1/\' {site.balancer_ready})\n'
                    f"export BALANCER_MARKER={site.work / 'no-marker'} BALANCER_HOOK_KEY_FILE={site.node_keys}\n"
                    f"exec {sys.executable} -m balancer hook {hook}\n"
                )
            found[key] = site.bin / hook
            write_script(found[key], text)
        return found

    def _start_hooks(self) -> None:
        site = self._site
        site.launch(
            _HOOKS, "-m", "emulator.live.slurm.hooks", self._calls, site.balancer_ready,
            environ={"BALANCER_HOOK_KEY_FILE": str(site.node_keys)},
        )  # fmt: skip

    def _start_mariadb(self) -> None:
        assert self._database is not None  # noqa: S101 - installed
        self._database.start_mariadb()

    def _start_slurmdbd(self) -> None:
        assert self._database is not None  # noqa: S101 - installed
        system, me = self._system, own_name()
        self._database.start_slurmdbd(associations(me, system.users, system.accounts, system.sacctmgr))
        (self._site.logs / ASSOCIATIONS).write_text(self._database.associations_text(), encoding="utf-8")

    def _start_controller(self) -> None:
        process = self._launch_controller()
        process.wait_until(self._is_up, _READY_S)

    def _is_up(self) -> bool:
        return " is UP" in self._ask("scontrol", "ping", check=False)

    def _launch_controller(self) -> FleetProcess:
        return self._launch(_SLURMCTLD, "slurmctld", "-D")

    def _launch(self, name: str, program: str, *arguments: str) -> FleetProcess:
        """A program of Slurm. It has the tag before it is bound to its environment: it may be orphaned until then."""
        return self._site.launch(
            name, *arguments, environ={_TAG: self._tag}, program=self._site.bin / program
        )

    def _start_nodes(self) -> None:
        site = self._site
        for name in site.names:
            self._launch(f"slurmd-{name}", "slurmd", "-D", "-N", name)
        site.processes[_SLURMCTLD].wait_until(self._all_idle, _READY_S)

    def _start_mechanism(self) -> None:
        site, home = self._site, self._site.work / _MECHANISM
        store.save(site.prepared.jobs, site.workload)
        config = site.config(
            _MECHANISM,
            {
                "scenario": site.scenario.as_json(), "nodes": site.names, "workload": site.workload, "home": home,
                "programs": site.bin, "orders": self._orders, "refusals": self._refusals,
                "replay_log": site.replay_log, "jobcomp": self.jobcomp, "partitions": self._system.partitions,
            },
        )  # fmt: skip
        process = site.launch(
            _MECHANISM, "-m", "emulator.live.slurm.mechanism", "--config", config, "--clock", site.clock_file,
            environ={_TAG: self._tag},
        )  # fmt: skip
        process.wait_ready(home / "ready", _COMPILES_S)

    def _all_idle(self) -> bool:
        self._look_for_dead()
        states = self._ask("sinfo", "--noheader", "--Node", "--format=%t", check=False).split()
        return len(states) >= len(self._site.names) and set(states) == {"idle"}

    def _look_for_dead(self) -> None:
        for name in self._site.names:
            process = self._site.processes[f"slurmd-{name}"]
            if process.exit_status is not None:
                raise FleetProcessError(
                    f"slurmd-{name} ended with status {process.exit_status}:\n{process.log_end()}"
                )

    # How others reach it.

    def balancer_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        programs = {name: str(self._site.bin / name) for name in ("scontrol", "squeue")}
        # Hooks are hints, and nobody waits for whoever looks: so it looks often.
        settings = {
            "driver": {"slurm": {**programs, "timeout_s": 60.0, "claim": False}},
            "confirm_poll_s": 0.02,
            "reconcile_period_s": max(60.0, self._site.scenario.live.speed),
        }
        return settings, {}

    def replayer_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        system = self._system
        sbatch = {
            "command": [str(self._site.bin / "sbatch")],
            "partitions": system.partitions,
            "users": system.users,
            "accounts": system.accounts,
            "held": self._site.batch_decides,
            "options": self._requirements.options(self._site.prepared.jobs),
            "exclusive": self._requirements.shared is None,
        }
        settings: dict[str, Any] = {"submit": {"sbatch": sbatch}, "follow_clock": True}
        if self._site.batch_decides:
            settings |= {"takes_all": True, "orders": self._orders}
        return settings, {}

    def own_time(self) -> Callable[[], int] | None:
        if self._time is None or not self._time.has_begun:
            return None  # the start was broken off
        time, self._begun_s = self._time, self._time.now_us() // US
        self._requirements.make_reservations(self._ask, self._system.users.values(), self._begun_s)

        def now_us() -> int:
            return time.now_us() - self._begun_s * US

        if has_outages(self._site.scenario):
            self._outages = PlayedOutages.of(self._site.scenario, self._site.names, self._ask, self._note)
            self._outages.begin(now_us)
        return now_us

    def _note(self, text: str) -> None:
        if self._site.processes[_SLURMCTLD].exit_status is None:  # else the run is over
            self._site.marks.append(Mark(self._site.now_us, text))

    # While it runs.

    def counts(self, replay_log: Path) -> SlurmCounts:
        return SlurmCounts(self.jobcomp, replay_log)

    @property
    def failure(self) -> Failure | None:
        return read_failure(self._site.work / _MECHANISM) if self._site.batch_decides else None

    def is_settled(self) -> bool:
        return True

    def stuck(self, now_us: int) -> str | None:
        if not self._patience.is_due(now_us):
            return None
        queue = self._queue()
        return self._patience.look(now_us, None if queue is None else [QueuedJob.of(line) for line in queue])

    def has_lost(self, name: str, process: FleetProcess, now_us: int) -> str | None:
        """A server of Slurm is started again, as a service manager would; a node without slurmd is a node that died.

        Slurm does without that node. A mechanism of ours has planned with it, and would wait for it for ever.
        """
        site = self._site
        del site.processes[name]
        process.stop()
        text = f"{name} ended with status {process.exit_status}"
        if name == _MECHANISM:
            return process.exit_summary()
        is_of_database = self._database is not None and name in database.SERVER_PROGRAMS
        if name != _SLURMCTLD and not is_of_database:
            if site.batch_decides:
                return f"{text}, and the mechanism has planned with its node"
            site.marks.append(Mark(now_us, text))
            return None
        if self._restarts == _MOST_RESTARTS:
            return f"{process.exit_summary()} (for the {self._restarts + 1}th time)"
        self._restarts += 1
        if self._database is not None and is_of_database:
            self._database.launch(name)
        else:
            self._launch_controller()
        site.marks.append(Mark(now_us, f"{text} and was started again"))
        return None

    # Afterwards.

    def collect(self, job_ids: Mapping[int, str]) -> BatchSide:
        if self._time is None:
            return BatchSide([], [])
        queue = self._queue()
        lines = _lines(self.jobcomp)  # afterwards: who ended meanwhile is told here
        names = self._site.names
        if failed := sum(" JobState=FAILED " in line for line in lines):
            remark = f"{failed} jobs failed on Slurm, which none of them should (see jobcomp.txt)"
            self._site.marks.append(Mark(self._site.now_us, remark))
        log = _lines(self.log)
        jobs = read_jobs(lines, queue or [], names, self._begun_s, starts=read_starts(log))
        if self._database is not None:
            jobs = self._by_slurmdbd(self._database, jobs)
        known = {job["number"] for job in jobs}
        # A controller that is gone cannot be asked what waits.
        jobs += [
            {"number": int(text), "state": "QUEUED", "runs": []}
            for text in job_ids.values()
            if int(text) not in known
        ]
        marks = read_marks(log, names, self._begun_s)
        now_us = self._time.now_us() - self._begun_s * US if self._time.has_begun else 0
        refused = None
        if self._site.batch_decides:
            refused = {
                number: (micros(at_s), why) for number, (at_s, why) in refusals_in(self._refusals).items()
            }
        ended = {str(job["number"]) for job in jobs if job["state"] == "ENDED"}
        return BatchSide(
            jobs, marks, tick_us=US, now_us=now_us, refused=refused,
            contradictions=tuple(_unproved(self._site.logs / "jobs", ended)),
            offline_pool=NodePool.DOWN if has_outages(self._site.scenario) else NodePool.OD_RESERVE,
            in_cores=self._requirements.in_cores,
        )  # fmt: skip

    def _by_slurmdbd(self, stored: Database, logged: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Jobs as sacct tells them; `logged`: by Slurm's job log, which is what is left if it does not."""
        try:
            found = stored.jobs(logged, self._site.names, self._begun_s)
        except DatabaseError as error:
            remark = f"slurmdbd: {error}; results are those of Slurm's job log"
            self._site.marks.append(Mark(self._site.now_us, remark))
            return logged
        if found.untold:
            lost = ", ".join(map(str, found.untold))
            remark = f"slurmdbd lost the end of jobs {lost}; theirs is that of Slurm's job log"
            self._site.marks.append(Mark(self._site.now_us, remark))
        text = "".join(f"{line}\n" for line in found.lines)
        (self._site.logs / "sacct.txt").write_text(text, encoding="utf-8")
        return found.jobs

    def _queue(self) -> list[str] | None:
        """Jobs that are not over; None: the controller does not answer."""
        try:
            return self._ask("squeue", "--noheader", "--all", f"--format={QUEUE_FORMAT}").splitlines()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None

    def _ask(self, name: str, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [str(self._site.bin / name), *arguments], capture_output=True, text=True, timeout=60, check=check
        )
        return done.stdout

    def close(self) -> None:
        if self._outages is not None:
            self._outages.close()
        if self._ports is not None:
            self._ports.close()
        if self._time is not None:
            self._time.close()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _unproved(folder: Path, ended: set[str]) -> Iterator[str]:
    """A sentence for each job that is over and whose output does not prove its work."""
    for path in sorted(folder.glob("j*.o*")):
        name, _, job_id = path.name.partition(".o")
        if job_id not in ended:
            continue
        try:
            with path.open(encoding="utf-8") as output:
                problem = "" if prove(output).finished else "its output does not come to an end"
        except ProofError as error:
            problem = f"its output: {error}"
        if problem:
            yield f"job {name.removeprefix('j')} is over, and {problem}"
