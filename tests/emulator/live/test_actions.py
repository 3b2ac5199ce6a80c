"""What a mechanism does to running jobs happens live as it does in virtual time, and no work is lost or done twice."""

from functools import partial

import numpy as np
import pytest

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.validation.laws import check
from emulator.workload.table import JobTable, Kind
from fleet_kit.both_clocks import assert_proved, assert_same, of_a_table, proofs_of, run_both, run_live

S = 1_000_000


pytestmark = [pytest.mark.live, pytest.mark.usefixtures("toy")]


def workload(seed, jobs=25, leases=6):
    draw = np.random.default_rng(seed)
    count = jobs + leases
    run_us = draw.integers(60 * S, 2500 * S, count)
    table = JobTable.build(
        submit_us=np.sort(draw.integers(0, 5000, count) * S),
        run_us=run_us,
        estimate_us=(run_us * draw.uniform(1, 2, count)).astype(np.int64),
        nodes=draw.choice([1, 1, 2, 3, 4, 6], count),
        kind=draw.permutation([Kind.BATCH] * jobs + [Kind.ON_DEMAND] * leases),
    )
    has_own = draw.random(count) < 0.5
    return table.with_extra(
        setup_us=draw.integers(0, 30 * S, count),
        checkpoint_us=np.where(has_own, 5 * S, 0),
        checkpoint_interval_us=np.where(has_own, 120 * S, 0),
        min_nodes=np.ones(count, np.int64),
        max_nodes=np.full(count, 8),
        notice_us=np.where(table.kind == Kind.ON_DEMAND, np.maximum(table.submit_us - 300 * S, -1), -1),
    )


scenario = partial(of_a_table, {"rota": {"period_s": 200}})


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_each_action_gives_the_same_run_in_both_clocks(tmp_path, seed):
    virtual, live = run_both(tmp_path, scenario(), workload(seed))
    assert_same(virtual, live)
    assert set(virtual.runs.outcome.tolist()) >= {
        RunOutcome.FINISHED, RunOutcome.REQUEUED, RunOutcome.RESIZED, RunOutcome.PREEMPTED,
    }  # fmt: skip
    assert set(virtual.state.tolist()) >= {JobState.ENDED}


@pytest.mark.slow
def test_each_action_on_real_processes_gives_the_same_run_and_each_job_proves_its_work(tmp_path):
    jobs = workload(3, jobs=12, leases=3)
    virtual, live = run_both(tmp_path, scenario(jobs="emulator-job", speed=5000), jobs)
    assert_same(virtual, live)
    proofs = assert_proved(tmp_path, live)
    assert max(proof.lost for proof in proofs.values()) > 0


class TestLeavingNodes:
    """Suspended jobs leave their nodes to others and go on there with all their work."""

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [4, 5])
    def test_the_same_run_in_both_clocks(self, tmp_path, seed):
        wanted = scenario().model_copy(update={"mechanism": {"rota": {"period_s": 200, "leaves": True}}})
        virtual, live = run_both(tmp_path, wanted, workload(seed))
        assert_same(virtual, live)
        assert set(virtual.runs.outcome.tolist()) >= {RunOutcome.FINISHED, RunOutcome.SUSPENDED}

    @pytest.mark.slow
    def test_on_real_processes_each_job_proves_its_work(self, tmp_path):
        wanted = scenario(jobs="emulator-job", speed=5000).model_copy(
            update={"mechanism": {"rota": {"period_s": 200, "leaves": True}}}
        )
        virtual, live = run_both(tmp_path, wanted, workload(6, jobs=12, leases=3))
        assert_same(virtual, live)
        assert_proved(tmp_path, live)
        assert RunOutcome.SUSPENDED in virtual.runs.outcome

    @pytest.mark.slow
    def test_the_example_makes_room_for_on_demand_jobs_and_no_work_is_lost(self, tmp_path):
        jobs = JobTable.build(
            submit_us=[0, 100 * S, 200 * S, 500 * S],
            run_us=[2000 * S, 2000 * S, 3000 * S, 1000 * S],
            nodes=[2, 5, 2, 3],
            kind=[Kind.BATCH] * 3 + [Kind.ON_DEMAND],
        )
        wanted = scenario(jobs="emulator-job", speed=5000).model_copy(update={"mechanism": "make_room"})
        virtual, live = run_both(tmp_path, wanted, jobs)
        assert_same(virtual, live)
        # Job 3 waits for two nodes; those that job 2 leaves are more than job 4 needs, and it begins there.
        assert live.runs.outcome.tolist().count(RunOutcome.SUSPENDED) == 1
        assert live.start_us[3] == 500 * S
        proofs = assert_proved(tmp_path, live)
        assert [(proofs[number].runs, proofs[number].lost) for number in (1, 2, 3, 4)] == [(1, 0)] * 4

    @pytest.mark.slow
    def test_the_memory_of_a_job_may_be_lost_while_others_run_there(self, tmp_path):
        steps = [[100, "leave", 0], [200, "lose", 0]]
        jobs = JobTable.build(submit_us=[0, 50 * S], run_us=[400 * S, 300 * S], nodes=[8, 4])
        wanted = scenario(jobs="emulator-job", speed=5000).model_copy(
            update={"mechanism": {"scripted": {"steps": steps}}}
        )
        virtual, live = run_both(tmp_path, wanted, jobs)
        assert_same(virtual, live)
        assert [RunOutcome(one).name for one in live.runs.outcome] == ["PREEMPTED", "FINISHED", "FINISHED"]
        assert assert_proved(tmp_path, live)[1].lost == 800 * S

    @pytest.mark.slow
    def test_a_job_that_is_never_resumed_is_still_suspended_at_the_end(self, tmp_path):
        jobs = JobTable.build(submit_us=[0, 50 * S], run_us=[400 * S, 300 * S], nodes=[8, 4])
        wanted = scenario().model_copy(update={"mechanism": {"scripted": {"steps": [[100, "leave", 0]]}}})
        virtual, live = run_both(tmp_path, wanted, jobs)
        assert_same(virtual, live)
        assert live.state.tolist() == [JobState.SUSPENDED, JobState.ENDED]


@pytest.mark.slow
class TestResize:
    """4 nodes for 100 s, 2 for 200 s, 4 again: 1600 node-seconds take 500 s."""

    STEPS = ([100, "width", 0, 2], [300, "width", 0, 4])
    jobs = JobTable.build(submit_us=[0], run_us=[400 * S], nodes=[4]).with_extra(
        min_nodes=np.array([1]), max_nodes=np.array([4])
    )

    def wanted(self, **live):
        return scenario(jobs="emulator-job", **live).model_copy(
            update={"mechanism": {"scripted": {"steps": list(self.STEPS)}}}
        )

    def test_on_the_paced_clock_it_is_exact(self, tmp_path):
        virtual, live = run_both(tmp_path, self.wanted(speed=5000), self.jobs)
        assert_same(virtual, live)
        assert live.end_us.tolist() == [500 * S]
        proof = proofs_of(tmp_path)[1]
        assert (proof.done, proof.lost, proof.finished) == (1600 * S, 0, True)
        assert proof.times_us == (0, 500 * S)

    def test_at_a_free_pace_it_is_right_within_5_percent(self, tmp_path):
        live = run_live(tmp_path, self.wanted(speed=40, pace="free"), self.jobs)
        lasted_s = int(live.end_us[0] - live.start_us[0]) / S
        proof = proofs_of(tmp_path)[1]
        assert (proof.done - proof.lost, proof.finished) == (1600 * S, True)
        assert lasted_s == pytest.approx(500, rel=0.05)
        assert check(live) == []
