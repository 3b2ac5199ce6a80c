"""A plug-in that raises ends the run in both clocks: one error names it, event and time, and results are kept."""

import json
from functools import partial

import numpy as np
import pytest
import yaml

from balancer.clock import US
from command_line import emulate
from emulator.kernel.job_states import JobState
from emulator.live.run_requirements import requirements_of
from emulator.plugins.failure import PluginError
from emulator.report import files
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.validation.laws import check
from emulator.workload.table import JobTable, Kind
from fleet_kit.both_clocks import of_a_table, run_both, run_live

pytestmark = pytest.mark.usefixtures("toy")
live = pytest.mark.live
EVENTS = {
    # event: where it fails first at 3000 s or later
    "on_timer": "on_timer at 3000.000000 s",
    "on_arrival": "on_arrival of job 17 at 3600.000000 s",
    "on_completion": "on_completion of job 17 at 3800.000000 s",
    "on_job_end": "on_job_end at 3100.000000 s",
    "on_pass": "on_pass at 3000.000000 s",
    "on_notice": "on_notice of job 17 at 3300.000000 s",
    "figures": "figures at 9000.000000 s",
}


def jobs():
    """Five jobs of 900 to 4000 s, and job 17, on-demand, announced at 3300 s, comes at 3600 s for 200 s."""
    return JobTable.build(
        number=[1, 2, 3, 4, 5, 17],
        submit_us=[time * US for time in (0, 100, 200, 300, 5000, 3600)],
        run_us=[time * US for time in (900, 3000, 900, 4000, 4000, 200)],
        nodes=[1, 1, 2, 1, 1, 1],
        kind=[Kind.BATCH] * 5 + [Kind.ON_DEMAND],
        extra={"notice_us": np.array([-1] * 5 + [3300 * US])},
    )


scenario = partial(of_a_table, nodes=4)


def failing(event, at_s=3000):
    return scenario({"failing": {"event": event, "at_s": at_s}})


def said(where, plugin="mechanism failing", what="ValueError: that was too much"):
    event, _, at = where.rpartition(" at ")
    return f"{plugin} failed in {event} at {at}: {what}"


@pytest.mark.parametrize("event", EVENTS)
def test_in_virtual_time_the_record_ends_there_and_names_plug_in_event_and_time(event):
    wanted = failing(event)
    record = run_virtual(wanted, Prepared(jobs(), wanted.nodes))
    assert record.interrupted == said(EVENTS[event])
    assert 'raise ValueError("that was too much")' in record.traceback
    assert [(mark.at_us, mark.text) for mark in record.marks] == [
        (record.horizon_us, f"interrupted: {record.interrupted}")
    ]
    assert record.figures == {}


@pytest.mark.slow
@live
@pytest.mark.sample(1)
@pytest.mark.parametrize("event", EVENTS)
def test_live_the_record_is_the_same(tmp_path, event):
    virtual, real = run_both(tmp_path, failing(event), jobs())
    assert real.interrupted == virtual.interrupted == said(EVENTS[event])
    assert 'raise ValueError("that was too much")' in real.traceback
    assert real.horizon_us == virtual.horizon_us
    assert real.marks == virtual.marks
    assert (real.leases, real.moves) == (virtual.leases, virtual.moves)
    over = virtual.runs.end_us >= 0
    np.testing.assert_array_equal(virtual.runs.end_us[over], real.runs.end_us[: len(over)][over])


@pytest.mark.slow
@live
def test_live_a_mechanism_that_fails_as_the_run_begins_is_named_too(tmp_path):
    record = run_live(tmp_path, failing("on_begin", 0), jobs())
    assert record.interrupted == said("on_begin at 0.000000 s")


@pytest.mark.parametrize("action", ["advance", "finish_instant"])
def test_a_machine_that_fails_is_its_mechanisms_failure(action):
    wanted = scenario({"failing_machine": {"event": action, "at_s": 3000}})
    record = run_virtual(wanted, Prepared(jobs(), wanted.nodes))
    where = record.interrupted.rpartition(" at ")[2].partition(" s: ")[0]
    assert record.interrupted == said(f"{action} of its _Brittle at {where} s", "mechanism failing_machine")
    assert float(where) >= 3000


@pytest.mark.slow
@live
def test_live_a_machine_that_fails_ends_the_run_as_well(tmp_path):
    wanted = scenario({"failing_machine": {"event": "finish_instant", "at_s": 3600}})
    virtual, real = run_both(tmp_path, wanted, jobs())
    assert real.interrupted == virtual.interrupted
    assert "failed in finish_instant of its _Brittle" in real.interrupted


def test_what_fails_before_the_run_begins_is_an_error_that_names_it():
    wanted = scenario({"failing_machine": {"event": "make_machine"}})
    with pytest.raises(PluginError) as error:
        run_virtual(wanted, Prepared(jobs(), wanted.nodes))
    assert str(error.value) == said(
        "make_machine at 0.000000 s", "mechanism failing_machine", "KeyError: 'that was too much'"
    )


@pytest.mark.parametrize("run", [run_virtual, requirements_of])
def test_a_queue_order_that_fails_before_the_run_begins_is_named_in_both_clocks(run):
    batch = jobs().take(jobs().kind == Kind.BATCH)
    wanted = scenario(None, scheduler="failing_order+easy")
    with pytest.raises(PluginError) as error:
        run(wanted, Prepared(batch, wanted.nodes))
    assert str(error.value) == said(
        "its keys at 0.000000 s", "queue order failing_order", "RuntimeError: that was too much"
    )


def test_a_mechanism_that_cannot_serve_the_workload_says_so_and_that_is_bad_input():
    wanted = failing("on_begin", 0)
    with pytest.raises(ValueError, match="that was too much"):
        run_virtual(wanted, Prepared(jobs(), wanted.nodes))


@pytest.mark.slow
@live
def test_live_a_queue_order_that_fails_for_a_job_alone_ends_the_run(tmp_path):
    batch = jobs().take(jobs().kind == Kind.BATCH)
    record = run_live(tmp_path, scenario(None, scheduler="lone_failing_order+easy"), batch)
    assert record.interrupted == said(
        "its key of job 0 at 0.000000 s", "queue order lone_failing_order", "RuntimeError: that was too much"
    )


LATE = {
    "raise": "ValueError: that was too much",
    "short": "ValueError: it gave priorities of shape (0,) to 1 waiting jobs",
    "nan": "ValueError: it gave the job in row 4 the priority NaN, which has no place in an order",
}


def late(how, mechanism=None):
    """Job 5 is the first to be submitted at 3700 s or later, at 5000 s."""
    return scenario(
        mechanism,
        scheduler={"order": {"late_failing_order": {"at_s": 3700, "how": how}}, "backfill": "easy"},
    )


def said_late(how):
    return said("priority at 5000.000000 s", "queue order late_failing_order", LATE[how])


@pytest.mark.parametrize("how", LATE)
def test_in_virtual_time_an_order_that_fails_at_a_pass_ends_the_run_and_is_named(how):
    batch = jobs().take(jobs().kind == Kind.BATCH)
    record = run_virtual(late(how), Prepared(batch, 4))
    assert record.interrupted == said_late(how)
    assert record.horizon_us == 5000 * US
    assert [(mark.at_us, mark.text) for mark in record.marks] == [
        (5000 * US, f"interrupted: {record.interrupted}")
    ]
    assert check(record) == []
    assert record.state[4] == JobState.QUEUED, "nothing starts in a pass that failed"
    assert ("that was too much" in record.traceback) == (how == "raise")


@pytest.mark.slow
@live
@pytest.mark.parametrize("how", LATE)
def test_live_an_order_that_fails_at_a_pass_ends_the_run_and_is_named(tmp_path, how):
    batch = jobs().take(jobs().kind == Kind.BATCH)
    virtual, real = run_both(tmp_path, late(how), batch)
    assert real.interrupted == virtual.interrupted == said_late(how)
    assert real.horizon_us == virtual.horizon_us
    np.testing.assert_array_equal(real.state, virtual.state)
    np.testing.assert_array_equal(real.runs.start_us, virtual.runs.start_us)
    assert real.traceback.splitlines()[-1] == virtual.traceback.splitlines()[-1]


@pytest.mark.slow
@live
def test_live_an_order_that_fails_under_a_mechanism_ends_the_run_as_well(tmp_path):
    virtual, real = run_both(tmp_path, late("raise", {"failing": {"event": "none"}}), jobs())
    assert real.interrupted == virtual.interrupted
    assert "queue order late_failing_order failed in priority" in real.interrupted
    assert (real.horizon_us, real.marks) == (virtual.horizon_us, virtual.marks)
    np.testing.assert_array_equal(real.runs.end_us, virtual.runs.end_us)


def balanced():
    return scenario({"balancer": {"algorithm": "failing_plan", "wait_s": 100}})


def test_in_virtual_time_a_balancers_algorithm_that_fails_ends_the_run():
    wanted = balanced()
    record = run_virtual(wanted, Prepared(jobs(), wanted.nodes))
    assert record.interrupted.startswith("mechanism balancer failed in on_")
    assert record.interrupted.endswith(
        "BadPlan: algorithm failing_plan: raised ValueError: that was too much"
    )


@pytest.mark.slow
@live
def test_live_the_balancer_outlives_its_algorithm_and_the_run_does_not(tmp_path):
    record = run_live(tmp_path, balanced(), jobs())
    assert record.interrupted.startswith("algorithm failing_plan failed in ")
    assert record.interrupted.endswith(" s: raised ValueError: that was too much")
    assert not any("balancer ended" in mark.text for mark in record.marks)
    assert 3600 * US <= record.horizon_us < 200_000 * US


class TestCommand:
    """`emulator run` of a mechanism that fails when the first on-demand job comes."""

    @pytest.fixture
    def run(self, tmp_path):
        lease = {"bursty_leases": {"days": 1, "utilisation": 0.05}}
        document = {
            "name": "failing",
            "nodes": 8,
            "workload": {"generate": [{"daily_batch": {"days": 0.2, "jobs": 20, "load": 0.5}}, lease]},
            "mechanism": {"failing": {"event": "on_arrival"}},
            "live": {"speed": 20_000},
        }
        (tmp_path / "failing.yaml").write_text(yaml.safe_dump(document))

        def command(*more):
            out = tmp_path / "out"
            done = emulate("run", tmp_path / "failing.yaml", "--out", out, "--quiet", *more)
            return done, out

        return command

    def check(self, done, out):
        assert done.exit_code == 1
        summary = json.loads((out / "summary.json").read_text())
        reason = summary["interrupted"]
        assert reason.startswith("mechanism failing failed in on_arrival of job ")
        assert done.stderr.splitlines()[-1] == f"emulator: {reason}; what was done is in {out}"
        assert files.load(out).interrupted == reason

    def test_virtual(self, run):
        done, out = run()
        self.check(done, out)
        assert "Traceback" not in done.output

    @pytest.mark.parametrize("clock", ["virtual", pytest.param("live", marks=[live, pytest.mark.slow])])
    def test_an_order_that_fails_at_a_pass(self, run, clock):
        order = "scheduler={order: {late_failing_order: {at_s: 3700}}, backfill: easy}"
        done, out = run("--set", "mechanism={failing: {event: none}}", "--set", order, "--clock", clock)
        assert done.exit_code == 1
        reason = json.loads((out / "summary.json").read_text())["interrupted"]
        assert reason.startswith("queue order late_failing_order failed in priority at ")
        assert done.stderr.splitlines()[-1] == f"emulator: {reason}; what was done is in {out}"

    def test_virtual_with_its_traceback(self, run):
        done, out = run("--traceback")
        self.check(done, out)
        assert 'raise ValueError("that was too much")' in done.stderr

    @pytest.mark.slow
    @live
    def test_live(self, run):
        done, out = run("--clock", "live", "--traceback")
        self.check(done, out)
        assert 'raise ValueError("that was too much")' in done.stderr

    def test_what_cannot_begin_writes_nothing(self, run):
        done, out = run(
            "--set", "mechanism={failing_machine: {event: make_machine}}", "--set", "workload.x=1"
        )
        assert done.exit_code == 2
        done, out = run("--set", "mechanism={failing_machine: {event: make_machine}}")
        assert (done.exit_code, out.exists()) == (1, False)
        assert done.stderr.startswith(
            "emulator: mechanism failing_machine failed in make_machine at 0.000000 s: "
        )
