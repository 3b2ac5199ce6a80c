"""Mechanisms that bring their own machine, live: processes do the work that the machine tells of, and prove it."""

from functools import partial

import numpy as np
import pytest

from balancer.clock import US as S
from emulator.kernel.job_states import RunOutcome
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import JobTable, Kind
from fleet_kit.both_clocks import assert_proved, assert_same, of_a_table, proofs_of, run_both

pytestmark = pytest.mark.live


scenario = partial(of_a_table, speed=10_000, jobs="emulator-job")


def table(seed, count, *, widths, **more):
    draw = np.random.default_rng(seed)
    run_us = draw.integers(60 * S, 1200 * S, count)
    return JobTable.build(
        submit_us=np.sort(draw.integers(0, 1500, count) * S),
        run_us=run_us,
        estimate_us=(run_us * draw.uniform(1, 2, count)).astype(np.int64),
        nodes=draw.choice(widths, count),
        **more,
    )


def realtime(scheme, **more):
    """Slow checkpoints, so that several jobs are at it at a time: 60 s where nobody else is, 120 s and more else."""
    slow = {"data_gb": 60, "node_gb_s": 1, "write_cap_gb_s": 4, "read_cap_gb_s": 4}
    return {"realtime": {"scheme": scheme, "percent": 30} | slow | more}


def hybrid_table(seed, jobs=14, leases=5):
    count = jobs + leases
    draw = np.random.default_rng(seed)
    base = table(
        seed,
        count,
        widths=[1, 2, 3, 4, 6],
        kind=draw.permutation([Kind.BATCH] * jobs + [Kind.ON_DEMAND] * leases),
    )
    is_lease = base.kind == Kind.ON_DEMAND
    malleable = ~is_lease & (draw.random(count) < 0.5) & (base.nodes > 1)
    has_own = ~is_lease & ~malleable & (draw.random(count) < 0.7)
    return base.with_extra(
        job_class=np.where(malleable, JobClass.MALLEABLE, JobClass.RIGID),
        min_nodes=np.where(malleable, 1, base.nodes),
        max_nodes=base.nodes.astype(np.int64),
        setup_us=np.where(is_lease, 0, draw.integers(0, 30 * S, count)),
        checkpoint_us=np.where(has_own, 10 * S, 0),
        checkpoint_interval_us=np.where(has_own, 120 * S, 0),
        notice_us=np.where(is_lease, np.maximum(base.submit_us - 200 * S, 0), -1),
        predicted_us=np.where(is_lease, base.submit_us, -1),
    )


def assert_live_is_virtual(tmp_path, wanted, jobs):
    virtual, live = run_both(tmp_path, wanted, jobs)
    assert_same(virtual, live)
    assert live.contradictions == ()
    assert len(assert_proved(tmp_path, live)) == len(jobs)
    return live


def preempted(record):
    """Work lost by each run that was broken off."""
    return record.runs.lost_node_us[record.runs.outcome == RunOutcome.PREEMPTED]


class TestRealtime:
    jobs = table(3, 14, widths=[1, 2, 3, 4, 6])

    @pytest.mark.slow
    def test_preempted_jobs_begin_anew(self, tmp_path):
        live = assert_live_is_virtual(tmp_path, scenario(realtime("pre_rest")), self.jobs)
        assert preempted(live).min() > 0

    @pytest.mark.slow
    def test_preempted_jobs_write_first_and_lose_nothing(self, tmp_path):
        live = assert_live_is_virtual(tmp_path, scenario(realtime("pre_ckpt")), self.jobs)
        assert preempted(live).tolist() == [0] * 5
        assert live.figures["checkpoints"] == 5

    @pytest.mark.slow
    def test_preempted_jobs_go_on_from_their_last_checkpoint(self, tmp_path):
        live = assert_live_is_virtual(tmp_path, scenario(realtime("pre_ckpt_sys", interval_s=200)), self.jobs)
        assert preempted(live).max() > 0
        assert live.figures["checkpoints"] > 20


def flexible(seed, count=10):
    whole = np.full(count, 8)
    return table(seed, count, widths=[1, 2, 3, 4, 6]).with_extra(
        job_class=np.full(count, JobClass.MALLEABLE), min_nodes=np.ones(count, np.int64), max_nodes=whole
    )


def widths(record, outcome):
    """Of each run with this outcome: its nodes, and those of the job's next run."""
    runs = record.runs
    wide = np.diff(runs.first)
    for row in np.flatnonzero(runs.outcome == outcome):
        later = np.flatnonzero((runs.job == runs.job[row]) & (np.arange(len(wide)) > row))
        yield int(wide[row]), int(wide[later[0]])


class TestMalleable:
    @pytest.mark.slow
    @pytest.mark.parametrize("speedup", ["linear", {"amdahl": {"serial": 0.1}}], ids=["linear", "amdahl"])
    def test_jobs_shrink_and_expand_and_stand_still_for_it(self, tmp_path, speedup):
        mechanism = {"malleable": {"reconfiguration_s": 5, "speedup": speedup}}
        wanted = scenario(mechanism, scheduler="fcfs+conservative")
        virtual, live = run_both(tmp_path, wanted, flexible(1))
        assert_same(virtual, live)
        changes = list(widths(live, RunOutcome.RESIZED))
        assert (
            min(after - before for before, after in changes)
            < 0
            < max(after - before for before, after in changes)
        )
        if speedup == "linear":
            assert_proved(tmp_path, live)
        else:  # the work is counted in parts of a node's
            assert all(proof.finished and not proof.lost for proof in proofs_of(tmp_path).values())


class TestHybrid:
    @pytest.mark.slow
    def test_with_notice_malleable_jobs_shrink_and_get_their_nodes_back(self, tmp_path):
        wanted = scenario({"hybrid": {"strategy": "cua+spaa", "warning_s": 60}})
        live = assert_live_is_virtual(tmp_path, wanted, hybrid_table(28))
        changes = list(widths(live, RunOutcome.RESIZED))
        assert (
            min(after - before for before, after in changes)
            < 0
            < max(after - before for before, after in changes)
        )
        assert preempted(live).min() == 0  # a malleable one, with a checkpoint
        assert preempted(live).max() > 0  # a rigid one

    @pytest.mark.slow
    def test_without_notice_jobs_are_preempted(self, tmp_path):
        wanted = scenario({"hybrid": {"strategy": "n+paa", "warning_s": 60}})
        live = assert_live_is_virtual(tmp_path, wanted, hybrid_table(4))
        assert preempted(live).min() == 0
        assert preempted(live).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "scheduler", "jobs"),
    [
        pytest.param(
            realtime("pre_ckpt"), "fcfs+easy", TestRealtime.jobs, id="realtime", marks=pytest.mark.slow
        ),
        pytest.param(
            {"malleable": {"reconfiguration_s": 5}}, "fcfs+conservative", flexible(1), id="malleable"
        ),
        pytest.param(
            {"hybrid": {"strategy": "cua+spaa"}},
            "fcfs+easy",
            hybrid_table(28),
            id="hybrid",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_jobs_that_sleep_start_and_end_when_they_should(tmp_path, mechanism, scheduler, jobs):
    wanted = scenario(mechanism, scheduler=scheduler, jobs="sleep")
    assert_same(*run_both(tmp_path, wanted, jobs))
