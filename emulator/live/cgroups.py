"""Control groups for the processes of a job: to freeze them, to limit their share of the processors, to say which.

Version 1 and version 2, where this process may make groups; a machine or container that does not allow it has neither,
and the caller does without.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        usable = _usable(group, "cgroup.freeze")
        return CgroupRoots(usable, _usable(group, "cpu.max"), 2, _usable(group, "cpuset.cpus"))
    found = {
        name: _usable(root / name / groups.get(name, "/").lstrip("/"), file)
        for name, file in (
            ("freezer", "freezer.state"),
            ("cpu", "cpu.cfs_quota_us"),
            ("cpuset", "cpuset.cpus"),
        )
    }
    return CgroupRoots(found["freezer"], found["cpu"], 1, found["cpuset"])


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
