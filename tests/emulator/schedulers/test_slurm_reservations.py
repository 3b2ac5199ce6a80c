"""Advance reservations in Slurm's twin: others stay out in time, whom they are for waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.cluster.slurm_scheduler import Slurm
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from scenario_kit import jobs_in_s

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

Row = tuple[int, int, int, int, int]
"""submit, run, limit in seconds; nodes; user."""
NODES = 4


def run(rows: list[Row], reservations: dict[str, Any], **settings: Any) -> RunRecord:
    jobs = jobs_in_s(rows, "submit_us", "run_us", "estimate_us", "nodes", "user")
    said = {"reservations": reservations, **settings}
    return simulate(jobs, NODES, SchedulerConfig(decide={"slurm": said}))


def starts(rows: list[Row], reservations: dict[str, Any], **settings: Any) -> list[float]:
    return [each / US for each in run(rows, reservations, **settings).start_us.tolist()]


DOWNTIME = {"downtime": {"start_s": 600, "end_s": 1200}}


def test_a_job_whose_limit_ends_after_a_downtime_begins_waits_for_its_end() -> None:
    assert starts([(0, 60, 600, 1, 1)], DOWNTIME) == [0]
    assert starts([(0, 60, 660, 1, 1)], DOWNTIME) == [1200]
    assert starts([(1, 60, 600, 1, 1)], DOWNTIME) == [1200]
    assert starts([(700, 60, 60, 1, 1)], DOWNTIME) == [1200]


def test_nodes_that_are_not_reserved_are_not_touched() -> None:
    half = {"half": {"start_s": 600, "end_s": 1200, "nodes": "n[003-004]"}}
    record = run([(0, 60, 900, 2, 1), (1, 60, 900, 1, 1)], half)
    assert [each / US for each in record.start_us.tolist()] == [0, 60]
    assert record.runs.node.tolist() == [0, 1, 0]


PART = {"part": {"start_s": 600, "end_s": 1200, "nodes": "n[003-004]"}}


def test_a_job_that_reservations_alone_keep_out_holds_nobody_up() -> None:
    """Recorded on Slurm 22.05, as are the next two: `ReqNodeNotAvail` is its reason."""
    assert starts([(0, 60, 900, 4, 1), (1, 60, 60, 1, 1)], DOWNTIME) == [1200, 1]
    assert starts([(0, 60, 900, 3, 1), (1, 60, 60, 1, 1)], PART) == [1200, 1]


def test_a_job_that_waits_for_a_busy_node_that_is_not_reserved_holds_the_others_up() -> None:
    """Its reason is `Resources`, though only reserved nodes could make up for it."""
    rows: list[Row] = [(0, 300, 300, 1, 1), (1, 60, 900, 3, 1), (2, 60, 60, 1, 1)]
    assert starts(rows, PART) == [0, 1200, 30]


def test_who_asks_for_a_reservation_holds_up_those_who_do_too_and_nobody_else() -> None:
    mine = {"mine": {"start_s": 0, "end_s": 6000, "nodes": "n[003-004]", "users": [7]}}
    rows: list[Row] = [(0, 300, 300, 1, 7), (1, 60, 60, 2, 7), (2, 60, 600, 1, 7), (3, 60, 60, 1, 1)]
    assert starts(rows, mine, bf_interval=3600) == [0, 300, 360, 3]
    rows = [(0, 300, 300, 2, 1), (1, 60, 60, 2, 1), (2, 60, 60, 1, 7)]
    assert starts(rows, mine, bf_interval=3600) == [0, 300, 2]


def test_jobs_of_a_reservation_wait_for_it_and_have_its_nodes() -> None:
    mine = {"mine": {"start_s": 600, "end_s": 1200, "nodes": "n[003-004]", "users": [7]}}
    rows: list[Row] = [(0, 60, 60, 1, 7), (1, 60, 60, 1, 1), (2, 300, 300, 2, 7)]
    record = run(rows, mine)
    assert [each / US for each in record.start_us.tolist()] == [600, 1, 660]
    assert sorted(record.runs.node.tolist()) == [0, 2, 2, 3]


def test_a_job_may_be_named_by_its_number() -> None:
    mine = {"mine": {"start_s": 600, "end_s": 1200, "jobs": [2]}}
    assert starts([(0, 60, 60, 1, 1), (1, 60, 60, 1, 1)], mine) == [0, 600]


def test_a_job_that_comes_too_late_for_its_reservation_never_starts() -> None:
    mine = {"mine": {"start_s": 600, "end_s": 1200, "users": [7]}}
    record = run([(1150, 60, 60, 1, 7), (0, 60, 60, 1, 1)], mine)
    assert record.start_us.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"r": {"start_s": 5, "end_s": 5}}, "reservation r: start_s must be at least 0 and before end_s"),
        ({"r": {"start_s": 0, "end_s": 5, "nodes": "n009"}}, "reservation r: there is no node n009"),
        ({"r": {"start_s": 0, "end_s": 5, "nodes": "n[1"}}, "reservation r: nodes: "),
        (
            {"r": {"start_s": 0, "end_s": 5}, "s": {"start_s": 4, "end_s": 9, "nodes": "n001"}},
            "reservations r and s have a node at the same time",
        ),
        (
            {"r": {"start_s": 0, "end_s": 5, "users": [1]}, "s": {"start_s": 5, "end_s": 9, "users": [1]}},
            "reservations r and s are for the same user or job",
        ),
    ],
)
def test_reservations_that_cannot_be_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        starts([(0, 1, 1, 1, 1)], said)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0, 60, 60, 3, 7), "reservation mine takes no more than 2 nodes, and 1 of its jobs"),
        ((0, 60, 660, 1, 7), "reservation mine takes limits up to 10 minutes"),
    ],
)
def test_a_job_that_its_reservation_would_never_start_is_refused(row: Row, message: str) -> None:
    mine = {"mine": {"start_s": 600, "end_s": 1200, "nodes": "n[003-004]", "users": [7]}}
    with pytest.raises(ValueError, match=message):
        starts([row], mine)


def test_a_scenario_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="reservations"):
        SchedulerConfig(decide={"slurm": {"reservations": {"r": {"begin": 0}}}}).make_machine()
    assert Slurm(reservations={}).rules(4).reservations == ()
