"""One workload in virtual time and live, and what the jobs' own output proves."""

from dataclasses import fields

import numpy as np

from emulator.kernel.job_states import JobState
from emulator.live.fleet import Fleet
from emulator.live.job.proof import prove
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import check
from emulator.workload.table import Kind


class NeverMind:
    """Nobody interrupts."""

    reason = ""

    def __bool__(self):
        return False


def of_a_table(mechanism, *, nodes=8, scheduler="fcfs+easy", **live):
    """The scenario of a run whose jobs are handed over as a table."""
    return from_mapping(
        {
            "name": "table",
            "nodes": nodes,
            "scheduler": scheduler,
            "workload": {"generate": [{"daily_batch": {}}]},
            "mechanism": mechanism,
            "live": {"speed": 20_000} | live,
        }
    )


def two_hours(*, mechanism=None, **live):
    """A scenario's document: two hours on eight nodes with leases."""
    batch = {"days": 0.08, "jobs": 40, "load": 0.8, "median_run_s": 600, "max_walltime_s": 3600}
    leases = {"days": 0.08, "leases_per_day": 150, "utilisation": 0.12, "mean_nodes": 1.5}
    leases |= {"mean_duration_s": 900, "max_duration_s": 1800, "day_begin_s": 0}
    return {
        "name": "two-hours",
        "seed": 3,
        "nodes": 8,
        "workload": {"generate": [{"daily_batch": batch}, {"bursty_leases": leases}]},
        "mechanism": mechanism or {"balancer": {"static_reserve": 1, "wait_s": 300, "idle_reserve_s": 600}},
        "live": {"speed": 1200} | live,
    }


def run_both(tmp_path, wanted, jobs):
    """(virtual, live) records; the fleet works in `tmp_path / "work"`."""
    prepared = Prepared(jobs, wanted.nodes)
    return run_virtual(wanted, prepared), run_live(tmp_path, wanted, jobs)


class Meddler(NeverMind):
    """Does something to the fleet whenever it is asked whether to end it."""

    def __init__(self, act):
        self.act = act

    def __bool__(self):
        self.act()
        return False


def run_live(tmp_path, wanted, jobs, meddle=None):
    """`meddle(fleet)` is called again and again while it runs."""
    work = tmp_path / "work"
    work.mkdir()
    fleet = Fleet(wanted, Prepared(jobs, wanted.nodes), work)
    meddler = NeverMind() if meddle is None else Meddler(lambda: meddle(fleet))
    return fleet.run(meddler, quiet=True)


def assert_same(virtual, live):
    for name in ("state", "start_us", "end_us"):
        np.testing.assert_array_equal(getattr(virtual, name), getattr(live, name), name)
    for column in fields(virtual.runs):
        np.testing.assert_array_equal(
            getattr(virtual.runs, column.name), getattr(live.runs, column.name), column.name
        )
    assert virtual.leases == live.leases
    assert virtual.moves == live.moves
    assert (check(virtual), check(live)) == ([], [])
    assert live.interrupted == ""


def proofs_of(tmp_path):
    return proofs_in(tmp_path / "work" / "logs" / "jobs")


def proofs_in(folder):
    """Number of each job that ran as a process -> what its output proves."""
    found = {}
    for path in folder.glob("j*.o*"):
        with path.open() as output:
            found[int(path.name[1:].partition(".")[0])] = prove(output)
    return found


def assert_proved(tmp_path, record):
    proofs = proofs_of(tmp_path)
    assert_proofs(proofs, record)
    return proofs


def assert_proofs(proofs, record):
    """Each job's own output proves the work and the losses that the record has, and that exactly those are over."""
    jobs, runs = record.jobs, record.runs
    account = {int(number): (0, 0) for number in jobs.number}
    for row, done, lost in zip(runs.job, runs.done_node_us, runs.lost_node_us, strict=True):
        number = int(jobs.number[row])
        account[number] = (account[number][0] + int(done), account[number][1] + int(lost))
    assert {number: (proof.done, proof.lost) for number, proof in proofs.items()} == {
        number: account[number] for number in proofs
    }
    ended = set(jobs.number[record.state == JobState.ENDED].tolist())
    assert {number for number, proof in proofs.items() if proof.finished} == ended


def nothing_is_lost(record):
    """Every batch job has run to its end, every lease has an answer, every node is in one pool at every time."""
    batch = record.jobs.kind == Kind.BATCH
    assert (record.state[batch] == JobState.ENDED).all()
    assert set(record.state[~batch].tolist()) <= {JobState.ENDED, JobState.REJECTED}
    assert check(record) == []
    assert not record.interrupted
