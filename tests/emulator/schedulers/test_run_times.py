"""Schedulers that go by predicted run times: what predictors see and say, corrections, both clocks, errors."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emulator
from balancer.clock import US
from emulator.cluster.cluster import Cluster
from emulator.mechanisms.hybrid import HybridMechanism
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.orders import static_keys
from emulator.schedulers.run_times import History, LastTwo
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable

Given = tuple[tuple[int, int, int, int, int], ...]
"""Jobs of (submit, run, estimate, nodes, user), in seconds."""
PYSS_EASY_PLUS_PLUS = {
    "like": "pyss",
    "choice": "shortest_first",
    "predict": {"last_two": {"correction": "estimate", "whole_seconds": True}},
}
MADE_BY_PYSS: list[tuple[int, Given, tuple[int, ...]]] = [
    (6, ((1, 7, 27, 4, 1), (1, 5, 5, 2, 2), (1, 7, 15, 3, 0), (4, 2, 2, 1, 2), (4, 7, 8, 5, 2), (5, 7, 7, 2, 2),
         (7, 1, 4, 3, 0), (10, 4, 4, 6, 1), (13, 3, 6, 4, 0), (14, 8, 16, 2, 1)),
     (1, 1, 8, 6, 16, 9, 8, 23, 27, 27)),
    (4, ((4, 3, 3, 2, 0), (4, 3, 23, 4, 1), (4, 9, 10, 4, 1), (9, 3, 3, 4, 2), (16, 9, 29, 1, 2), (17, 9, 9, 1, 1),
         (23, 9, 17, 1, 1), (25, 8, 8, 4, 2), (25, 3, 4, 3, 2), (25, 3, 4, 2, 1)),
     (4, 7, 10, 19, 22, 22, 23, 34, 31, 42)),
    (4, ((0, 1, 21, 2, 1), (2, 5, 5, 2, 0), (3, 7, 10, 1, 1), (3, 6, 26, 4, 1), (6, 3, 3, 3, 0), (8, 7, 7, 4, 0),
         (9, 6, 6, 3, 0), (11, 7, 27, 4, 1), (14, 7, 7, 1, 0)),
     (0, 2, 3, 10, 7, 16, 23, 30, 23)),
    (4, ((3, 2, 2, 4, 0), (5, 3, 6, 1, 1), (8, 5, 25, 4, 1), (11, 4, 4, 3, 1), (11, 2, 5, 2, 0), (14, 5, 25, 1, 1),
         (16, 1, 1, 2, 1), (16, 4, 24, 1, 0), (19, 2, 22, 2, 1)),
     (3, 5, 8, 13, 17, 14, 19, 19, 20)),
]  # fmt: skip
"""Nodes, jobs, and starts by pyss's EasyPlusPlusScheduler itself (Python 2.7)."""


def table(jobs: Given) -> JobTable:
    submit, run, estimate, nodes, user = zip(*jobs, strict=True)
    return JobTable.build(
        submit_us=[US * each for each in submit],
        run_us=[US * each for each in run],
        estimate_us=[US * each for each in estimate],
        nodes=list(nodes),
        user=list(user),
    )


def starts_s(jobs: Given, nodes: int, **options: Any) -> tuple[float, ...]:
    record = simulate(table(jobs), nodes, SchedulerConfig.from_mapping(options))
    assert_lawful(record, jobs_in=len(jobs))
    assert record.jobs.estimate_us.tolist() == table(jobs).estimate_us.tolist(), "the log's estimates stay"
    return tuple((record.start_us[np.argsort(record.jobs.number)] / US).tolist())


@pytest.mark.parametrize(("nodes", "jobs", "starts"), MADE_BY_PYSS)
def test_easy_plus_plus_starts_jobs_as_pyss_does(nodes: int, jobs: Given, starts: tuple[int, ...]) -> None:
    assert starts_s(jobs, nodes, **PYSS_EASY_PLUS_PLUS) == starts


ALWAYS_ESTIMATES_100: Given = (
    (0, 10, 100, 1, 7), (0, 10, 100, 1, 7), (20, 50, 100, 2, 7), (21, 50, 100, 4, 8), (22, 30, 100, 1, 7),
    (65, 3, 5, 1, 9),
)  # fmt: skip
"""On four nodes. Job 5 fits beside job 3; by the estimates it would end at 122, behind the shadow at 120."""


def test_a_predictor_sees_ends_and_its_word_says_who_backfills() -> None:
    seen: list[tuple[str, int, float]] = []

    class Watched:
        def predict(self, job: Any, history: Any) -> float | None:
            seen.append(("predict", job.number, len(history.of_user(job.user))))
            return {3: 40, 5: 30}.get(job.number)

        def correct(self, job: Any, ran_s: float, _history: Any) -> float:
            seen.append(("correct", job.number, ran_s))
            return ran_s + 30

        def on_job_end(self, job: Any, run_s: float) -> None:
            seen.append(("end", job.number, run_s))

    assert starts_s(ALWAYS_ESTIMATES_100, 4) == (0, 0, 20, 70, 120, 65)
    columns = ("submit_s", "run_s", "estimate_s", "nodes", "user")
    jobs = {name: [row[place] for row in ALWAYS_ESTIMATES_100] for place, name in enumerate(columns)}
    found = emulator.run(jobs, nodes=4, scheduler={"predict": Watched()}, check=True).to_pandas(unit="s")
    assert found.start_s.tolist() == [0, 0, 20, 70, 22, 65]
    assert seen == [
        ("predict", 1, 0), ("predict", 2, 0), ("end", 1, 10), ("end", 2, 10), ("predict", 3, 2), ("predict", 4, 0),
        ("predict", 5, 2), ("end", 5, 30), ("predict", 4, 0), ("correct", 3, 40), ("predict", 6, 0), ("end", 6, 3),
        ("predict", 4, 0), ("end", 3, 50), ("predict", 4, 0),
    ]  # fmt: skip


def live_starts_s(jobs: Given, nodes: int, config: SchedulerConfig) -> tuple[float, ...]:
    """The same on the live clock's side: nothing is known in advance, jobs come and end one by one, then a pass."""
    cluster = Cluster(nodes, config, simulated=False)
    ends: dict[int, int] = {}
    starts: dict[int, int] = {}
    rows = sorted(range(len(jobs)), key=lambda which: (jobs[which][0], which))
    while rows or ends:
        now_us = min([*(jobs[which][0] * US for which in rows[:1]), *ends.values()])
        for row in sorted(row for row, end_us in ends.items() if end_us == now_us):
            cluster.end(row, now_us)
            del ends[row]
        while rows and jobs[rows[0]][0] * US == now_us:
            which = rows.pop(0)
            _, _, estimate_s, width, user = jobs[which]
            row = cluster.add(
                number=which + 1, submit_us=now_us, estimate_us=estimate_s * US, nodes=width, user=user
            )
            cluster.submit(row, now_us)
        for row in cluster.schedule_pass(now_us).tolist():
            starts[row] = now_us
            ends[row] = now_us + jobs[int(cluster.number(row)) - 1][1] * US
    by_number = {cluster.number(row): start_us for row, start_us in starts.items()}
    return tuple(by_number[number] / US for number in sorted(by_number))


@pytest.mark.parametrize("correction", ["steps", "steps_of_first", "doubled", "estimate"])
def test_both_clocks_predict_and_correct_alike(correction: str) -> None:
    rng = np.random.default_rng(5)
    differ = 0
    for _ in range(60):
        nodes = int(rng.integers(2, 9))
        submit = np.sort(rng.integers(0, 900, 25))
        run = rng.integers(1, 400, 25)
        jobs: Given = tuple(
            (
                int(s),
                int(r),
                int(r + rng.choice([0, 60, 2000])),
                int(rng.integers(1, nodes + 1)),
                int(rng.integers(3)),
            )
            for s, r in zip(submit, run, strict=True)
        )
        options = {"choice": "shortest_first", "predict": {"last_two": {"correction": correction}}}
        virtual = starts_s(jobs, nodes, **options)
        assert virtual == live_starts_s(jobs, nodes, SchedulerConfig.from_mapping(options)), (nodes, jobs)
        differ += virtual != starts_s(jobs, nodes, choice="shortest_first")
    assert differ > 20


def test_corrections_are_of_what_was_predicted_first_or_twice_as_much() -> None:
    job, history = SimpleNamespace(number=1, user=1), History()
    expected = {
        "steps": [160, 460, 1360], "steps_of_first": [160, 400, 1000], "doubled": [200, 320, 920],
        "estimate": [None, None, None],
    }  # fmt: skip
    for correction, said in expected.items():
        predictor = LastTwo(correction=correction)
        assert [predictor.correct(job, ran_s, history) for ran_s in (100, 160, 460)] == said
    with pytest.raises(
        ValueError, match="correction is one of steps, steps_of_first, doubled, estimate, not 'step'"
    ):
        LastTwo(correction="step")


def test_a_corrected_prediction_may_exceed_the_estimate_if_the_predictor_says_so() -> None:
    """On two nodes job 3 is predicted 10, 20, then 40 s, its estimate is 30 s; job 5 would end at 57."""
    jobs: Given = (
        (0, 10, 100, 1, 1),
        (0, 10, 100, 1, 1),
        (20, 30, 30, 1, 1),
        (21, 5, 5, 2, 2),
        (42, 15, 15, 1, 9),
    )
    for beyond, starts in ((False, (0, 0, 20, 50, 55)), (True, (0, 0, 20, 57, 42))):
        predict = {"last_two": {"correction": "doubled", "beyond_estimate": beyond}}
        assert starts_s(jobs, 2, predict=predict) == starts
        assert live_starts_s(jobs, 2, SchedulerConfig.from_mapping({"predict": predict})) == starts


def test_a_job_is_predicted_once_when_it_is_submitted_if_the_predictor_says_so() -> None:
    seen: list[tuple[int, int]] = []

    class Once:
        at_submit = True

        def predict(self, job: Any, history: Any) -> float | None:
            seen.append((job.number, len(history.ended)))
            return None

    jobs = {"submit_s": [0, 1, 2], "run_s": [10, 10, 10], "nodes": [4, 4, 4]}
    emulator.run(jobs, nodes=4, scheduler={"predict": Once()})
    assert seen == [(1, 0), (2, 0), (3, 0)]


def test_a_function_predicts_and_none_is_the_estimate() -> None:
    jobs = {"submit_s": [0, 1], "run_s": [5, 5], "nodes": [1, 1]}
    plain = emulator.run(jobs, nodes=1)
    assert (
        emulator.run(jobs, nodes=1, scheduler={"predict": lambda job, history: None}).compare(plain).is_same
    )


SAID = {"nan": float("nan"), "0": 0, "-1": -1, "'5'": "5", "True": True}


@pytest.mark.parametrize("shown", SAID)
def test_what_is_no_run_time_ends_the_run_with_the_name_of_predictor_and_job(shown: str) -> None:
    def guess(job: Any, history: Any) -> Any:
        return SAID[shown]

    with pytest.raises(emulator.PluginError) as error:
        emulator.run({"submit_s": [3], "run_s": [5], "nodes": [1]}, nodes=1, scheduler={"predict": guess})
    assert str(error.value) == (
        "run time predictor guess failed in predict of job 1 at 3.000000 s: ValueError: it says that job 1 runs for "
        f"{shown}; seconds above 0, or None, are expected"
    )


def test_a_correction_that_is_none_is_an_error() -> None:
    class Stubborn:
        def predict(self, job: Any, history: Any) -> float:
            return 2

        def correct(self, job: Any, ran_s: float, history: Any) -> float:
            return ran_s

    jobs = {"submit_s": [0, 4], "run_s": [9, 1], "estimate_s": [20, 1], "nodes": [1, 2]}
    with pytest.raises(
        emulator.PluginError, match=r"correct of job 1 .*it says 2.0 s of a job that has run for 2 s"
    ):
        emulator.run(jobs, nodes=3, scheduler={"predict": Stubborn(), "backfill": "conservative"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"predict": "last_too"}, "last_two"),
        ({"predict": {"last_two": {"jobs": 0}}}, "jobs"),
        (
            {"predict": {"last_two": {"correction": "none"}}},
            "correction is one of steps, steps_of_first, doubled, estimate, not 'none'",
        ),
        (
            {"order": {"slurm": {}}, "predict": "last_two"},
            "scheduler predict: slurm goes by limits of its own",
        ),
    ],
)
def test_what_cannot_be_predicted_with_is_an_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        SchedulerConfig.from_mapping(options)


def test_machines_of_other_rules_refuse_it() -> None:
    config = SchedulerConfig(predict="last_two")
    jobs = table(ALWAYS_ESTIMATES_100)
    with pytest.raises(ValueError, match="predict: run times are predicted where whole nodes of one kind"):
        HybridMechanism().make_machine(4, config, jobs, 1)
    with pytest.raises(ValueError, match="realtime: this machine goes by users' estimates"):
        static_keys(jobs, config, "realtime")


def test_a_method_that_nobody_calls_is_refused() -> None:
    class Deaf:
        def predict(self, job: Any, history: Any) -> None: ...

        def on_job_start(self, job: Any) -> None: ...

    with pytest.raises(emulator.ScenarioError, match="on_job_start"):
        emulator.run({"submit_s": [0], "run_s": [5], "nodes": [1]}, nodes=1, scheduler={"predict": Deaf()})
