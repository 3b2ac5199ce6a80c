"""What is done to running jobs: every microsecond of work is accounted for, and the slow truth agrees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.cluster.cluster import Cluster
from emulator.cluster.cluster_views import IllegalJobTransition
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.machine.running import RunningJobs, Save
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable, Kind
from oracle.work import TickedJob
from scripted_run import Script, jobs_of, run_script, runs_of


def run(nodes, jobs, actions, scheduler="fcfs+easy"):
    script = Script(actions)
    return run_script(nodes, jobs, script, scheduler), script


def test_a_preempted_job_begins_anew_unless_something_was_saved():
    record, _ = run(1, jobs_of((0, 10, 1)), {4: lambda act: act.preempt(0)})
    assert runs_of(record) == [(0, 0, 4, "PREEMPTED", [0], 4, 4), (0, 4, 14, "FINISHED", [0], 10, 0)]


def test_a_preempted_job_goes_on_from_its_latest_checkpoint():
    jobs = jobs_of((0, 10, 1), setup_us=[2], checkpoint_interval_us=[3], checkpoint_us=[1])
    record, _ = run(1, jobs, {8: lambda act: act.preempt(0, Save.LATEST_CHECKPOINT)})
    # Set-up to 2, work to 5, written at 6, work to 8: 3 are saved, 2 are lost. Seven more take 2 + 7 + 2 writes.
    assert runs_of(record) == [(0, 0, 8, "PREEMPTED", [0], 5, 2), (0, 8, 19, "FINISHED", [0], 7, 0)]


def test_a_checkpoint_is_not_written_where_the_job_ends_first():
    record, _ = run(
        1,
        jobs_of((0, 6, 1), (0, 7, 1), checkpoint_interval_us=[3, 3], checkpoint_us=[1, 1]),
        {},
    )
    assert record.end_us.tolist() == [7, 16]


def test_a_job_that_saves_before_it_goes_keeps_its_nodes_until_it_has_written():
    actions = {4: lambda act: act.preempt(0, Save.NOW, write_us=3)}
    record, script = run(1, jobs_of((0, 10, 1), (1, 5, 1)), actions, scheduler="sjf+none")
    assert runs_of(record) == [
        (0, 0, 7, "PREEMPTED", [0], 4, 0),
        (1, 7, 12, "FINISHED", [0], 5, 0),
        (0, 12, 18, "FINISHED", [0], 6, 0),
    ]
    assert ("preempted", 0, [0], 7) in script.seen


def test_a_resized_job_does_the_work_it_owes_at_the_rate_of_its_nodes():
    jobs = jobs_of((0, 100, 4), min_nodes=[2], max_nodes=[4])
    record, _ = run(
        4, jobs, {20: lambda act: act.resize(0, [1, 3]), 60: lambda act: act.resize(0, [3, 1, 0, 2])}
    )
    assert runs_of(record) == [
        (0, 0, 20, "RESIZED", [3, 2, 1, 0], 80, 0),
        (0, 20, 60, "RESIZED", [1, 3], 80, 0),
        (0, 60, 120, "FINISHED", [3, 1, 0, 2], 240, 0),
    ]
    assert (record.start_us[0], record.end_us[0]) == (0, 120)


def test_a_reconfiguration_may_cost_time():
    jobs = jobs_of((0, 10, 2), min_nodes=[1], max_nodes=[2])
    record, _ = run(2, jobs, {5: lambda act: act.resize(0, [0], pause_us=7)})
    assert record.end_us[0] == 5 + 7 + 10


def test_a_suspended_job_keeps_its_nodes_and_does_nothing():
    actions = {3: lambda act: act.suspend(0), 9: lambda act: act.resume(0)}
    record, _ = run(1, jobs_of((0, 10, 1), (0, 1, 1)), actions)
    assert runs_of(record) == [(0, 0, 16, "FINISHED", [0], 10, 0), (1, 16, 17, "FINISHED", [0], 1, 0)]


def test_a_job_at_a_third_of_its_speed_takes_three_times_as_long():
    record, _ = run(1, jobs_of((0, 10, 1)), {4: lambda act: act.set_rate(0, 1, 3)})
    assert record.end_us[0] == 4 + 18


def test_a_checkpoint_on_demand_counts_only_once_it_is_written():
    def scene(stop_at):
        actions = {
            4: lambda act: act.checkpoint(0, write_us=3),
            stop_at: lambda act: act.preempt(0, Save.LATEST_CHECKPOINT),
        }
        return runs_of(run(1, jobs_of((0, 10, 1)), actions)[0])

    assert scene(6) == [(0, 0, 6, "PREEMPTED", [0], 4, 4), (0, 6, 16, "FINISHED", [0], 10, 0)]
    assert scene(9) == [(0, 0, 9, "PREEMPTED", [0], 6, 2), (0, 9, 15, "FINISHED", [0], 6, 0)]


def test_nodes_reserved_for_when_they_are_free_are_not_given_to_the_queue():
    actions = {2: lambda act: act.reserve([0], when_free=True), 8: lambda act: act.release([0])}
    record, script = run(1, jobs_of((0, 5, 1), (1, 3, 1)), actions)
    assert record.start_us.tolist() == [0, 8]
    assert [(move.at_us, move.nodes, move.pool.name) for move in record.moves] == [
        (5, (0,), "OD_RESERVE"),
        (8, (0,), "OA_IDLE"),
    ]
    assert ("ended", [0], 5) in script.seen


def test_a_batch_job_borrows_reserved_nodes_and_they_come_back():
    actions = {
        1: lambda act: act.reserve([1]),
        2: lambda act: act.start(1, [1]),
        12: lambda act: act.release([1]),
    }
    jobs = jobs_of((0, 20, 1), (1, 4, 2), (3, 3, 1), min_nodes=[1, 1, 1], max_nodes=[1, 2, 1])
    record, _ = run(2, jobs, actions)
    # Node 1 does the work of two in twice the time, is reserved again from 10 to 12, and then the queue's.
    assert [row[:5] for row in runs_of(record)] == [
        (0, 0, 20, "FINISHED", [0]),
        (1, 2, 10, "FINISHED", [1]),
        (2, 12, 15, "FINISHED", [1]),
    ]
    assert [(move.at_us, move.nodes, move.pool.name) for move in record.moves] == [
        (1, (1,), "OD_RESERVE"),
        (2, (1,), "OA_BUSY"),
        (10, (1,), "OD_RESERVE"),
        (12, (1,), "OA_IDLE"),
    ]


def test_an_on_demand_job_may_wait_at_the_head_of_the_queue():
    jobs = jobs_of((0, 10, 1), (1, 10, 1), (2, 5, 1, Kind.ON_DEMAND))
    record, _ = run(1, jobs, {})
    assert record.start_us.tolist() == [0, 15, 10]
    assert [(lease.job, lease.granted, lease.decided_us) for lease in record.leases] == [(2, True, 10)]


def test_jobs_on_a_node_that_fails_wait_again_and_the_node_is_given_to_nobody():
    actions = {4: lambda act: act.take_down([0]), 30: lambda act: act.repair([0])}
    record, _ = run(1, jobs_of((0, 10, 1)), actions)
    assert [row[:4] for row in runs_of(record)] == [(0, 0, 4, "PREEMPTED"), (0, 30, 40, "FINISHED")]


def test_what_the_state_of_a_job_does_not_allow_is_refused_with_its_history():
    cluster = Cluster(1, SchedulerConfig(), jobs_of((0, 10, 1), (0, 10, 1)))
    running = RunningJobs(cluster)
    cluster.finish_instant(0)
    with pytest.raises(IllegalJobTransition, match="job 2 cannot be resized: it is QUEUED, not RUNNING"):
        running.resize(1, [0], 1)
    running.suspend(0, 1)
    with pytest.raises(
        IllegalJobTransition, match=r"job 1 cannot be resized while it is suspended; .* ran 0"
    ):
        running.resize(0, [0], 2)
    running.preempt(0, Save.NONE, 3)
    with pytest.raises(IllegalJobTransition, match=r"cannot be resumed: .* QUEUED.*\(preempted\)"):
        running.resume(0, 4)


def test_a_checkpoint_is_whole_when_it_is_written_though_the_job_was_resized_meanwhile():
    cluster = Cluster(4, SchedulerConfig(), jobs_of((0, 10, 1)))
    running = RunningJobs(cluster)
    cluster.finish_instant(0)
    cluster.advance(1)
    running.checkpoint(0, 2, 1)
    cluster.advance(2)
    running.resize(0, [0, 1], 2)
    assert [running.saved(0, now) for now in (2, 3)] == [0, 1]


ACTIONS = ("checkpoint", "resize", "rate", "suspend", "leave", "resume", "preempt", "save", "nothing")
FOREVER = 1 << 60


@settings(max_examples=300)
@given(
    job=st.tuples(
        st.integers(1, 60), st.integers(1, 4), st.integers(0, 5), st.integers(0, 6), st.integers(0, 4)
    ),
    actions=st.lists(st.tuples(st.integers(1, 12), st.sampled_from(ACTIONS), st.integers(1, 4)), max_size=8),
)
def test_the_work_of_a_job_is_what_the_slow_truth_says(job, actions):
    owed, width, setup, interval, cost = job
    jobs = jobs_of(
        (0, owed, width), setup_us=[setup], checkpoint_interval_us=[interval], checkpoint_us=[cost]
    )
    cluster = Cluster(4, SchedulerConfig(), jobs)
    running = RunningJobs(cluster)
    cluster.finish_instant(0)
    slow = TickedJob(owed * width, width, setup, interval, cost)
    slow.begin_run()
    now = 0
    pending = None  # of a checkpoint on demand: when it is whole, and what counts until then
    for gap, action, value in actions:
        for _ in range(gap):
            if not slow.over:
                slow.tick()
                now += 1
        cluster.advance(now)
        if slow.over:
            break
        done, saved = running.done(0, now), running.saved(0, now)
        assert (done, saved) == (slow.done, pending[1] if pending and now < pending[0] else slow.saved)
        if slow.stands_still and action not in {"resume", "rate", "preempt"}:
            continue
        if cluster.state[0] == JobState.SUSPENDED and action == "rate":
            continue
        pending = apply((action, value), now, running, slow, pending)
        if action in {"preempt", "save"}:
            now += value - 1 if action == "save" else 0
            cluster.finish_instant(now)
            slow.begin_run()
    while not slow.over:
        if slow.stands_still:
            running.resume(0, now)
            slow.stands_still = False
            slow.new_phase(slow.idle_us)
        slow.tick()
        now += 1
    cluster.advance((1 << 63) - 1)
    assert cluster.end_us[0] == now
    runs = cluster.run_table()
    done, lost = running.work_of_runs(runs.job, runs.outcome, now)
    assert int((done - lost).sum()) == owed * width


def apply(what, now, running, slow, pending):
    """One action, done to both. Returns the checkpoint on demand that is being written, if there is one."""
    action, value = what
    idle = slow.idle_us
    if action == "checkpoint":
        old = pending[1] if pending and now < pending[0] else slow.saved
        running.checkpoint(0, value, now)
        slow.new_phase(idle + value)
        slow.saved = slow.done
        return (now + value, old)
    if action == "resize":
        running.resize(0, range(value), now)
        slow.nodes = value
        slow.new_phase(idle)
    elif action == "rate":
        running.set_rate(0, 1, value, now)
        slow.num, slow.den = 1, value
        if not slow.stands_still:
            slow.new_phase(idle)
    elif action in {"suspend", "leave"} or (action == "resume" and slow.stands_still):
        return stand(action, now, running, slow, pending)
    elif action in {"preempt", "save"}:
        if action == "preempt":
            running.preempt(0, Save.LATEST_CHECKPOINT, now)
            if pending and now < pending[0]:
                slow.saved = pending[1]
        else:
            running.begin_save(0, value - 1, now)
            running.end_save(0, now + value - 1)
            slow.saved = slow.done
        slow.nodes, slow.num, slow.den = int(running.work[0].width), 1, 1
        slow.stands_still = False
        return None
    return pending


def stand(action, now, running, slow, pending):
    """A suspension or its end. A write stands still as well where the job leaves its nodes."""
    slow.new_phase(slow.idle_us)
    slow.stands_still = action != "resume"
    if action == "resume":
        running.resume(0, now)
        return (now + pending[0] - FOREVER, pending[1]) if pending and pending[0] >= FOREVER else pending
    if action == "suspend":
        running.suspend(0, now)
        return pending
    running.suspend_off_nodes(0, now)
    return (FOREVER + pending[0] - now, pending[1]) if pending and now < pending[0] else pending


def test_what_last_runs_did_is_known_when_all_is_over_and_the_table_is_gone():
    """More jobs than a block has; which runs they are at, and what they had done by then, is anything."""
    rng = np.random.default_rng(0)
    count = 9000
    jobs = JobTable.build(
        submit_us=[0] * count, run_us=rng.integers(1, 9, count), nodes=rng.integers(1, 4, count)
    )
    cluster = Cluster(4, SchedulerConfig(), jobs)
    running = RunningJobs(cluster)
    rows = rng.permutation(count)
    cluster.kernel_table["run_row"][:count] = rows
    work = running.kernel_work
    work["row"] = np.where(rng.random(count) < 0.5, rows + 1, 0)
    work["begun"], work["saved"] = rng.integers(0, 9, (count, 2)).T
    begun = [each.begun if each.row == row + 1 else each.saved for each, row in zip(work, rows, strict=True)]
    slow = work["run_us"] * work["width"] - begun
    job = np.argsort(rows).astype(np.int32)
    finished = np.where(rng.random(count) < 0.9, RunOutcome.FINISHED, RunOutcome.PREEMPTED).astype(np.int8)
    expected = np.where(finished == RunOutcome.FINISHED, slow[job], 0)
    for _ in range(2):
        done, lost = running.work_of_runs(job, finished, 0)
        assert np.array_equal(done, expected)
        assert not lost.any()
        running.all_over()
        running.all_over()
        assert len(running.work) == len(running.kernel_work) == 0
