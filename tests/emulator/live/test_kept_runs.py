"""A live run of processes is stopped in the middle, and the same command goes on with it."""

import re
import signal
import subprocess
import sys

import pytest
import yaml

from balancer.clock import micros, seconds
from emulator.kernel.job_states import RunOutcome
from emulator.live.fleet import Fleet
from emulator.live.resume import RunSuspended, keep
from emulator.live.watch import WENT_ON
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from fleet_kit.both_clocks import NeverMind, nothing_is_lost, proofs_in, two_hours
from polling import until

pytestmark = pytest.mark.live
SAME = f"{WENT_ON}: nothing that was under way differs"


class StopAt:
    """Wants the run to end at this cluster time, as a typed Ctrl-C does."""

    reason = "SIGINT"

    def __init__(self, at_s):
        self.at_s, self.fleet = at_s, None

    def __bool__(self):
        clock = getattr(self.fleet, "_clock", None)
        return clock is not None and seconds(clock.now_us()) >= self.at_s


def run_in(folder, scenario, *stops_s):
    """The record of the run that is stopped at each of these times, and goes on."""
    prepared = prepare(scenario)
    for place, stop in enumerate([*map(StopAt, stops_s), NeverMind()]):
        with keep(folder, scenario, prepared.nodes) as kept:
            assert kept.is_resumed == (place > 0)
            fleet = Fleet(scenario, prepared, folder, None, kept)
            stop.fleet = fleet
            if isinstance(stop, NeverMind):
                return fleet.run(stop, quiet=True)
            with pytest.raises(RunSuspended, match=r"^stopped by SIGINT: the run stands at \d+ s$"):
                fleet.run(stop, quiet=True)
    raise AssertionError


@pytest.mark.slow
def test_a_run_that_is_stopped_twice_is_that_of_virtual_time(tmp_path):
    scenario = from_mapping(two_hours())
    record = run_in(tmp_path / "kept", scenario, 2000, 4000)
    nothing_is_lost(record)
    assert [mark.text for mark in record.marks] == [SAME, SAME]
    assert all(mark.at_us >= micros(at_s) for mark, at_s in zip(record.marks, (2000, 4000), strict=True))
    found = compare(run_virtual(scenario, prepare(scenario)), record)
    assert found.is_same, found


@pytest.mark.slow
def test_real_jobs_begin_again_and_are_listed(tmp_path):
    """Processes have ended with their agents."""
    jobs = {
        "daily_batch": {"days": 0.04, "load": 1.0, "jobs": 18, "median_run_s": 500, "max_walltime_s": 3600}
    }
    settings = two_hours(mechanism={"balancer": {"wait_s": 300}}, jobs="emulator-job", speed=300)
    settings["workload"] = {"generate": [jobs]}
    scenario = from_mapping(settings)
    record = run_in(tmp_path / "kept", scenario, 1500)
    nothing_is_lost(record)
    (mark,) = record.marks
    again = record.runs.job[record.runs.outcome == RunOutcome.REQUEUED]
    numbers = sorted(record.jobs.number[again].tolist())
    listed = ", ".join(map(str, numbers))
    assert numbers
    assert mark.text == (
        f"{WENT_ON}: {len(numbers)} job{'s' * (len(numbers) > 1)} began again, since their nodes were lost ({listed})"
    )
    proofs = proofs_in(tmp_path / "kept" / "logs" / "jobs")
    # One that needs all of its walltime is ended by it.
    whole = record.jobs.number[record.jobs.run_us < record.jobs.estimate_us].tolist()
    assert {number for number, proof in proofs.items() if proof.finished} >= set(whole)
    assert len(proofs) == len(record.jobs)


@pytest.mark.slow
def test_a_mechanism_in_the_batch_server_goes_on_where_it_was(tmp_path):
    kinds = {"on_demand_share": 0.25, "rigid_share": 0.3, "checkpoint_s": 20, "mtbf_s": 3000}
    settings = two_hours(mechanism={"hybrid": {"strategy": "cua+spaa"}})
    day = {"days": 0.04, "load": 1.0, "jobs": 18, "median_run_s": 500, "max_walltime_s": 3600}
    settings["workload"] = {"generate": [{"daily_batch": day}], "transforms": [{"hybrid_kinds": kinds}]}
    scenario = from_mapping(settings | {"seed": 17})
    record = run_in(tmp_path / "kept", scenario, 1500)
    assert [mark.text for mark in record.marks] == [SAME]
    found = compare(run_virtual(scenario, prepare(scenario)), record)
    assert found.is_same, found


def emulator(folder, scenario):
    """`emulator run ... --keep`: the process."""
    code = "from emulator.cli import main; main()"
    words = ["run", str(scenario), "--clock", "live", "--keep", "kept", "--out", "results", "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=folder, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_a_typed_ctrl_c_stops_a_run_and_the_same_command_goes_on_with_it_and_leaves_nothing(tmp_path):
    scenario = tmp_path / "kept.yaml"
    scenario.write_text(yaml.safe_dump(two_hours()))
    with emulator(tmp_path, scenario) as process:
        until(lambda: (tmp_path / "kept" / "replay.jsonl").exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert re.search(r"the run stands at \d+ s; the same command goes on with it", process.stderr.read())
    assert not (tmp_path / "results").exists()
    with emulator(tmp_path, scenario) as process:
        assert process.wait() == 0, process.stderr.read()
    record = files.load(tmp_path / "results")
    nothing_is_lost(record)
    assert [mark.text for mark in record.marks] == [SAME]
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_a_run_whose_command_was_killed_goes_on_and_nothing_is_lost(tmp_path):
    scenario = tmp_path / "kept.yaml"
    scenario.write_text(yaml.safe_dump(two_hours()))
    log = tmp_path / "kept" / "replay.jsonl"
    with emulator(tmp_path, scenario) as process:
        until(lambda: (log.exists() and len(log.read_text().splitlines()) > 9) or process.poll() is not None)
        process.kill()
    with emulator(tmp_path, scenario) as process:
        assert process.wait() == 0, process.stderr.read()
    record = files.load(tmp_path / "results")
    nothing_is_lost(record)
    assert record.marks[0].text.startswith(f"{WENT_ON}: ")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: (folder / "mine.txt").write_text("mine"), "holds something that is not a run"),
        (
            lambda folder: (folder / "state.json").write_text(
                '{"run": "r", "scenario": {"name": "other"}, "nodes": 8}'
            ),
            "holds a run of another scenario",
        ),
    ],
)
def test_a_folder_that_holds_something_else_is_left_as_it_is(tmp_path, make, said):
    make(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ScenarioError, match=said), keep(tmp_path, from_mapping(two_hours()), 8):
        pass
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"}
    assert after == before


def test_two_cannot_go_on_with_the_same_run(tmp_path):
    scenario = from_mapping(two_hours())
    with (
        keep(tmp_path, scenario, 8),
        pytest.raises(ScenarioError, match="somebody is at work"),
        keep(tmp_path, scenario, 8),
    ):
        pass


@pytest.mark.parametrize(
    ("live", "said"),
    [
        ({"batch": "slurm", "pace": "free"}, r"live\.batch: a run with --keep has torque only, not slurm"),
        ({"jobs": "cpu-bound"}, "cpu-bound"),
        ({"ondemand": "nova", "pace": "free"}, r"live\.ondemand: "),
    ],
)
def test_what_cannot_go_on_is_said_before_anything_begins(tmp_path, live, said):
    folder = tmp_path / "kept"
    with pytest.raises(ScenarioError, match=said), keep(folder, from_mapping(two_hours(**live)), 8):
        pass
    assert not folder.exists()
