"""A real slurmctld with real slurmds on loopback, as an ordinary user, without munge."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from balancer.drivers.slurm import SlurmDriver, SlurmSettings
from emulator.live.slurm.programs import Programs, write_script
from polling import until
from processes import is_alive

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "scontrol", "squeue", "sbatch", "scancel")
SEARCH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmdPidFile={home}/run/slurmd-%n.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
{hooks}{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
{partitions}"""


class RealSlurm:
    """Nodes n01..n03 (`count`); `close` ends everything it has started. `hooks`, `partitions`: lines of slurm.conf.

    `root`: where another release of Slurm is than this machine's.
    """

    def __init__(
        self,
        home: Path,
        monkeypatch: Any,
        *,
        hooks: str = "",
        partitions: str = "",
        hold: Any = "drain",
        count: int = 3,
        root: Path | None = None,
    ) -> None:
        self.home = home
        self.names = [f"n{number:02d}" for number in range(1, count + 1)]
        for folder in ("etc", "state", "run", "log", *(f"spool/{name}" for name in self.names)):
            (home / folder).mkdir(parents=True)
        self._kept = [_kept_port() for _ in range(count + 1)]
        port, *ports = (kept.getsockname()[1] for kept in self._kept)
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={at} CPUs=1 RealMemory=100 State=UNKNOWN"
            for name, at in zip(self.names, ports, strict=True)
        )
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        text = CONFIG.format(
            host=host, user=user, home=home, port=port, nodes=nodes, hooks=hooks, partitions=partitions
        )
        (home / "etc" / "slurm.conf").write_text(text, encoding="utf-8")
        # Without it Debian's 22.05 looks for cgroups that a container may not have.
        (home / "etc" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")
        monkeypatch.setenv("SLURM_CONF", str(home / "etc" / "slurm.conf"))
        monkeypatch.setenv("PATH", SEARCH if root is None else f"{_bin(home, root)}:{SEARCH}")
        self.driver = SlurmDriver(SlurmSettings(timeout_s=30, hold=hold))
        self.jobs: dict[str, str] = {}

    def start(self) -> None:
        self.start_controller()
        for node in self.names:
            subprocess.run(["slurmd", "-N", node], check=True, capture_output=True)

    def start_controller(self) -> None:
        subprocess.run(["slurmctld"], check=True, capture_output=True)

    def stop_controller(self) -> None:
        _end([self._pids()["slurmctld"]])

    def start_job(self, node: str) -> None:
        command = [
            "sbatch",
            "--parsable",
            "-w",
            node,
            "-t",
            "10",
            "-o",
            "/dev/null",
            "--wrap",
            "exec sleep 600",
        ]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        self.jobs[node] = run.stdout.strip()

    def queue_jobs(self, count: int, run_s: int, note: str = ":") -> list[str]:
        """So many jobs of one node each, on whatever node there is; they may not be started twice.

        `note`: a command that each does when it begins and when it ends.
        """
        command = [
            "sbatch",
            "--parsable",
            "-N",
            "1",
            "-t",
            "10",
            "-o",
            "/dev/null",
            "--wrap",
            f"{note}; sleep {run_s}; {note}",
        ]
        return [
            subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            for _ in range(count)
        ]

    def ended_well(self, jobs: list[str]) -> bool:
        """All of these have run to their end, once. Raises CalledProcessError for one that is forgotten."""
        return self.not_well(jobs) == ""

    def not_well(self, jobs: list[str]) -> str:
        """What Slurm says of those of these that have not run to their end, once."""
        said = [self.scontrol("--oneliner", "show", "job", job) for job in jobs]
        return "".join(
            each for each in said if "JobState=COMPLETED" not in each or " Restarts=0 " not in each
        )

    def states(self) -> dict[str, str]:
        """Node -> its state in Slurm's words."""
        lines = self.scontrol("--all", "--oneliner", "show", "node").splitlines()
        words = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
        return {each["NodeName"]: each["State"] for each in words}

    def end_job(self, node: str) -> None:
        subprocess.run(["scancel", self.jobs.pop(node)], check=True)

    def scontrol(self, *arguments: str) -> str:
        run = subprocess.run(["scontrol", *arguments], check=True, capture_output=True, text=True)
        return run.stdout

    def _pids(self) -> dict[str, int]:
        return {
            path.stem: int(path.read_text())
            for path in (self.home / "run").glob("*.pid")
            if path.read_text().strip()
        }

    def close(self) -> None:
        pids = self._pids()
        if self.jobs and "slurmctld" in pids:
            for node in list(self.jobs):
                self.end_job(node)
            listed = ["squeue", "--noheader"]
            until(lambda: not subprocess.run(listed, capture_output=True, check=True).stdout)
        _end(pids.values())
        for kept in self._kept:
            kept.close()


def _bin(home: Path, root: Path) -> Path:
    """A folder with the programs of that Slurm."""
    folder = home / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        write_script(folder / name, Programs(root).bound(name, None))
    return folder


def _kept_port() -> socket.socket:
    """A port for Slurm: below those that the kernel gives out, and taken for others of ours by its UDP half."""
    kept = socket.socket(type=socket.SOCK_DGRAM)
    first = random.randrange(20_000, 30_000)  # not where what is left of an earlier Slurm still reports to
    for port in (*range(first, 30_000), *range(20_000, first)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            kept.bind(("127.0.0.1", port))
            return kept
    raise AssertionError("no port from 20000 to 30000 is free")


def _end(pids: Collection[int]) -> None:
    """SIGTERM; and SIGKILL, because a slurmctld 22.05 whose script daemon ends before it waits for that for ever."""
    for number, limit_s in ((signal.SIGTERM, 20), (signal.SIGKILL, 60)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        with suppress(AssertionError) if number == signal.SIGTERM else nullcontext():
            until(lambda: not any(is_alive(pid) for pid in pids), limit_s=limit_s)
