"""Mechanisms of other packages: what one must have, and how its user is told."""

from __future__ import annotations

import re

import pytest

from emulator.plugins.failure import PluginError
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from scripted_run import jobs_of, run_script

_PLUGINS = """
from dataclasses import dataclass

from emulator.cluster.cluster import Cluster


@dataclass(slots=True)
class Idle:
    nodes: int = 1


@dataclass(slots=True)
class OnlyAMachine:
    def make_machine(self, node_count, scheduler, jobs, seed):
        return Cluster(node_count, scheduler, jobs)
"""


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    """An installed package with two mechanisms that lack `on_arrival`."""
    (tmp_path / "half_mechanisms.py").write_text(_PLUGINS)
    info = tmp_path / "half_mechanisms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: half-mechanisms\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[emulator.mechanisms]\nidle = half_mechanisms:Idle\nonly_a_machine = half_mechanisms:OnlyAMachine\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def run(mechanism, generate):
    workload = {"generate": generate}
    scenario = from_mapping({"nodes": 8, "workload": workload, "mechanism": mechanism})
    return run_virtual(scenario, prepare(scenario))


BATCH = [{"daily_batch": {"days": 0.2, "jobs": 20, "load": 0.5}}]
LEASES = [{"bursty_leases": {"days": 1, "utilisation": 0.05}}]


def test_a_mechanism_that_serves_no_lease_and_has_no_machine_is_none():
    with pytest.raises(ScenarioError) as error:
        run({"idle": {"nodes": 2}}, BATCH)
    assert str(error.value) == (
        "mechanism: Idle is no mechanism: it has neither on_arrival nor make_machine (docs/mechanisms.md)"
    )


def test_a_mechanism_with_a_machine_of_its_own_needs_no_on_arrival():
    assert len(run("only_a_machine", BATCH).jobs) == 20


def test_a_lease_that_nobody_would_serve_is_told_before_the_run():
    with pytest.raises(
        ScenarioError, match=r"^mechanism: job \d+ is an on-demand lease; .* has no on_arrival"
    ):
        run("only_a_machine", LEASES)


class Listener:
    """Hears of ends and passes, and of no more passes after its `last` one."""

    def __init__(self, last):
        self.last, self.heard = last, []

    def on_arrival(self, job, act):
        act.reject(job, "no leases here")

    def on_job_end(self, act):
        self.heard.append(("end", act.now_us, act.ended_jobs))

    def on_pass(self, act):
        self.heard.append(("pass", act.now_us))
        act.watch_passes(sum(event == "pass" for event, *_ in self.heard) < self.last)


def test_a_mechanism_with_on_job_end_and_on_pass_is_told_of_both_until_it_has_heard_enough():
    jobs = jobs_of((0, 10, 1), (0, 20, 1), (5, 10, 1))
    listener = Listener(last=3)
    run_script(1, jobs, listener)
    assert listener.heard == [
        ("pass", 0), ("pass", 5), ("end", 10, [0]), ("pass", 10), ("end", 30, [1]), ("end", 40, [2]),
    ]  # fmt: skip


@pytest.mark.parametrize(("what", "handler"), [("ends", "on_job_end"), ("passes", "on_pass")])
def test_a_mechanism_that_watches_what_it_has_no_handler_for_ends_the_run_and_is_told(what, handler):
    class Watcher:
        def on_arrival(self, job, act):
            act.reject(job, "no leases here")

        def on_begin(self, act):
            getattr(act, f"watch_{what}")(True)

    with pytest.raises(
        PluginError, match=f"mechanism script failed in watch_{what} at .*watches {what} and has no {handler}"
    ):
        run_script(1, jobs_of((0, 10, 1)), Watcher())


@pytest.mark.parametrize(
    ("methods", "told"),
    [
        ("on_job_ends", "mechanism mine: nothing calls its method on_job_ends; did you mean 'on_job_end'?"),
        ("on_notice", "mechanism mine: nothing calls its method on_notice without an attribute notice_us"),
    ],
)
def test_a_method_that_nobody_calls_is_told_before_the_run(methods, told, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        f"class Mine:\n    def on_arrival(self, job, act): ...\n    def {methods}(self, *args): ...\n"
    )
    scenario = from_mapping(
        {"nodes": 8, "workload": {"generate": BATCH}, "plugins": [f"{file}:Mine"], "mechanism": "mine"}
    )
    with pytest.raises(ScenarioError, match=re.escape(told)):
        run_virtual(scenario, prepare(scenario))


@pytest.mark.parametrize(
    ("kind", "key", "method"),
    [
        ("scheduler", "order", "decide(self, now_us, view)"),
        ("backfill", "backfill", "may_start(self, job, reservation)"),
        ("queue order", "order", "rank(self, job)"),
    ],
)
def test_a_scheduler_is_told_of_no_ends_and_one_that_waits_for_them_is_refused(kind, key, method, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"class Mine:\n    def {method}: return 0\n    def on_job_end(self, job): ...\n")
    with pytest.raises(
        ScenarioError, match=f"{kind} mine: nothing calls its method on_job_end; a {kind} gets no events"
    ):
        from_mapping(
            {
                "nodes": 8,
                "workload": {"generate": BATCH},
                "plugins": [f"{file}:Mine"],
                "scheduler": {key: "mine"},
            }
        )
