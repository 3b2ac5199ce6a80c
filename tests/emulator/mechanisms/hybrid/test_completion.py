"""What becomes of lent nodes when an on-demand job is done with them, by hand."""

from __future__ import annotations

from balancer.clock import NEVER_US
from emulator.mechanisms.hybrid import mechanism as hybrid
from emulator.validation.laws import check
from oracle.hybrid_kit import segments, simulate
from oracle.hybrid_reference import HybridJob, Segment

LENDER, BORROWER, WAITING = 0, 1, 2


def jobs_of_which_one_lends():
    """The borrower takes four idle nodes and three of the lender's; the third job wants all ten, and waits."""
    return [
        HybridJob(0, 100, 100, 6, "malleable", least=2),
        HybridJob(10, 20, 20, 7, "on_demand"),
        HybridJob(15, 5, 5, 10, "on_demand"),
    ]


def test_a_shrunk_job_gets_its_nodes_back_although_an_on_demand_job_waits():
    record, mechanism = simulate(jobs_of_which_one_lends(), 10, "n+spaa")
    assert segments(record) == [
        Segment(LENDER, 0, 10, 6, "resized"),
        Segment(LENDER, 10, 30, 3, "resized"),
        Segment(BORROWER, 10, 30, 7, "finished"),
        Segment(LENDER, 30, 110, 6, "finished"),
        Segment(WAITING, 110, 115, 10, "finished"),
    ]
    assert mechanism.loans.returned == {"resumed": 0, "expanded": 3}


def test_a_preempted_job_does_not_resume_before_an_on_demand_job_that_waits():
    record, mechanism = simulate(jobs_of_which_one_lends(), 10, "n+paa")
    assert segments(record) == [
        Segment(LENDER, 0, 10, 6, "preempted"),
        Segment(BORROWER, 10, 30, 7, "finished"),
        Segment(WAITING, 30, 35, 10, "finished"),
        Segment(LENDER, 35, 125, 6, "finished"),
    ]
    assert mechanism.loans.not_returned == {"an on-demand job waits": 3}


def test_a_shrunk_job_gets_its_nodes_back_when_a_node_of_the_on_demand_job_breaks(monkeypatch):
    monkeypatch.setattr(hybrid, "Failures", OneFailure)
    record, mechanism = simulate(jobs_of_which_one_lends(), 10, "n+spaa", mtbf_s=1)
    assert segments(record) == [
        Segment(LENDER, 0, 10, 6, "resized"),
        Segment(LENDER, 10, 20, 3, "resized"),
        Segment(BORROWER, 10, 20, 7, "preempted"),
        Segment(LENDER, 20, 105, 6, "finished"),
        Segment(BORROWER, 105, 125, 7, "finished"),
        Segment(WAITING, 125, 130, 10, "finished"),
    ]
    assert mechanism.loans.returned == {"resumed": 0, "expanded": 3}
    assert check(record) == []


class OneFailure:
    """A node of the borrower breaks at 20 us and is repaired at 50 us."""

    count = 1

    def __init__(self, *_):
        self.next_us = 20

    def failed(self, now_us):
        if now_us != 20:
            return None
        self.next_us = 50
        return 9

    def repaired(self, now_us):
        if now_us < 50:
            return []
        self.next_us = NEVER_US
        return [9]
