"""Jobs that readings show and no hook has announced are told: hooks that do not come would be noticed by nobody."""

from __future__ import annotations

import pytest

from balancer.clock import micros
from balancer.drivers.base import NodeStatus
from balancer.service.unannounced_jobs import UnannouncedJobs

IDLE = NodeStatus("idle")


def runs(*jobs):
    return NodeStatus("busy", jobs=jobs)


@pytest.fixture
def watch():
    """`watch(after_s, job, announced=...)`: a reading with that job on n01, and where none was announced then."""
    jobs = UnannouncedJobs()
    jobs.seen({"n01": IDLE}, 0)

    def look(after_s, *running, announced_s=None):
        if announced_s is not None:
            jobs.announced(["n01"], micros(announced_s))
        jobs.seen({"n01": runs(*running) if running else IDLE}, micros(after_s))
        return jobs.nodes(micros(after_s))

    return look


def test_a_job_that_no_hook_announces_is_told_after_a_moment_and_until_it_ends(watch):
    assert [watch(5, "1"), watch(14, "1"), watch(15, "1"), watch(20)] == [(), (), ("n01",), ()]


@pytest.mark.parametrize("announced_s", [4, 5, 6], ids=["before", "with", "after the reading began"])
def test_a_job_that_a_hook_announces_is_not(watch, announced_s):
    assert [watch(5, "1", announced_s=announced_s), watch(30, "1"), watch(90, "1")] == [(), (), ()]


def test_the_next_job_of_a_node_has_a_hook_of_its_own(watch):
    assert [watch(5, "1", announced_s=4), watch(30, "1"), watch(60, "2"), watch(90, "2")] == [
        (),
        (),
        (),
        ("n01",),
    ]
    assert [watch(120, "3", announced_s=110), watch(150, "3")] == [(), ()]


def test_a_hook_that_comes_late_ends_it(watch):
    assert [watch(5, "1"), watch(30, "1"), watch(40, "1", announced_s=35)] == [(), ("n01",), ()]


def test_what_ran_before_the_start_was_announced_to_nobody():
    jobs = UnannouncedJobs()
    for after_s in (0, 60):
        jobs.seen({"n01": runs("1")}, micros(after_s))
    assert jobs.nodes(micros(60)) == ()
