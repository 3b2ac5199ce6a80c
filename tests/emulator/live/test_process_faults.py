"""Steps of a scenario that kill, stop and start processes of a live run, at exactly their cluster times."""

import re
import subprocess
from contextlib import suppress

import numpy as np
import pytest

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.fleet import Fleet
from emulator.live.slurm import system
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.validation.laws import check
from emulator.workload.table import Kind
from fleet_kit.both_clocks import Meddler, nothing_is_lost, two_hours

pytestmark = pytest.mark.live


def scenario(**live):
    return from_mapping(two_hours(**live))


@pytest.fixture
def live(tmp_path):
    """Run a scenario live, in a folder of its own each time."""

    def run(scenario):
        work = tmp_path / f"work{len(list(tmp_path.iterdir()))}"
        work.mkdir()
        return Fleet(scenario, prepare(scenario), work).run(False, quiet=True)

    return run


def _said(record):
    return [(mark.at_us / 1e6, mark.text) for mark in record.marks]


def _what_ended(record, before_us):
    """(job, start, end, outcome) of each run that ended before this time, with its nodes."""
    runs = record.runs
    return [
        (job, start_us, end_us, outcome, runs.node[first:next_].tolist())
        for job, start_us, end_us, outcome, first, next_ in zip(
            *(column.tolist() for column in (runs.job, runs.start_us, runs.end_us, runs.outcome)),
            runs.first[:-1].tolist(), runs.first[1:].tolist(), strict=True,
        )
        if end_us < before_us
    ]  # fmt: skip


def _longest_on_one_node(record):
    """(job, start, end, node's name) of the longest batch job that has one node: the node is busy with it alone."""
    runs = record.runs
    alone = (record.jobs.nodes[runs.job] == 1) & (record.jobs.kind[runs.job] == Kind.BATCH)
    row = int(np.argmax(np.where(alone, runs.end_us - runs.start_us, -1)))
    node = record.node_names[runs.node[runs.first[row]]]
    return int(runs.job[row]), int(runs.start_us[row]), int(runs.end_us[row]), node


@pytest.mark.slow
def test_services_that_are_killed_and_started_while_nobody_needs_them_change_nothing(live):
    faults = [
        {"at_s": 1000.5, "do": "kill", "target": name, "for_s": 0.25}
        for name in ("batch", "balancer", "ondemand", "replayer")
    ]
    wanted = scenario(faults=faults)
    virtual = run_virtual(wanted, prepare(wanted))
    record = live(wanted)
    nothing_is_lost(record)
    found = compare(virtual, record)
    assert found.is_same, found
    actions = [(1000.5, "kill"), (1000.75, "start")]
    services = ("batch", "balancer", "ondemand", "replayer")
    assert _said(record) == [
        (at_s, f"fault: {action} {name}") for at_s, action in actions for name in services
    ]


@pytest.mark.slow
def test_a_job_whose_node_is_killed_begins_again_when_the_node_is_back_and_until_then_nothing_differs(live):
    calm = scenario(faults=[])
    virtual = run_virtual(calm, prepare(calm))
    job, start_us, end_us, node = _longest_on_one_node(virtual)
    at_us = (start_us + end_us) // 2
    fault = {"at_s": at_us / 1e6, "do": "kill", "target": node, "for_s": 60}
    record = live(scenario(faults=[fault]))
    nothing_is_lost(record)
    assert _said(record) == [(at_us / 1e6, f"fault: kill {node}"), (at_us / 1e6 + 60, f"fault: start {node}")]
    assert _what_ended(record, at_us) == _what_ended(virtual, at_us)
    (lost,) = np.flatnonzero(record.runs.outcome == RunOutcome.REQUEUED)
    assert (record.runs.job[lost], record.runs.start_us[lost]) == (job, start_us)
    assert record.runs.end_us[lost] == at_us + 60_000_000
    again = record.runs.job == job
    assert (record.runs.end_us - record.runs.start_us)[again][-1] == end_us - start_us


@pytest.mark.slow
def test_a_job_that_ends_on_a_node_that_is_stopped_ends_when_the_node_goes_on(live):
    calm = scenario(faults=[])
    virtual = run_virtual(calm, prepare(calm))
    job, _, end_us, node = _longest_on_one_node(virtual)
    at_us = end_us - 60_000_000
    fault = {"at_s": at_us / 1e6, "do": "pause", "target": node, "for_s": 120}
    record = live(scenario(faults=[fault]))
    nothing_is_lost(record)
    assert _said(record) == [
        (at_us / 1e6, f"fault: pause {node}"),
        (at_us / 1e6 + 120, f"fault: unpause {node}"),
    ]
    assert _what_ended(record, end_us) == _what_ended(virtual, end_us)
    assert record.end_us[job] == at_us + 120_000_000


@pytest.mark.slow
def test_a_node_that_is_killed_for_good_is_down_and_the_run_goes_on_without_it(live):
    record = live(scenario(faults=[{"at_s": 10, "do": "kill", "target": "n002"}]))
    nothing_is_lost(record)
    assert _said(record) == [(10, "fault: kill n002")]
    runs = record.runs
    first = np.repeat(np.arange(len(runs.job)), np.diff(runs.first))
    there = runs.node == record.node_names.index("n002")
    batch = record.jobs.kind[runs.job[first]] == Kind.BATCH
    ended = runs.outcome[first] == RunOutcome.FINISHED
    assert not (there & batch & ended).any()


@pytest.mark.parametrize(
    ("fault", "live", "why"),
    [
        ({"do": "kill", "target": "n099"}, {}, r"live.faults\[0\].target: there is no 'n099' here"),
        ({"do": "slow", "target": "n001"}, {}, r"live.faults\[0\].do: slow needs a network of its own"),
        (
            {"do": "kill", "target": "n001"},
            {"batch": "slurm", "speed": 60},
            "live.faults: not with this batch system",
        ),
    ],
)
def test_what_cannot_be_done_is_an_error_before_anything_begins(tmp_path, monkeypatch, fault, live, why):
    monkeypatch.setattr(system, "_PROGRAMS", ())  # as if Slurm and libfaketime were installed
    monkeypatch.setattr(system, "find_library", lambda *_: tmp_path / "libfaketime")
    monkeypatch.setattr("socket.gethostbyname", lambda _name: "127.0.1.1")
    wanted = scenario(faults=[{"at_s": 1} | fault], **live)
    with pytest.raises(ScenarioError, match=why):
        Fleet(wanted, prepare(wanted), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def volume(tmp_path):
    """A file system of 64 MiB."""
    folder = tmp_path / "volume"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.needs("mounts")
def test_a_run_whose_volume_is_full_ends_and_says_so_and_its_jobs_and_leases_are_accounted_for(volume):
    wanted = scenario(faults=[], speed=600)
    prepared = prepare(wanted)
    fleet = Fleet(wanted, prepared, volume)
    record = fleet.run(Meddler(lambda: fill(fleet, volume)), quiet=True)
    assert re.match(rf"the volume of {volume} is full: \d\.\d MiB of 64 MiB are free", record.interrupted)
    assert check(record) == []
    ended = record.state == JobState.ENDED
    assert ended.sum() >= 3
    virtual = run_virtual(wanted, prepared)
    early = record.end_us[ended].min()
    first = ended & (record.end_us <= early)
    assert (record.start_us[first] == virtual.start_us[first]).all()


def fill(fleet, volume):
    """Once three jobs have ended, write until nobody can write any more."""
    filler = volume / "filler"
    if filler.exists() or len(list_of_ended(fleet)) < 3:
        return
    with filler.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()


def list_of_ended(fleet):
    return [path for path in (fleet.work / "torque").glob("server_priv/accounting/*") for line in
            path.read_text().splitlines() if ";E;" in line]  # fmt: skip
