"""The real process of a job on its node: started, stopped for a while, slowed down, killed with all it started.

Control groups (version 1 and version 2) freeze it, limit its share of the processors and say which it has, where this
process may make groups; a machine or container that does not allow it has neither, and the job does without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.live.process import OrphanReaper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class CgroupRoots:
    """Where groups may be made: for the freezer, for the processors' time and for their choice, and the version.

    None: nowhere.
    """

    freezer: Path | None
    cpu: Path | None
    version: int
    cpuset: Path | None = None

    def describe(self) -> str:
        """For the log."""
        freezer = f"the cgroup v{self.version} freezer" if self.freezer else "SIGSTOP and SIGCONT"
        cpu = f"cgroup v{self.version} CPU quotas" if self.cpu else "no limit on processors"
        cpuset = (
            f"cgroup v{self.version} cpusets" if self.cpuset else "CPU affinity (no cpuset can be made here)"
        )
        return f"jobs are suspended with {freezer}; rates: {cpu}; cores: {cpuset}"


def find_roots(root: Path = _ROOT, membership: Path = Path("/proc/self/cgroup")) -> CgroupRoots:
    """Look what this process may use; leaves nothing behind."""
    groups = _memberships(membership)
    if (root / "cgroup.controllers").exists():
        group = root / groups.get("", "/").lstrip("/")
        freezer = _usable(group, "cgroup.freeze")
        return CgroupRoots(freezer, _usable(group, "cpu.max"), 2, _usable(group, "cpuset.cpus"))

    def usable(name: str, file: str) -> Path | None:
        return _usable(root / name / groups.get(name, "/").lstrip("/"), file)

    freezer, cpu = usable("freezer", "freezer.state"), usable("cpu", "cpu.cfs_quota_us")
    return CgroupRoots(freezer, cpu, 1, usable("cpuset", "cpuset.cpus"))


def _memberships(path: Path) -> dict[str, str]:
    """Controller -> path of our group; the one of version 2 has no name."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    parts = [line.split(":", 2) for line in lines]
    return {name: group for _, names, group in parts for name in names.split(",")}


def _usable(parent: Path, file: str) -> Path | None:
    probe = parent / f"emulator-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return None
    try:
        return parent if os.access(probe / file, os.W_OK) else None
    finally:
        probe.rmdir()


_PREFIX = "emulator-job"


def group_name(job: str) -> str:
    """The name of a job's groups: whose it is, for `remove_orphans`."""
    return f"{_PREFIX}-{os.getpid()}-{job}"


def remove_orphans(roots: CgroupRoots) -> None:
    """Remove what agents left that were killed; groups with processes in them stay."""
    for parent in {roots.freezer, roots.cpu, roots.cpuset} - {None}:
        for folder in parent.glob(f"{_PREFIX}-*") if parent is not None else ():
            owner = folder.name.removeprefix(f"{_PREFIX}-").partition("-")[0]
            if not Path("/proc", owner).exists():
                with suppress(OSError):  # somebody is still in it, or another agent was faster
                    folder.rmdir()


class JobCgroup:
    """The groups of one job. A process joins by writing its number into each of `procs`, before it starts others.

    `processors`: those of the machine that the job may use, one entry a worker; empty: all.
    """

    def __init__(self, roots: CgroupRoots, name: str, processors: Sequence[int] = ()) -> None:
        self._version = roots.version
        self._freezer = None if roots.freezer is None else roots.freezer / name
        self._cpu = None if roots.cpu is None else roots.cpu / name
        self._cpuset = None if roots.cpuset is None or not processors else roots.cpuset / name
        for folder in self._folders:
            folder.mkdir(exist_ok=True)
        if self._cpuset is not None:
            if self._version == 1:  # such a group has no memory nodes at first, and takes no process without
                memory = (self._cpuset.parent / "cpuset.mems").read_text(encoding="ascii")
                (self._cpuset / "cpuset.mems").write_text(memory, encoding="ascii")
            allowed = ",".join(map(str, sorted(set(processors))))
            (self._cpuset / "cpuset.cpus").write_text(allowed, encoding="ascii")
        if self._cpu is not None and processors:
            # A group's weight is spread over the processors that it uses: it needs one part for each of its workers
            # to get as much of a shared one as a job that has only that.
            is_first = self._version == 1
            file, default, most = ("cpu.shares", 1024, 1 << 18) if is_first else ("cpu.weight", 100, 10_000)
            (self._cpu / file).write_text(str(min(default * len(processors), most)), encoding="ascii")

    @property
    def _folders(self) -> set[Path]:
        return {folder for folder in (self._freezer, self._cpu, self._cpuset) if folder is not None}

    @property
    def procs(self) -> list[Path]:
        return sorted(folder / "cgroup.procs" for folder in self._folders)

    def freeze(self, *, frozen: bool) -> bool:
        """Stop or continue all processes of the job; False if that is not possible here."""
        if self._freezer is None:
            return False
        if self._version == 1:
            (self._freezer / "freezer.state").write_text("FROZEN" if frozen else "THAWED", encoding="ascii")
        else:
            (self._freezer / "cgroup.freeze").write_text(str(int(frozen)), encoding="ascii")
        return True

    def limit(self, processors: float | None) -> bool:
        """Let the job use so much of the processors' time (1.0: one whole); None: as much as there is."""
        if self._cpu is None:
            return False
        quota_us = None if processors is None else max(1000, round(processors * _PERIOD_US))
        if self._version == 1:
            (self._cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (self._cpu / "cpu.cfs_quota_us").write_text(str(quota_us or -1), encoding="ascii")
        else:
            (self._cpu / "cpu.max").write_text(f"{quota_us or 'max'} {_PERIOD_US}", encoding="ascii")
        return True

    def remove(self) -> None:
        """After the last process is gone."""
        for folder in self._folders:
            with suppress(OSError):  # a process that is not reaped yet keeps it: an orphan for a later agent
                folder.rmdir()


# The process.

_ENTER = 'script=$1; shift; for group do echo $$ > "$group"; done; exec /bin/sh "$script"'
"""Joins the job's groups before the script can start anything."""


class Processes:
    """What all processes of an agent's jobs share. Made when the first one starts."""

    def __init__(self) -> None:
        self.roots: CgroupRoots = find_roots()
        remove_orphans(self.roots)
        self.guard = OrphanReaper()
        sys.stderr.write(f"node agent: {self.roots.describe()}\n")

    def bound(self, processors: Sequence[int]) -> AbstractContextManager[None]:
        """What this thread starts inside may only use these processors, where no cpuset can say so."""
        return nullcontext() if self.roots.cpuset is not None or not processors else _affinity(processors)

    def close(self) -> None:
        self.guard.close()


@contextmanager
def _affinity(processors: Sequence[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)  # of this thread
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class JobProcess:
    """A script that runs in a session of its own.

    `processors`: how many a rate of 1 stands for. `bound_to`: those that the job shares with others, one entry a core
    that it has; empty: the job may use any.
    """

    def __init__(
        self,
        shared: Processes,
        script: Path,
        *,
        name: str,
        workdir: Path,
        environ: Mapping[str, str],
        output: Path,
        errors: Path,
        processors: int,
        bound_to: Sequence[int] = (),
    ) -> None:
        self._shared = shared
        self._processors = processors
        self._suspended = False
        self._rate = Fraction(1)
        self._cgroup = JobCgroup(shared.roots, group_name(name), bound_to)
        groups = [str(path) for path in self._cgroup.procs]
        with output.open("ab") as out, errors.open("ab") as err, shared.bound(bound_to):
            self.popen = subprocess.Popen(
                ["/bin/sh", "-c", _ENTER, "job", str(script), *groups],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=workdir, env=dict(environ), start_new_session=True,
            )  # fmt: skip
        shared.guard.watch(self.popen.pid)

    @property
    def session(self) -> int:
        return self.popen.pid

    def suspend(self, *, suspended: bool) -> None:
        """Stop or continue everything in the session."""
        if suspended != self._suspended:
            self._suspended = suspended
            if not self._cgroup.freeze(frozen=suspended):
                self.signal(signal.SIGSTOP if suspended else signal.SIGCONT)

    def set_rate(self, rate: Fraction) -> None:
        """Limit the job to this share of its processors, where the machine can."""
        if rate != self._rate:
            self._rate = rate
            self._cgroup.limit(None if rate == 1 else float(rate * self._processors))

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # already gone
            os.killpg(self.popen.pid, number)

    def terminate(self) -> None:
        """SIGTERM to everything, in a state in which it is heard."""
        self.suspend(suspended=False)
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to everything. A frozen process dies only once it is thawed."""
        self.signal(signal.SIGKILL)
        self.suspend(suspended=False)

    def close(self) -> None:
        """After its end: kill what the script left behind in its session, and tidy up."""
        self.kill()
        self.popen.wait()
        self._shared.guard.forget(self.popen.pid)
        self._cgroup.remove()
