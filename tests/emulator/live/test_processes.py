"""What is done to the real process of a job: suspended, slowed down, killed, with everything it has started."""

import os
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from balancer.clock import US, wall_us
from emulator.live.cgroups import CgroupRoots, JobCgroup, find_roots, remove_orphans
from emulator.live.processes import JobProcess, Processes

pytestmark = pytest.mark.live
SPIN = "( while :; do :; done ) & echo $! > child; wait\n"


@pytest.fixture(params=["cgroups", "signals"])
def start(tmp_path, request):
    """Runs a script as a job, with the control groups of this machine or without any."""
    shared = Processes()
    if request.param == "signals":
        shared.roots = CgroupRoots(None, None, 1)
    started = []

    def start(script):
        path = tmp_path / "script"
        path.write_text(script)
        places = {"workdir": tmp_path, "output": tmp_path / "out", "errors": tmp_path / "out"}
        started.append(JobProcess(shared, path, name="7", environ=os.environ, processors=1, **places))
        return started[-1]

    yield start
    for process in started:
        process.close()
    shared.close()


def child_of(tmp_path):
    pause = threading.Event()
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        pause.wait(0.01)
    return int((tmp_path / "child").read_text())


def used_s(pid, wall_s):
    """Processor time that the process uses in so much wall time, and that time."""

    def ticks():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before, began_us = ticks(), wall_us()
    threading.Event().wait(wall_s)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK"), (wall_us() - began_us) / US


def test_a_suspended_job_uses_nothing_until_it_is_resumed(start, tmp_path):
    process = start(SPIN)
    child = child_of(tmp_path)
    process.suspend(suspended=True)
    used_s(child, 0.1)
    assert used_s(child, 0.5)[0] == 0
    process.suspend(suspended=False)
    pause = threading.Event()
    while used_s(child, 0.1)[0] == 0:
        pause.wait(0.01)


def test_a_suspended_job_can_be_killed_with_all_it_started(start, tmp_path):
    process = start(SPIN)
    child = child_of(tmp_path)
    process.suspend(suspended=True)
    process.close()
    status = Path(f"/proc/{child}/stat")
    pause = threading.Event()
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}:
        pause.wait(0.01)


def test_a_slow_job_gets_its_share_where_the_machine_can_limit_it(start, tmp_path):
    process = start(SPIN)
    child = child_of(tmp_path)
    process.set_rate(Fraction(1, 10))
    if process._shared.roots.cpu is None:
        return  # nobody promised it
    used_s(child, 0.2)
    used, wall = used_s(child, 1.5)
    assert used <= 0.1 * wall * 1.3 + 0.1
    process.set_rate(Fraction(1))


def test_a_machine_without_control_groups_is_recognised(tmp_path):
    assert find_roots(tmp_path / "none", tmp_path / "nothing") == CgroupRoots(None, None, 1)
    told = CgroupRoots(None, None, 1).describe()
    assert told == "jobs are suspended with SIGSTOP and SIGCONT; rates: no limit on processors"


def test_groups_of_agents_that_were_killed_are_removed(tmp_path):
    roots = CgroupRoots(tmp_path, None, 1)
    for name in ("emulator-job-999999999-3", f"emulator-job-{os.getpid()}-3", "other"):
        (tmp_path / name).mkdir()
    remove_orphans(roots)
    assert {path.name for path in tmp_path.iterdir()} == {f"emulator-job-{os.getpid()}-3", "other"}


def test_version_2_is_used_by_its_files(tmp_path):
    (tmp_path / "cgroup.controllers").touch()
    roots = CgroupRoots(tmp_path, tmp_path, 2)
    group = JobCgroup(roots, "job")
    folder = tmp_path / "job"
    assert group.procs == [folder / "cgroup.procs"]
    group.freeze(frozen=True)
    group.limit(0.5)
    assert ((folder / "cgroup.freeze").read_text(), (folder / "cpu.max").read_text()) == ("1", "50000 100000")
    group.limit(None)
    assert (folder / "cpu.max").read_text() == "max 100000"
