"""A week in which users ask for more: more of the log's own users, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload.grow import DAY_US, NEAR, WEEK_US, more_jobs, node_time, turned
from emulator.workload.streams import stream
from emulator.workload.table import JobTable

HOUR_US = 3_600_000_000


def jobs(*rows):
    """(submit_us, run_us, nodes, user) each."""
    submit, run, nodes, user = zip(*rows, strict=True)
    return JobTable.build(submit_us=submit, run_us=run, nodes=nodes, user=user)


def log(weeks=4, users=5):
    """Each user has a session of ten jobs on one day of each week, at an hour of his own."""
    return jobs(
        *[
            (
                week * WEEK_US + (user + week) % 7 * DAY_US + user * HOUR_US + at,
                HOUR_US + at,
                1 + user % 3,
                user,
            )
            for week in range(weeks)
            for user in range(users)
            for at in range(10)
        ]
    )


def drawn(others, wanted, seed=1):
    return more_jobs(others, wanted, stream(seed, "test"))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 2.0])
def test_what_is_added_is_the_wanted_node_time_and_never_more(share):
    others = log()
    wanted = share * float(node_time(others).sum()) / 4
    found = float(node_time(drawn(others, wanted)).sum())
    largest = float(node_time(others).min())
    assert wanted - max(NEAR * wanted, largest) <= found <= wanted


def test_nothing_is_added_to_a_load_that_does_not_grow():
    assert len(drawn(log(), 0.0)) == 0


def test_users_come_with_their_whole_sessions_at_the_same_hours_of_the_week():
    others = log()
    added = drawn(others, 30 * 2.0 * HOUR_US)
    known = {(int(at) % WEEK_US, int(run), int(user)) for at, run, user in
             zip(others.submit_us, others.run_us, others.user, strict=True)}  # fmt: skip
    assert {
        (int(at), int(run), int(user)) for at, run, user in
        zip(added.submit_us, added.run_us, added.user, strict=True)
    } <= known  # fmt: skip
    whole = [np.count_nonzero(added.user == user) for user in set(added.user.tolist())]
    assert sum(count % 10 == 0 for count in whole) >= len(whole) - 1  # the last one is cut


def test_what_came_on_one_day_stays_together_where_nobody_knows_whose_it_is():
    others = jobs(*[(day * DAY_US + at, HOUR_US, 1, -1) for day in range(14) for at in range(5)])
    added = drawn(others, 5.0 * HOUR_US)
    assert len(added) == 5
    assert len(set((added.submit_us // DAY_US).tolist())) == 1


def test_a_larger_growth_has_what_a_smaller_one_has():
    others = log(weeks=8)
    small, large = (drawn(others, hours * HOUR_US) for hours in (40.0, 90.0))
    rows = [
        {(int(at), int(user)) for at, user in zip(table.submit_us, table.user, strict=True)}
        for table in (small, large)
    ]
    assert len(rows[0] - rows[1]) <= len(rows[0]) // 4


def test_the_only_week_of_a_log_is_turned_to_other_days():
    week = log(weeks=1)
    found = turned(week, stream(1, "test"))
    assert (found.submit_us % DAY_US == week.submit_us % DAY_US).all()
    assert (found.submit_us // DAY_US != week.submit_us // DAY_US).all()
    assert (found.submit_us < WEEK_US).all()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3 * WEEK_US), st.integers(1, 50 * HOUR_US), st.integers(1, 9), st.integers(-1, 3)
        ),
        min_size=1,
        max_size=40,
    ),
    st.floats(0, 3),
)
def test_jobs_that_are_added_are_jobs_of_the_log_within_a_week(rows, share):
    others = jobs(*rows)
    wanted = share * float(node_time(others).sum())
    added = drawn(others, wanted)
    assert float(node_time(added).sum()) <= wanted
    assert ((added.submit_us >= 0) & (added.submit_us < WEEK_US)).all()
    shapes = set(zip(others.run_us.tolist(), others.nodes.tolist(), others.user.tolist(), strict=True))
    assert set(zip(added.run_us.tolist(), added.nodes.tolist(), added.user.tolist(), strict=True)) <= shapes
    assert len(np.unique(added.number)) == len(added)
    # It ends only when some job does not fit any more, or little is missing.
    rest = wanted - float(node_time(added).sum())
    assert rest <= max(NEAR * wanted, float(node_time(others).max()))
