"""Jobs that lose their nodes to a mechanism or to a dead node go on elsewhere, and their own output proves it."""

import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.job.proof import prove
from emulator.mechanisms.malleable import Malleable
from emulator.workload.store import save
from emulator.workload.table import JobTable
from processes import is_alive

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("toy")]
HALVES = {"first": ["n01", "n02", "n03"], "second": ["n04", "n05", "n06"]}


@pytest.fixture
def fleet_with(make_fleet, tmp_path, monkeypatch):
    """Two agents of three nodes, and one job of 900 node-seconds on three nodes, submitted at 0."""

    def make(*steps, checkpoint_every_s=0):
        jobs = JobTable.build(
            submit_us=[0], run_us=[300 * US], nodes=[3], number=[7], estimate_us=[1000 * US]
        )
        every_us = np.array([checkpoint_every_s * US])
        jobs = jobs.with_extra(checkpoint_interval_us=every_us, checkpoint_us=np.array([2 * US]))
        save(jobs, tmp_path / "jobs.npz")
        mechanism = {"scripted": {"steps": list(steps)}}
        fleet = make_fleet(
            hooks=False, agents=HALVES, mechanism=mechanism, workload=str(tmp_path / "jobs.npz"),
            queues=["batch", "ondemand"],
        )  # fmt: skip
        program = f"exec {sys.executable} -m emulator.live.job.program"
        script = f"{program} --work 900 --checkpoints {tmp_path}/shared --name seven\n"
        place = "-v", "WORKLOAD_JOB=7,PYTHONPATH=" + ":".join(filter(None, sys.path))
        fleet.qsub("-N", "seven", "-l", "nodes=3,walltime=1000", *place, script=script)
        return fleet

    return make


def proof(fleet):
    with (fleet.home / "seven.o0").open() as output:
        return prove(output)


def runs(fleet):
    """(start, end, nodes) of each run, in seconds."""
    table = fleet.export()["record"]["runs"]
    pieces = zip(table["start_us"], table["end_us"], table["first"], table["first"][1:], strict=False)
    return [(start / US, end / US, sorted(table["node"][one:other])) for start, end, one, other in pieces]


@pytest.mark.slow
def test_preempted_with_a_checkpoint_it_goes_on_elsewhere_and_its_old_node_may_die(fleet_with):
    fleet = fleet_with([100, "keep", 0, 1, 2], [100, "save_and_stop", 0, 20])
    fleet.at(150)
    fleet.kill("first")
    fleet.at(330)
    assert runs(fleet) == [(0, 120, [0, 1, 2]), (120, 320, [3, 4, 5])]
    done = proof(fleet)
    assert (done.done, done.lost, done.runs, done.finished) == (900 * US, 0, 2, True)
    assert done.times_us == (120 * US, 320 * US)


@pytest.mark.slow
def test_resized_to_nodes_of_another_agent_only_it_goes_on_there_with_all_its_work(fleet_with):
    fleet = fleet_with([100, "nodes", 0, 3, 4])
    fleet.at(150)
    fleet.kill("first")
    fleet.at(440)
    assert runs(fleet) == [(0, 100, [0, 1, 2]), (100, 400, [3, 4])]
    done = proof(fleet)
    assert (done.done, done.lost, done.runs, done.finished) == (900 * US, 0, 2, True)
    assert done.times_us == (0, 400 * US)


@pytest.mark.slow
def test_when_its_node_dies_it_goes_on_elsewhere_from_its_last_checkpoint(fleet_with):
    fleet = fleet_with(checkpoint_every_s=50)
    fleet.at(130)
    fleet.kill("first")
    fleet.at(130 + 214 + 250)
    first, second = runs(fleet)
    # 50 s of work, 2 s of writing, 50 s, 2 s: at 104 s two checkpoints are whole, 100 s of work are saved.
    assert first == (0, 344, [0, 1, 2])
    assert second == (344, 344 + 200 + 3 * 2, [3, 4, 5])
    done = proof(fleet)
    assert (done.done - done.lost, done.runs, done.finished) == (900 * US, 2, True)
    assert 0 < done.lost <= 26 * 3 * US


@pytest.mark.slow
def test_a_suspended_process_stands_still_and_a_slow_one_takes_longer(fleet_with):
    fleet = fleet_with([100, "suspend", 0], [250, "resume", 0], [300, "rate", 0, 1, 2])
    fleet.at(1000)
    assert runs(fleet) == [(0, 100 + 150 + 50 + 2 * 150, [0, 1, 2])]
    done = proof(fleet)
    assert (done.done, done.lost, done.finished) == (900 * US, 0, True)


def session_of(fleet):
    return int(re.search(r"session_id = (\d+)", fleet.run("qstat", "-f", "0").stdout)[1])


def kill(session):
    """As the kernel does where memory runs short; a frozen process of cgroup version 1 dies when it is thawed."""
    group = re.search(r":freezer:(/.*emulator-job-.*)", Path(f"/proc/{session}/cgroup").read_text())
    os.killpg(session, signal.SIGKILL)
    if group is not None:
        Path(f"/sys/fs/cgroup/freezer{group[1]}/freezer.state").write_text("THAWED")


@pytest.mark.slow
def test_a_job_that_left_its_nodes_is_suspended_for_users_too_and_its_process_goes_on(fleet_with):
    fleet = fleet_with([100, "leave", 0], [250, "resume", 0])
    fleet.at(150)
    assert fleet.letter(0) == "S"
    assert set(fleet.states().values()) == {"free"}
    fleet.at(600)
    assert runs(fleet) == [(0, 100, [0, 1, 2]), (250, 450, [0, 1, 2])]
    done = proof(fleet)
    assert (done.done, done.lost, done.runs, done.finished) == (900 * US, 0, 1, True)


@pytest.mark.slow
def test_when_the_node_under_its_memory_dies_it_goes_on_elsewhere_from_its_last_checkpoint(fleet_with):
    fleet = fleet_with([130, "leave", 0], checkpoint_every_s=50)
    fleet.at(150)
    session = session_of(fleet)
    fleet.kill("first")
    fleet.wait_until(lambda: not is_alive(session))
    fleet.at(150 + 214 + 250)
    # 50 s of work, 2 s of writing, twice, and 26 s of work that were only in its memory.
    assert runs(fleet) == [(0, 130, [0, 1, 2]), (364, 364 + 200 + 3 * 2, [3, 4, 5])]
    done = proof(fleet)
    assert (done.done - done.lost, done.lost, done.runs, done.finished) == (900 * US, 26 * 3 * US, 2, True)
    assert fleet.export()["record"]["runs"]["outcome"] == [RunOutcome.PREEMPTED, RunOutcome.FINISHED]


@pytest.mark.slow
def test_when_its_stopped_process_is_killed_it_waits_again(fleet_with):
    fleet = fleet_with([100, "leave", 0])
    fleet.at(150)
    kill(session_of(fleet))
    fleet.wait_until(lambda: fleet.letter(0) != "S")
    fleet.at(600)
    assert runs(fleet) == [(0, 100, [0, 1, 2]), (150, 450, [0, 1, 2])]
    assert fleet.export()["record"]["runs"]["outcome"] == [RunOutcome.PREEMPTED, RunOutcome.FINISHED]


@pytest.mark.slow
def test_users_cannot_take_a_job_out_of_the_hands_of_a_mechanism(fleet_with):
    fleet = fleet_with()
    for command in ("qdel", "qhold", "qrerun"):
        assert "a mechanism decides about the jobs here" in fleet.run(command, "0").stderr
    again = fleet.run("qsub", "-v", "WORKLOAD_JOB=7", user="alice", text="sleep 1\n")
    assert again.returncode == 159
    assert "WORKLOAD_JOB must be a job of it that was not submitted" in again.stderr
    fleet.at(400)
    assert proof(fleet).finished


@pytest.mark.slow
class TestMachine:
    """A planning machine on two agents' nodes: job 7, malleable, wants all six for 150 s; job 8 comes at 100 s."""

    LIAR = """
import sys
from emulator.live.job.control import MessageKind, agent_control
control = agent_control()
message = control.begin(1)
while message.what != MessageKind.LEAVE:
    message = control.wait(1 << 62, 1)
control.over(1)
"""

    @pytest.fixture
    def planned(self, make_fleet, tmp_path):
        Malleable.warm_up()  # or the server compiles while the test waits
        jobs = JobTable.build(
            submit_us=[0, 100 * US], run_us=[150 * US, 50 * US], nodes=[6, 4], number=[7, 8]
        )
        kinds = {"job_class": np.array([2, 0]), "min_nodes": np.array([1, 4]), "max_nodes": np.array([6, 4])}
        save(jobs.with_extra(**kinds), tmp_path / "jobs.npz")
        return make_fleet(
            hooks=False, agents=HALVES, mechanism={"malleable": {"reconfiguration_s": 10}},
            scheduler={"backfill": "conservative"}, workload=str(tmp_path / "jobs.npz"), queues=["batch", "ondemand"],
        )  # fmt: skip

    @staticmethod
    def submit(fleet, number, nodes, script):
        place = "-v", f"WORKLOAD_JOB={number},PYTHONPATH=" + ":".join(filter(None, sys.path))
        fleet.qsub(
            "-N",
            "seven" if number == 7 else "eight",
            "-l",
            f"nodes={nodes},walltime=1000",
            *place,
            script=script,
        )

    def both(self, fleet, script):
        self.submit(fleet, 7, 6, script)
        fleet.at(100)
        self.submit(fleet, 8, 4, "sleep 50\n")
        fleet.at(400)
        return fleet.export()["record"]

    def test_a_job_that_shrinks_goes_on_on_another_agents_node_with_all_its_work(self, planned, tmp_path):
        program = f"{sys.executable} -m emulator.live.job.program"
        record = self.both(
            planned, f"exec {program} --work 900 --checkpoints {tmp_path}/shared --name seven\n"
        )
        assert record["contradictions"] == []
        # 600 node-s on six nodes; two nodes, 10 s without work and 40 s with; six again, 10 s and 220 / 6 s.
        end_us = 160 * US + -(-220 * US // 6)
        assert [(start, nodes) for start, _, nodes in runs(planned)] == [
            (0, [0, 1, 2, 3, 4, 5]),
            (100, [0, 1]),
            (100, [2, 3, 4, 5]),
            (150, [0, 1, 2, 3, 4, 5]),
        ]
        done = proof(planned)
        assert (done.done, done.lost, done.finished) == (900 * US, 0, True)
        assert done.runs > 1
        assert done.times_us[1] == end_us

    def test_a_job_that_says_something_else_than_its_account_contradicts_it(self, planned, tmp_path):
        (tmp_path / "liar.py").write_text(self.LIAR)
        record = self.both(planned, f"exec {sys.executable} {tmp_path}/liar.py emulator-job\n")
        by_account = [600, 680, 900]
        assert record["contradictions"] == [
            f"job 0.server has done 1 units of work, by its account {done * US}" for done in by_account
        ]

    def test_a_process_that_ends_before_its_time_contradicts_its_account(self, planned):
        self.submit(planned, 7, 6, "exit 3\n")
        planned.at(1)
        planned.wait_until(lambda: planned.export()["record"]["contradictions"])
        record = planned.export()["record"]
        assert record["contradictions"] == ["job 0.server ended with status 3 before its end"]
        assert JobState(record["state"][0]) == JobState.RUNNING
