"""A scenario in both clocks, and what it means that the runs are the same."""

from dataclasses import fields

import numpy as np

from emulator.harness.laws import check
from emulator.live.fleet import Fleet
from emulator.runner import Prepared, run_virtual


class NeverMind:
    """Nobody interrupts."""

    reason = ""

    def __bool__(self):
        return False


def run_live(tmp_path, wanted, jobs):
    """The live record; everything that the fleet wrote is in `work` below the path."""
    work = tmp_path / "work"
    work.mkdir()
    return Fleet(wanted, Prepared(jobs, wanted.nodes), work).run(NeverMind(), quiet=True)


def run_both(tmp_path, wanted, jobs):
    virtual = run_virtual(wanted, Prepared(jobs, wanted.nodes))
    return virtual, run_live(tmp_path, wanted, jobs)


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
