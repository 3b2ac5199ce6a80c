"""Options of a scheduler that nobody would follow are refused, and ends by sys.exit and Ctrl-C are not lost."""

from __future__ import annotations

import json
import sys

import pytest

import emulator
from emulator.schedulers.config import SchedulerConfig

JOBS = {"submit_s": [0, 0, 0], "run_s": [50, 40, 3], "nodes": [2, 3, 1], "estimate_s": [60, 50, 40]}


def run(scheduler):
    return emulator.run(JOBS, nodes=3, scheduler=scheduler)


def error_of(scheduler, kind=emulator.ScenarioError):
    with pytest.raises(kind) as error:
        run(scheduler)
    return str(error.value)


def always(job, reservation):
    return True


def head_only(now_us, view):
    return [job for job in view.queue[:1] if job.nodes <= view.free]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("choice", "best_fit"), ("estimates", "actual_for_queued"), ("reservation", "kept"), ("spare_nodes", False),
        ("protect_head", False), ("end_at_shadow", False),
    ],
)  # fmt: skip
def test_a_rule_of_ones_own_takes_no_options_of_easy(option, value):
    told = error_of({"backfill": always, option: value})
    assert f"scheduler {option}: always decides by itself who starts behind the head; leave it out" in told
    assert f"scheduler {option}: slurm decides by itself" in error_of({"decide": "slurm", option: value})


def test_nothing_backfills_behind_a_whole_scheduler_of_ones_own():
    told = error_of({"order": head_only, "backfill": "easy"})
    assert (
        "scheduler backfill: head_only is a whole scheduler, behind which nothing backfills; leave it out"
        in told
    )
    with pytest.raises(ValueError, match="slurm is a whole scheduler"):
        SchedulerConfig.parse("slurm+none")


def test_priorities_of_queues_are_for_orders_that_read_them():
    told = error_of({"order": "sjf", "priorities": {1: 5}})
    assert "scheduler priorities: the order sjf has none; take `order: priority`" in told
    assert run({"order": lambda jobs, config: [config.priorities[1]] * 3, "priorities": {1: 5}})


class Mine:
    def __init__(self, says, parameter="mine"):
        self.says = says

    def predict(mine, job, history):  # noqa: N805 - a name of one's own
        return mine.says(job)


class OneArgument:
    def predict(self, job):
        return 1


def test_a_predictor_that_answers_in_microseconds_is_told():
    told = error_of({"predict": Mine(lambda job: job.estimate_us)}, emulator.PluginError)
    assert "predict of job 1" in told
    assert (
        "it says that job 1 runs for 60000000 s, more than a year, and its estimate is 60 s; return seconds"
        in told
    )
    assert emulator.compare(run({"predict": Mine(lambda job: float("inf"))}), run(None)).is_same


def test_a_predictor_with_other_parameters_is_told_those_that_it_needs():
    assert (
        "python:one_argument has what a predictor has; a run time predictor has predict(job, history)"
        in error_of({"predict": OneArgument()})
    )


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda stop: lambda job: stop(),
        lambda stop: {"backfill": lambda job, reservation: stop()},
        lambda stop: {"predict": lambda job, history: stop()},
    ],
    ids=["order", "backfill", "predict"],
)
def test_the_end_of_the_program_in_a_policy_is_no_end_of_the_queue(scheduler):
    assert "SystemExit: 3" in error_of(scheduler(lambda: sys.exit(3)), emulator.PluginError)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scheduler(interrupt))


def test_priorities_are_whole_numbers_by_queue_also_where_json_made_texts_of_the_queues():
    jobs = {"submit_s": [0, 0], "run_s": [5, 5], "nodes": [2, 2], "queue": [1, 2]}

    def starts(scheduler):
        return emulator.run(jobs, nodes=2, scheduler=scheduler).to_pandas(unit="s").start_s.tolist()

    said = {"order": "priority", "priorities": {2: 5}}
    assert starts(said) == starts(json.loads(json.dumps(said))) == [5, 0]
    for wrong, told in (
        ({"debug": 5}, "priorities are given by number, not by 'debug'"),
        ({2: 5.5}, "priorities of 2"),
    ):
        assert told in error_of({"order": "priority", "priorities": wrong})
