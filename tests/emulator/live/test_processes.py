"""What is done to the real process of a job: suspended, slowed down, killed, with everything it has started."""

import os
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from balancer.clock import US, wall_us
from emulator.live.job_process import (
    CgroupRoots,
    JobCgroup,
    JobProcess,
    Processes,
    find_roots,
    remove_orphans,
)
from emulator.live.shares import tracks
from polling import until
from processes import is_alive

pytestmark = pytest.mark.live
SPIN = "( while :; do :; done ) & echo $! > child; wait\n"


@pytest.fixture(params=["cgroups", "signals"])
def start(tmp_path, request):
    """Runs a script as a job, with the control groups of this machine or without any."""
    shared = Processes()
    if request.param == "signals":
        shared.roots = CgroupRoots(None, None, 1)
    started = []

    def start(script, bound_to=()):
        number = len(started)
        path = tmp_path / f"script{number}"
        path.write_text(script)
        places = {"workdir": tmp_path, "output": tmp_path / f"out{number}", "errors": tmp_path / "err"}
        environ = os.environ | {"EMULATOR_PROCESSORS": ",".join(map(str, bound_to))}
        more = {"name": str(number), "environ": environ, "processors": 1, "bound_to": bound_to}
        started.append(JobProcess(shared, path, **more, **places))
        return started[-1]

    start.has_weights = shared.roots.cpu is not None
    yield start
    for process in started:
        process.close()
    shared.close()


def child_of(tmp_path):
    path = tmp_path / "child"
    return int(until(lambda: path.exists() and path.read_text()))


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
    until(lambda: used_s(child, 0.1)[0])


def test_a_suspended_job_can_be_killed_with_all_it_started(start, tmp_path):
    process = start(SPIN)
    child = child_of(tmp_path)
    process.suspend(suspended=True)
    process.close()
    until(lambda: not is_alive(child))


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


@pytest.mark.slow
class TestSharing:
    """Jobs that only compute, on processors that they are bound to. Their own processor time is compared, not
    the wall's, since other processes may be there too."""

    @staticmethod
    def spin(start, *bound_to):
        processes = [start(f"exec {sys.executable} -m emulator.live.job.spin\n", cores) for cores in bound_to]
        return [process.session for process in processes]

    @staticmethod
    def shares(tmp_path, jobs):
        """Processor time of the workers of each job while all were there for two seconds, (processor, us)."""

        def measured():
            outputs = [(tmp_path / f"out{job}").read_text() for job in range(len(jobs))]
            found = [tracks(output.splitlines(keepends=True)) for output in outputs]
            workers = [track for job in found for track in job]
            if all(len(job) == count for job, count in zip(found, jobs, strict=True)):
                begin_us = max(track.wall_us[0] for track in workers)
                end_us = min(track.wall_us[-1] for track in workers)
                if end_us - begin_us > 2 * US:
                    return [
                        [(track.processor, track.used_us(begin_us, end_us)) for track in job] for job in found
                    ]
            return None

        return until(measured)

    def test_two_jobs_of_one_processor_get_equal_parts_and_do_not_leave_it(self, start, tmp_path):
        (processor, *_) = os.sched_getaffinity(0)
        self.spin(start, [processor], [processor])
        ((one,), (other,)) = self.shares(tmp_path, [1, 1])
        assert (one[0], other[0]) == (processor, processor)
        assert one[1] == pytest.approx(other[1], rel=0.35)

    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
    def test_a_job_of_two_processors_gets_half_of_the_one_that_it_shares(self, start, tmp_path):
        first, second, *_ = sorted(os.sched_getaffinity(0))
        wide, narrow = self.spin(start, [first, second], [second])
        wide_shares, ((_, narrow_us),) = self.shares(tmp_path, [2, 1])
        if start.has_weights:  # else a session may weigh as much as another one, whatever they run on
            assert dict(wide_shares)[second] == pytest.approx(narrow_us, rel=0.35)
        allowed = [os.sched_getaffinity(session) for session in (wide, narrow)]
        assert allowed == [{first, second}, {second}]


def test_a_machine_without_control_groups_is_recognised(tmp_path):
    assert find_roots(tmp_path / "none", tmp_path / "nothing") == CgroupRoots(None, None, 1)
    assert CgroupRoots(None, None, 1).describe() == (
        "jobs are suspended with SIGSTOP and SIGCONT; rates: no limit on processors;"
        " cores: CPU affinity (no cpuset can be made here)"
    )


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


@pytest.mark.parametrize(("version", "weight"), [(1, ("cpu.shares", "2048")), (2, ("cpu.weight", "200"))])
def test_a_group_weighs_one_part_for_each_of_its_processors(tmp_path, version, weight):
    (tmp_path / "cpuset.mems").write_text("0")
    JobCgroup(CgroupRoots(None, tmp_path, version, tmp_path), "job", [3, 1])
    assert (tmp_path / "job" / "cpuset.cpus").read_text() == "1,3"
    assert (tmp_path / "job" / weight[0]).read_text() == weight[1]
    assert (tmp_path / "job" / "cpuset.mems").exists() == (version == 1)
