"""The real process of a job on its node: started, stopped for a while, slowed down, killed with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext, suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from emulator.live.cgroups import CgroupRoots, JobCgroup, find_roots, group_name, remove_orphans
from emulator.live.reaper import OrphanReaper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

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
