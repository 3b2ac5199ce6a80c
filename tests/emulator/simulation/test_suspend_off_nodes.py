"""Suspended jobs that leave their nodes: others run there, and the job goes on there with all its work."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulator.cluster.cluster_views import IllegalJobTransition
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.machine.running import Save
from emulator.mechanisms.hybrid.machine import hybrid_cluster
from emulator.metrics.summary import summarize
from emulator.plugins.failure import PluginError
from emulator.report import files
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful, check
from emulator.workload.table import Kind
from scripted_run import Script, jobs_of, run_script, runs_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "make_room.py"


class FirstNode(Script):
    """An on-demand job has the first node."""

    def on_arrival(self, job, act):
        act.reserve([0])
        act.start(job, [0])


def run(nodes, jobs, actions, scheduler="fcfs+easy"):
    return run_script(nodes, jobs, FirstNode(actions), scheduler)


def leave(job):
    return lambda act: act.suspend(job, free_nodes=True)


def resume(job):
    return lambda act: act.resume(job)


def test_the_queue_has_the_nodes_meanwhile_and_the_job_goes_on_there_with_all_its_work():
    record = run(2, jobs_of((0, 10, 2), (1, 5, 1)), {3: leave(0), 8: resume(0)})
    assert runs_of(record) == [
        (0, 0, 3, "SUSPENDED", [1, 0], 6, 0),
        (1, 3, 8, "FINISHED", [0], 5, 0),
        (0, 8, 15, "FINISHED", [1, 0], 14, 0),
    ]
    assert (record.start_us.tolist(), record.end_us.tolist()) == ([0, 3], [15, 8])


def test_its_nodes_are_returned_and_are_idle():
    seen = []

    def look(act):
        seen.append(
            (act.suspend(0, free_nodes=True), act.cluster.free_count, act.cluster.nodes_of(0).tolist())
        )
        seen.append((act.running.done(0, act.now_us), act.running.saved(0, act.now_us)))

    run(2, jobs_of((0, 10, 2)), {3: look, 8: resume(0)})
    assert seen == [([1, 0], 2, [1, 0]), (6, 0)]


def test_it_may_be_suspended_again_and_again_and_be_resized_and_slowed_in_between():
    jobs = jobs_of((0, 20, 2), min_nodes=[1], max_nodes=[2])
    actions = {
        4: leave(0), 6: resume(0), 7: lambda act: act.resize(0, [1]), 9: leave(0), 11: resume(0),
        12: lambda act: act.set_rate(0, 1, 2), 14: leave(0), 19: resume(0),
    }  # fmt: skip
    record = run(2, jobs, actions)
    assert [row[1:4] + row[5:] for row in runs_of(record)] == [
        (0, 4, "SUSPENDED", 8, 0),
        (6, 7, "RESIZED", 2, 0),
        (7, 9, "SUSPENDED", 2, 0),
        (11, 14, "SUSPENDED", 2, 0),
        (19, 71, "FINISHED", 26, 0),
    ]
    assert (record.start_us[0], record.end_us[0]) == (0, 71)


def test_it_may_be_suspended_and_resumed_at_one_time():
    record = run(1, jobs_of((0, 10, 1)), {4: lambda act: (leave(0)(act), resume(0)(act))})
    assert [row[:4] for row in runs_of(record)] == [(0, 0, 4, "SUSPENDED"), (0, 4, 10, "FINISHED")]


def test_a_job_that_is_never_resumed_is_counted_as_suspended():
    record = run(1, jobs_of((0, 10, 1), (0, 5, 1)), {3: leave(0)})
    assert [JobState(state).name for state in record.state] == ["SUSPENDED", "ENDED"]
    assert runs_of(record)[0] == (0, 0, 3, "SUSPENDED", [0], 3, 0)
    summary = summarize(record)
    counted = ("jobs_run", "jobs_suspended", "jobs_waiting", "jobs_unfinished", "suspensions")
    assert [summary[name] for name in counted] == [1, 1, 0, 1, 1]


def test_runs_without_such_a_job_say_nothing_of_it():
    summary = summarize(run(1, jobs_of((0, 10, 1)), {}))
    assert not {"jobs_suspended", "suspensions"} & set(summary)


def test_results_keep_it(tmp_path):
    record = run(2, jobs_of((0, 10, 2), (1, 5, 1), (20, 5, 1)), {3: leave(0), 8: resume(0), 22: leave(2)})
    files.write(record, tmp_path / "out")
    again = files.load(tmp_path / "out")
    np.testing.assert_array_equal(again.state, record.state)
    np.testing.assert_array_equal(again.runs.outcome, record.runs.outcome)
    np.testing.assert_array_equal(again.runs.done_node_us, record.runs.done_node_us)
    assert check(again) == []


def test_resuming_while_another_job_has_a_node_is_an_error_that_names_it():
    with pytest.raises(PluginError, match="job 1 cannot have node 0: job 2 runs there"):
        run(2, jobs_of((0, 10, 2), (1, 5, 1)), {3: leave(0), 7: resume(0)})


def test_a_resume_that_is_refused_changes_nothing():
    def attempt(act):
        with pytest.raises(IllegalJobTransition, match="cannot have node"):
            act.resume(0)
        assert act.cluster.state[0] == JobState.SUSPENDED

    record = run(2, jobs_of((0, 10, 2), (1, 5, 1)), {3: leave(0), 7: attempt, 8: resume(0)})
    assert record.end_us.tolist() == [15, 8]


def test_it_goes_on_on_reserved_nodes_and_they_are_reserved_again_afterwards():
    actions = {3: leave(0), 4: lambda act: act.reserve([0], when_free=True), 9: resume(0)}
    record = run(1, jobs_of((0, 10, 1), (1, 5, 1), (2, 1, 1)), actions)
    assert runs_of(record)[-1][:4] == (0, 9, 16, "FINISHED")
    assert [(move.at_us, move.pool.name) for move in record.moves] == [
        (8, "OD_RESERVE"),
        (9, "OA_BUSY"),
        (16, "OD_RESERVE"),
    ]
    assert record.state[2] == JobState.QUEUED


@pytest.mark.parametrize(
    ("action", "outcome", "kept"),
    [
        (lambda act: act.take_down([1]), "PREEMPTED", 4),
        (lambda act: act.preempt(0, Save.LATEST_CHECKPOINT), "PREEMPTED", 4),
        (lambda act: act.preempt(0), "PREEMPTED", 0),
        (lambda act: act.requeue(0), "REQUEUED", 0),
    ],
)
def test_who_loses_its_memory_waits_again_with_what_it_had_saved(action, outcome, kept):
    actions = {2: lambda act: act.checkpoint(0), 5: leave(0), 8: action}
    record = run(4, jobs_of((0, 10, 2)), actions)
    assert [row[:4] + row[5:] for row in runs_of(record)] == [
        (0, 0, 5, outcome, 10, 10 - kept),
        (0, 8, 8 + 10 - kept // 2, "FINISHED", 20 - kept, 0),
    ]
    assert record.start_us[0] == 8


def test_a_node_that_fails_beside_its_memory_does_nothing_to_it():
    actions = {
        5: leave(0),
        6: lambda act: act.take_down([2]) == [] or pytest.fail("it stopped a job"),
        9: resume(0),
    }
    assert [row[:4] for row in runs_of(run(4, jobs_of((0, 10, 2)), actions))] == [
        (0, 0, 5, "SUSPENDED"),
        (0, 9, 14, "FINISHED"),
    ]


def test_take_down_names_those_whose_memory_is_lost():
    said = []
    run(2, jobs_of((0, 10, 2), (0, 9, 1)), {5: leave(0), 6: lambda act: said.extend(act.take_down([0, 1]))})
    assert said == [1, 0]


def test_a_checkpoint_that_was_being_written_is_whole_only_when_the_job_has_gone_on_with_it():
    def stopped_at(at_us):
        actions = {
            4: lambda act: act.checkpoint(0, write_us=3),
            5: leave(0),
            at_us: lambda act: act.preempt(0, Save.LATEST_CHECKPOINT),
        }
        if at_us > 20:
            actions[20] = resume(0)
        return [row[3:] for row in runs_of(run(1, jobs_of((0, 10, 1)), actions))]

    assert stopped_at(15)[0] == ("PREEMPTED", [0], 4, 4), "it stood still when it would have been written"
    assert stopped_at(21)[1] == ("PREEMPTED", [0], 0, 4)
    assert stopped_at(23)[1] == ("PREEMPTED", [0], 1, 1), "written at 22, then one microsecond of work"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            leave(0),
            "cannot be suspended: it is SUSPENDED, not RUNNING; so far it ran 0-3e-06 s \\(suspended\\)",
        ),
        (lambda act: act.suspend(0), "cannot be suspended: it is SUSPENDED"),
        (lambda act: act.checkpoint(0), "cannot write a checkpoint: it is SUSPENDED"),
        (lambda act: act.resize(0, [0]), "cannot be resized: it is SUSPENDED"),
        (lambda act: act.set_rate(0, 1, 2), "cannot change its rate: it is SUSPENDED"),
        (lambda act: act.preempt(0, Save.NOW), "cannot write a checkpoint: it is SUSPENDED"),
        (lambda act: act.preempt(0, Save.NOW, write_us=4), "cannot save and stop: it is SUSPENDED"),
        (lambda act: act.start(0, [0]), "cannot be started: it is SUSPENDED"),
    ],
)
def test_what_cannot_be_done_to_it_is_an_error_with_its_history(action, message):
    with pytest.raises(PluginError, match=message):
        run(1, jobs_of((0, 10, 1)), {3: leave(0), 5: action})


def test_an_on_demand_job_cannot_leave_its_nodes_so():
    with pytest.raises(
        PluginError, match="job 1 cannot leave its nodes and keep its memory: it is an on-demand job"
    ):
        run(1, jobs_of((0, 10, 1, Kind.ON_DEMAND)), {3: leave(0)})


@pytest.mark.slow
def test_jobs_of_a_machine_of_ones_own_cannot_either():
    machine = hybrid_cluster(2, SchedulerConfig.parse("fcfs+easy"), jobs_of((0, 10, 1)))
    with pytest.raises(PluginError, match="jobs under hybrid cannot leave their nodes"):
        Loop(machine, FirstNode({3: leave(0)}), name="script").run()


def test_the_law_sees_a_job_that_goes_on_elsewhere_or_is_forgotten():
    record = run(2, jobs_of((0, 10, 1)), {3: leave(0), 8: resume(0)})
    node = record.runs.node.copy()
    node[-1] = 1 - node[-1]
    broken = [str(found) for found in check(replace(record, runs=replace(record.runs, node=node)))]
    assert len(broken) == 1
    assert "goes on, and not on the nodes on which its memory is" in broken[0]
    never = run(2, jobs_of((0, 10, 1)), {3: leave(0)})
    forgotten = replace(never, state=np.array([JobState.QUEUED], np.int8))
    assert "is QUEUED and 1 of its runs wait for their nodes" in str(check(forgotten)[0])


# At random, and painted on a grid of nodes and microseconds.


class Restless:
    """Suspends, resumes, preempts and takes down at random."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.down = []

    def on_begin(self, act):
        act.wake(3)

    def on_arrival(self, job, act):
        act.enqueue(job, front=bool(self.rng.random() < 0.5))

    def on_job_end(self, act):
        self.stir(act)

    def on_timer(self, act):
        if act.now_us < 400:
            act.wake(act.now_us + int(self.rng.integers(1, 8)))
        else:
            act.release(range(act.cluster.node_count))
        self.stir(act)

    def stir(self, act):
        rng, cluster = self.rng, act.cluster
        for job in np.flatnonzero(cluster.state == JobState.SUSPENDED).tolist():
            nodes = cluster.nodes_of(job)
            if (cluster.node_job[nodes] < 0).all() and (rng.random() < 0.7 or act.now_us > 300):
                act.resume(job)
                act.release(nodes)
            elif rng.random() < 0.05:
                act.preempt(job, Save.LATEST_CHECKPOINT)
            elif rng.random() < 0.05:
                act.requeue(job)
            elif rng.random() < 0.5 and act.now_us < 400:
                act.reserve(nodes, when_free=True)
        running = np.flatnonzero(cluster.state == JobState.RUNNING)
        if len(running) and act.now_us < 300:
            job = int(rng.choice(running))
            action = rng.choice(["leave", "leave", "leave", "checkpoint", "write", "down"])
            if action == "leave":
                act.suspend(job, free_nodes=True)
            elif action == "down" and rng.random() < 0.3:
                act.repair(self.down)
                self.down = [int(rng.integers(cluster.node_count))]
                if cluster.node_offline[self.down[0]]:
                    self.down = []
                act.take_down(self.down)
            elif action in ("checkpoint", "write"):
                act.checkpoint(job, write_us=int(rng.integers(1, 4)) if action == "write" else 0)


def painted(record):
    """How many runs each node has in each microsecond, and the node-us of each job."""
    runs = record.runs
    grid = np.zeros((len(record.node_names), record.horizon_us), np.int64)
    spent = np.zeros(len(record.jobs), np.int64)
    for row in range(len(runs.job)):
        end_us = runs.end_us[row] if runs.end_us[row] >= 0 else record.horizon_us
        for node in runs.node[runs.first[row] : runs.first[row + 1]]:
            for at_us in range(runs.start_us[row], end_us):
                grid[node, at_us] += 1
                spent[runs.job[row]] += 1
    return grid, spent


@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", list(range(60)))
@pytest.mark.parametrize("scheduler", ["fcfs+easy", "sjf+conservative", "wfp3+easy"])
def test_at_random_no_node_is_booked_twice_and_all_work_is_done_once(seed, scheduler):
    draw = np.random.default_rng(seed)
    count = 12
    submits = np.sort(draw.integers(0, 120, count)).tolist()
    lengths, widths = draw.integers(1, 60, count).tolist(), draw.choice([1, 1, 2, 3], count).tolist()
    kinds = draw.permutation([Kind.BATCH] * 10 + [Kind.ON_DEMAND] * 2).tolist()
    jobs = jobs_of(*zip(submits, lengths, widths, kinds, strict=True))
    record = simulate(jobs, 4, SchedulerConfig.parse(scheduler), mechanism=Restless(seed))
    assert_lawful(record, jobs_in=count)
    grid, spent = painted(record)
    assert grid.max() <= 1
    runs = record.runs
    lost = np.bincount(runs.job, runs.lost_node_us, count).astype(np.int64)
    done = np.bincount(runs.job, runs.done_node_us, count).astype(np.int64)
    assert (record.state == JobState.ENDED).all()
    np.testing.assert_array_equal(done - lost, jobs.run_us * jobs.nodes)
    assert (done <= spent).all(), "the rest of the time it wrote"
    for row in np.flatnonzero(runs.outcome == RunOutcome.SUSPENDED):
        later = np.flatnonzero((runs.job == runs.job[row]) & (np.arange(len(runs.job)) > row))
        if len(later):
            nodes = [runs.node[runs.first[r] : runs.first[r + 1]].tolist() for r in (row, later[0])]
            assert nodes[0] == nodes[1]


def test_what_happens_at_random_is_worth_looking_at():
    seen = set()
    for seed in range(20):
        draw = np.random.default_rng(seed)
        jobs = jobs_of(*zip(range(10), draw.integers(5, 60, 10).tolist(), [1, 2] * 5, strict=True))
        record = simulate(jobs, 4, SchedulerConfig(), mechanism=Restless(seed))
        seen |= {RunOutcome(int(one)) for one in record.runs.outcome}
    assert seen >= {RunOutcome.SUSPENDED, RunOutcome.PREEMPTED, RunOutcome.REQUEUED, RunOutcome.FINISHED}


# The example.


def make_room():
    spec = importlib.util.spec_from_file_location("make_room", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MakeRoom()


def test_the_example_lets_batch_jobs_stand_still_while_an_on_demand_job_has_their_nodes():
    jobs = jobs_of((0, 20, 1), (1, 20, 3), (2, 30, 1), (5, 10, 2, Kind.ON_DEMAND))
    record = simulate(jobs, 4, SchedulerConfig.parse("fcfs+easy"), mechanism=make_room())
    assert_lawful(record)
    assert [row[:4] for row in runs_of(record)] == [
        (0, 0, 20, "FINISHED"),
        (1, 1, 5, "SUSPENDED"),
        (3, 5, 15, "FINISHED"),
        (2, 5, 35, "FINISHED"),
        (1, 35, 51, "FINISHED"),
    ]
    assert int(record.runs.lost_node_us.sum()) == 0
