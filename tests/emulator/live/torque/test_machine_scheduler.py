"""What a machine tells of its jobs' work is what a process can do: instant by instant, without processes."""

from types import SimpleNamespace

import numpy as np
import pytest

from balancer.clock import NEVER_US
from emulator.live.job.program import Phase
from emulator.live.torque.mechanism_scheduler import MachineScheduler
from emulator.mechanisms.hybrid import HybridMechanism
from emulator.mechanisms.malleable import Malleable
from emulator.mechanisms.realtime import Realtime
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.executor_live import LiveExecutor
from emulator.workload.table import JobTable, Kind
from manual_clock import ManualClock
from oracle import hybrid_kit

EASY, PLANNED = SchedulerConfig(), SchedulerConfig(backfill="conservative")


class Process:
    """Does what `emulator-job` does, without a process."""

    def __init__(self, phase, nodes, saved, now_us):
        self.total, self.own = phase["total"], (phase["interval_us"], phase["cost_us"])
        self.saved = saved if saved <= phase["begun"] else 0
        self._begin(phase, nodes, self.saved)
        self.now_us = now_us

    def _begin(self, phase, nodes, done):
        self.phase = Phase(self.total, done, phase["since_us"], nodes, phase["num"], phase["den"], *self.own)
        self.asked, self.number = None, 1

    def at(self, now_us):
        """What it has done, its own checkpoints and the one that it was asked for being written on the way."""
        while (own := self.phase.checkpoint(self.number)) is not None and own[0] <= now_us:
            self.saved, self.number = own[1], self.number + 1
        if self.asked is not None and self.asked[0] <= now_us:
            self.saved, self.asked = self.asked[1], None
        return self.phase.at(now_us)

    def change(self, phase, nodes, save_us, now_us):
        done = self.at(now_us)
        self._begin(phase, nodes, done)
        self.asked = None if save_us == NEVER_US else (save_us, done)
        return self.at(now_us)


class Fleet:
    """Agents whose jobs obey. Whatever a job has done must be what the scheduler says that it has done."""

    def __init__(self):
        self.scheduler = None
        self.processes, self.files = {}, {}
        self.done, self.lost = {}, {}
        self.checked = 0

    def run_begins(self, row, now_us):
        phase, saved = self.scheduler.phase(row), self.files.get(row, 0)
        process = self.processes[row] = Process(phase, len(self.scheduler.nodes_of(row)), saved, now_us)
        self.lost[row] = self.lost.get(row, 0) + self.done.get(row, 0) - process.phase.done

    def run_changes(self, row, now_us, save_us=NEVER_US, *, done=None):
        process = self.processes[row]
        assert (
            process.change(self.scheduler.phase(row), len(self.scheduler.nodes_of(row)), save_us, now_us)
            == done
        )
        self.checked += 1

    def run_leaves(self, row, now_us, *, save, done=None):
        process = self.processes.pop(row)
        self.done[row] = process.at(now_us)
        assert done in (None, self.done[row])
        self.files[row] = self.done[row] if save else process.saved
        self.checked += done is not None

    def run_is_over(self, row, outcome, now_us, done=None):
        process = self.processes.pop(row)
        assert done in (None, process.at(now_us))
        self.done[row] = process.total
        self.checked += done is not None

    def job_rejected(self, row, reason, now_us):
        pass


def follow(mechanism, scheduler, jobs, nodes):
    """Run to the end; (fleet, record)."""
    clock = ManualClock()
    executor, fleet = LiveExecutor(clock), Fleet()
    machine = mechanism.make_machine(nodes, scheduler, jobs, 1)
    names = tuple(f"n{number}" for number in range(nodes))
    follower = fleet.scheduler = MachineScheduler(
        machine, mechanism, "mechanism", jobs, node_names=names, executor=executor, effects=fleet
    )
    for row in range(len(jobs)):
        queue = "ondemand" if jobs.kind[row] == Kind.ON_DEMAND else "batch"
        variables = (("WORKLOAD_JOB", str(jobs.number[row])),)
        follower.row_of(SimpleNamespace(nodes=int(jobs.nodes[row]), queue=queue, variables=variables), row, 0)
    assert not follower.is_over, "a server looks before its nodes are up"
    follower.nodes_are_up(0)
    executor.settle()
    while (next_us := executor._next_us) < NEVER_US:
        clock.advance_to(next_us)
        executor.settle()
    return fleet, follower.record()


def assert_proved(fleet, record):
    """The work and the losses of each job are those of the run table, in node-us."""
    for row in range(len(record.jobs)):
        mine = record.runs.job == row
        assert fleet.lost.get(row, 0) == record.runs.lost_node_us[mine].sum()
    assert fleet.checked > 0


def jobs_of(draw, count, nodes, **extra):
    """Everything in a few microseconds, so that much happens at one time."""
    run_us = draw.integers(1, 40, count)
    return JobTable.build(
        submit_us=np.sort(draw.integers(0, 60, count)),
        run_us=run_us,
        estimate_us=run_us + draw.choice([0, 3, 20], count),
        nodes=draw.integers(1, nodes + 1, count),
        extra=extra,
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", ["hpq", "pre_rest", "pre_ckpt_sys", "pre_ckpt_app", "pre_ckpt"])
def test_realtime(scheme):
    for seed in range(40):
        draw = np.random.default_rng(seed)
        nodes = 4 * int(draw.integers(1, 5))
        mechanism = Realtime(
            scheme=scheme, percent=40, data_gb=6e-6 * (seed % 5 > 0), node_gb_s=2, write_cap_gb_s=4, read_cap_gb_s=6,
            shared_cap=bool(seed % 2), interval_share=0.2, topology={"flat": {"unit_nodes": 1 + 3 * (seed % 3 == 0)}},
        )  # fmt: skip
        fleet, record = follow(mechanism, EASY, jobs_of(draw, 16, nodes), nodes)
        assert_proved(fleet, record)


@pytest.mark.parametrize("minimum", ["least", "placed", "shared"])
def test_malleable(minimum):
    for seed in range(40):
        draw = np.random.default_rng(seed)
        nodes, count = int(draw.integers(2, 9)), 16
        kinds = {"job_class": draw.integers(0, 3, count), "min_nodes": np.ones(count, np.int64)}
        speedup = {"amdahl": {"serial": 0.2}} if seed % 3 == 0 else "linear"
        mechanism = Malleable(
            minimum=minimum, reconfiguration_s=3e-6 * (seed % 2), tick_s=4e-6 * (seed % 4 == 0), speedup=speedup
        )  # fmt: skip
        fleet, record = follow(mechanism, PLANNED, jobs_of(draw, count, nodes, **kinds), nodes)
        assert_proved(fleet, record)


@pytest.mark.sample(4)
@pytest.mark.parametrize("strategy", ["baseline", *hybrid_kit.STRATEGIES])
@pytest.mark.parametrize("mtbf_s", [0, 2e-5], ids=["lasting", "failing"])
def test_hybrid(strategy, mtbf_s):
    for seed in range(30):
        jobs, nodes = hybrid_kit.random_jobs(np.random.default_rng(seed))
        mechanism = HybridMechanism(
            strategy, release_after_s=1e-5, warning_s=4e-6 * (seed % 2), mtbf_s=mtbf_s, repair_s=1e-5
        )
        fleet, record = follow(mechanism, EASY, hybrid_kit.job_table(jobs), nodes)
        if len(fleet.done):
            assert_proved(fleet, record)
