"""A run whose events bring no job nearer to its end is ended with the name of what goes round; a long one is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from balancer.clock import US
from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState
from emulator.machine.running import Save
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_or_fail
from emulator.runs.scenario import from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation import progress
from emulator.simulation.loop import Loop
from emulator.workload.table import JobTable

HOUR_S = 3600


@pytest.fixture(autouse=True)
def _few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOST_EVENTS", 2_000)


def job_of(run_s: int, nodes: int = 2) -> dict[str, Any]:
    return {
        "days": 0.01, "jobs": 1, "load": None, "median_run_s": run_s, "max_walltime_s": run_s, "nodes": nodes,
    }  # fmt: skip


def log_of(path: Any, *jobs: tuple[int, int, int]) -> str:
    """A log of jobs (submit, run, nodes) in seconds."""
    rows = [
        f"{number} {submit} -1 {run} {nodes} -1 -1 {nodes} {run} -1 1 1 1 -1 -1 -1 -1 -1"
        for number, (submit, run, nodes) in enumerate(jobs, 1)
    ]
    file = path / "log.swf"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(file)


def failure_of(log: str, **more: Any) -> str:
    """The error with which the run ends, empty if it comes to its end; laws of its record hold either way."""
    scenario = from_mapping({"name": "goes round", "nodes": 4, "workload": {"trace": log}} | more)
    record, failure = run_or_fail(scenario, prepare(scenario))
    assert record.interrupted == ("" if failure is None else str(failure))
    return record.interrupted


OFTEN = {"model": {"exponential": {"mtbf_s": 60, "repair_s": 1}}}


def test_jobs_that_all_fail_before_they_end_end_the_run_with_the_failure_model(tmp_path):
    said = failure_of(log_of(tmp_path, (0, 24 * HOUR_S, 4)), failures=OFTEN)
    assert said.startswith("failure model exponential failed in outages at ")
    assert "brought no job or lease nearer to its end; 1 are not over. Nodes fail before jobs end" in said


def test_the_balancer_under_such_failures_too(tmp_path):
    said = failure_of(
        log_of(tmp_path, (0, 24 * HOUR_S, 2)), failures=OFTEN, mechanism={"balancer": {"static_reserve": 1}}
    )
    assert said.startswith("failure model exponential failed in outages at ")


def test_a_predictors_slots_do_not_hide_that_jobs_fail_for_ever(tmp_path):
    forecast = {
        "algorithm": "hint", "slots_per_day": 1440, "history": [0, 1] * 1440,
        "predictor": {"seasonal_quantile": {"quantile": 0.8}},
    }  # fmt: skip
    said = failure_of(log_of(tmp_path, (0, 24 * HOUR_S, 3)), failures=OFTEN, mechanism={"balancer": forecast})
    assert "brought no job or lease nearer to its end" in said


def test_a_job_that_waits_for_nodes_that_are_never_up_together(tmp_path):
    down = {"model": {"exponential": {"mtbf_s": 60, "repair_s": 600}}}
    said = failure_of(log_of(tmp_path, (1, HOUR_S, 4)), failures=down)
    assert said.startswith("failure model exponential failed in outages at ")


def test_nodes_that_sleep_and_fail_before_they_have_woken(tmp_path):
    energy = {"idle_w": 100, "busy_w": 200, "sleep_after_s": 0, "shutdown_s": 10, "boot_s": 4 * HOUR_S}
    said = failure_of(log_of(tmp_path, (1, 60, 4)), failures=OFTEN, energy=energy)
    assert said.startswith("failure model exponential failed in outages at ")


def test_a_job_that_is_longer_than_the_gaps_of_maintenance(tmp_path):
    window = {"begin_s": 600, "end_s": 660, "every_s": 900, "nodes": "all", "jobs": "requeue"}
    said = failure_of(log_of(tmp_path, (0, HOUR_S, 1)), maintenance=[window])
    assert said.startswith("maintenance failed in its windows at ")
    assert "make every_s longer" in said


@dataclass
class Interrupter:
    """Stops what runs each `period_us`."""

    period_us: int
    save: Save

    def on_begin(self, act: Any) -> None:
        act.wake(self.period_us)

    def on_arrival(self, job: int, act: Any) -> None:
        act.reject(job, "none is served")

    def on_timer(self, act: Any) -> None:
        for job, state in enumerate(act.cluster.state.tolist()):
            if state == JobState.RUNNING:
                act.preempt(job, self.save)
        act.wake(act.now_us + self.period_us)


def interrupted_run(save: Save, *, run_us: int) -> Loop:
    jobs = JobTable.build(submit_us=[0], run_us=[run_us], nodes=[2], estimate_us=[run_us])
    loop = Loop(Cluster(4, SchedulerConfig(), jobs), Interrupter(US, save), name="interrupter")
    loop.run()
    return loop


def test_a_mechanism_that_stops_a_job_again_and_again():
    with pytest.raises(progress.PluginError, match=r"^mechanism interrupter failed in on_timer .*Save\.NOW"):
        interrupted_run(Save.NONE, run_us=10 * US)


def test_a_job_that_keeps_its_work_may_be_stopped_as_often_as_one_likes():
    record = interrupted_run(Save.NOW, run_us=10_000 * US).record()
    assert record.state.tolist() == [JobState.ENDED]


@pytest.mark.slow
def test_a_long_job_under_many_failures_of_other_nodes_comes_to_its_end(tmp_path):
    """25,000 outages, 24,000 more than may lead nowhere; none hits its node twice while it saves."""
    rare = {"model": {"exponential": {"mtbf_s": 60, "repair_s": 1}}, "jobs": "lost"}
    jobs = [(0, 40 * 24 * HOUR_S, 1), *((hour * HOUR_S, 60, 1) for hour in range(400))]
    assert failure_of(log_of(tmp_path, *jobs), failures=rare) == ""


def test_a_job_that_runs_for_a_year_of_seconds_outlives_its_timers():
    jobs = JobTable.build(submit_us=[0], run_us=[50_000 * US], nodes=[1], estimate_us=[50_000 * US])
    loop = Loop(Cluster(4, SchedulerConfig(), jobs), Interrupter(US, Save.NOW), name="ticker")
    loop.decisions.mechanism.on_timer = lambda act: act.wake(act.now_us + US)
    assert loop.run()


@pytest.mark.slow
def test_timers_in_a_long_gap_of_the_log_end_nothing():
    jobs = JobTable.build(submit_us=[0, 50_000 * US], run_us=[US] * 2, nodes=[1] * 2, estimate_us=[US] * 2)
    loop = Loop(Cluster(4, SchedulerConfig(), jobs), Interrupter(US, Save.NOW), name="ticker")
    assert loop.run()
