"""Dependencies, arrays, cancellations and deadlines: equal to the slow reference job by job, and each by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from balancer.clock import US
from emulator.events.job_limits import Limit
from emulator.events.job_rules import JobRules
from emulator.schedulers.config import SchedulerConfig
from emulator.validation.laws import assert_lawful
from emulator.workload.relations import KIND_NAMES, ready_to_run
from emulator.workload.table import JobTable
from gates import GATE
from oracle import job_rules as oracle
from oracle.job_rules import RuledMachine
from oracle.reference import BACKFILLS, CHOICES, Options
from oracle.ruled_runs import random_rules, ruled_table, run_ruled, told
from oracle.workloads import random_workload

_ORDERS = ("fcfs", "sjf", "f1", "wfp3")


_BY = ("user", "group", "queue")


def random_limits(rng: np.random.Generator, nodes: int, most_us: int) -> tuple[oracle.Limit, ...]:
    """None to three limits of users, groups and queues, some for a few of them only."""
    return tuple(
        oracle.Limit(
            by=int(rng.integers(3)),
            jobs=int(rng.integers(1, 4)) if rng.random() < 0.7 else None,
            nodes=int(rng.integers(1, nodes + 1)) if rng.random() < 0.5 else None,
            only=(0, 2) if rng.random() < 0.3 else None,
            node_us=int(rng.integers(1, most_us + 1)) if rng.random() < 0.3 else None,
        )
        for _ in range(int(rng.choice((0, 1, 2, 3))))
    )


def compare(rng: np.random.Generator, order: str, backfill: str, choice: str) -> None:
    jobs, nodes = random_workload(rng, jobs=25)
    rules = random_rules(rng, jobs)
    whose = {job.number: tuple(rng.integers(-1, 3, 3).tolist()) for job in jobs}
    limits = random_limits(rng, nodes, 2 * max(job.nodes * job.estimate_us for job in jobs))
    table = ruled_table(jobs, rules)
    columns = np.array([whose[number] for number in table.number.tolist()], np.int32).T
    table = replace(table, user=columns[0], group=columns[1], queue=columns[2])
    earliest = dict(zip(table.number.tolist(), table.submit_us.tolist(), strict=True))
    options = Options(choice=choice)
    record = run_ruled(
        table,
        nodes,
        SchedulerConfig(order=order, backfill=backfill, choice=choice),  # type: ignore[arg-type]
        [
            Limit(
                _BY[each.by],
                each.jobs,
                each.nodes,
                None if each.only is None else frozenset(each.only),
                each.node_us,
            )
            for each in limits
        ],
    )
    moved = [job._replace(submit_us=earliest[job.number]) for job in jobs]
    expected = RuledMachine(moved, nodes, order, backfill, options, rules, limits, whose).run()
    found = told(record)
    wrong = {n: (found[n], expected[n], rules[n]) for n in found if found[n] != expected[n]}
    assert not wrong, (
        f"{order}+{backfill}+{choice} on {nodes} nodes, {limits}: kernel, reference, rule: {wrong}"
    )
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_with_rules_start_and_end_when_the_reference_says(order: str, backfill: str) -> None:
    rng = np.random.default_rng([25, *f"{order}+{backfill}".encode()])
    for _ in range(25):
        choice = str(rng.choice(CHOICES)) if backfill == "easy" else "first_fit"
        compare(rng, order, backfill, choice)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_with_rules_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([26, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        choice = str(rng.choice(CHOICES)) if backfill == "easy" else "first_fit"
        compare(rng, order, backfill, choice)


# By hand: two nodes, jobs of ten seconds on both of them unless it says otherwise, times in seconds.


def by_hand(
    submits_s: list[int], *, nodes: int = 2, run_s: int = 10, **extra: list[int]
) -> dict[int, object]:
    """When each job started and ended, in seconds; `cancelled` behind those that were."""
    jobs = JobTable.build(
        submit_us=[at_s * US for at_s in submits_s],
        run_us=[run_s * US] * len(submits_s),
        nodes=[nodes] * len(submits_s),
        extra=extra,
    )
    record = run_ruled(ready_to_run(jobs), 2, SchedulerConfig())
    assert_lawful(record)
    return {
        number: tuple(None if at_us is None else at_us // US for at_us in times)
        + (("cancelled",) if gone else ())
        for number, (*times, gone) in sorted(told(record).items())
    }


def test_a_job_starts_after_the_end_of_the_one_it_waits_for_and_lets_others_pass() -> None:
    schedule = by_hand(
        [0, 1, 2],
        after_number=[-1, 1, -1],
        after_kind=[-1, KIND_NAMES["afterany"], -1],
        after_delay_us=[-1, 7 * US, -1],
    )
    assert schedule == {1: (0, 10), 2: (20, 30), 3: (10, 20)}


def test_a_job_that_thinks_is_submitted_after_the_end_and_not_when_the_log_says() -> None:
    jobs = JobTable.build(
        submit_us=[0, 500 * US],
        run_us=[10 * US, 10 * US],
        nodes=[1, 1],
        extra={
            "after_number": [-1, 1],
            "after_kind": [-1, KIND_NAMES["think"]],
            "after_delay_us": [-1, 5 * US],
        },
    )
    record = run_ruled(ready_to_run(jobs), 2, SchedulerConfig())
    assert told(record) == {1: (0, 10 * US, False), 2: (15 * US, 25 * US, False)}
    assert record.jobs.submit_us.tolist() == [0, 15 * US]


def test_what_waits_for_the_success_of_a_cancelled_job_is_cancelled_with_it() -> None:
    ok, not_ok = KIND_NAMES["afterok"], KIND_NAMES["afternotok"]
    schedule = by_hand(
        [0, 0, 0, 0],
        after_number=[-1, 1, 2, 2],
        after_kind=[-1, ok, ok, not_ok],
        cancel_after_us=[4 * US, -1, -1, -1],
    )
    assert schedule == {
        1: (0, 4, "cancelled"),
        2: (None, 4, "cancelled"),
        3: (None, 4, "cancelled"),
        4: (4, 14),
    }


def test_no_more_tasks_of_an_array_run_than_its_limit_allows() -> None:
    schedule = by_hand([0, 0, 0, 0], nodes=1, array=[1, 1, 1, -1], array_limit=[1, 1, 1, -1])
    assert schedule == {1: (0, 10), 2: (10, 20), 3: (20, 30), 4: (0, 10)}


def limited(users: list[int], nodes: list[int], *limits: Limit) -> dict[int, tuple[float | None, bool]]:
    """Of jobs of 10 s, all submitted at 0 to four nodes: when each started (s), and whether it was cancelled."""
    count = len(users)
    jobs = JobTable.build(submit_us=[0] * count, run_us=[10 * US] * count, nodes=nodes, user=users, queue=1)
    record = run_ruled(jobs, 4, SchedulerConfig(), limits)
    assert_lawful(record)
    return {
        number: (None if start_us is None else start_us / US, gone)
        for number, (start_us, _, gone) in sorted(told(record).items())
    }


def test_no_more_jobs_of_a_user_run_than_the_limit_allows_and_others_are_not_held() -> None:
    assert limited([7, 7, 7, 8, -1], [1] * 5, Limit("user", jobs=1)) == {
        1: (0, False), 2: (10, False), 3: (20, False), 4: (0, False), 5: (0, False),
    }  # fmt: skip


def test_a_job_that_has_no_room_lets_a_narrower_one_of_its_user_go_first() -> None:
    assert limited([7, 7, 7], [2, 2, 1], Limit("user", nodes=3)) == {
        1: (0, False),
        2: (10, False),
        3: (0, False),
    }


def test_no_more_node_time_of_a_user_is_asked_for_at_once_than_the_limit_allows() -> None:
    assert limited([7, 7, 7, 8], [1, 2, 1, 1], Limit("user", node_us=20 * US)) == {
        1: (0, False), 2: (10, False), 3: (0, False), 4: (0, False),
    }  # fmt: skip
    assert limited([7, 7], [3, 1], Limit("user", node_us=20 * US)) == {1: (None, True), 2: (0, False)}


def test_a_job_keeps_to_all_its_limits_and_one_that_never_can_is_cancelled() -> None:
    limits = Limit("user", nodes=2, only=frozenset({7})), Limit("queue", jobs=2)
    assert limited([7, 7, 8, 8], [3, 2, 2, 2], *limits) == {
        1: (None, True), 2: (0, False), 3: (0, False), 4: (10, False),
    }  # fmt: skip


def test_a_job_is_cancelled_while_it_waits_and_when_it_cannot_meet_its_deadline() -> None:
    schedule = by_hand(
        [0, 0, 0, 0], cancel_after_us=[-1, 3 * US, -1, -1], deadline_after_us=[-1, -1, 19 * US, 20 * US]
    )
    assert schedule == {
        1: (0, 10),
        2: (None, 3, "cancelled"),
        3: (None, pytest.approx(9), "cancelled"),
        4: (10, 20),
    }


def test_a_job_released_by_a_start_joins_a_pass_at_that_very_time() -> None:
    schedule = by_hand([0, 0], nodes=1, after_number=[-1, 1], after_kind=[-1, KIND_NAMES["after"]])
    assert schedule == {1: (0, 10), 2: (0, 10)}


def test_jobs_that_wait_for_each_other_are_named() -> None:
    jobs = JobTable.build(
        submit_us=[0, 0, 0], run_us=[US] * 3, nodes=[1] * 3, extra={"after_number": [2, 1, -1]}
    )
    with pytest.raises(ValueError, match=r"jobs wait for each other, so none of them can start: 1, 2$"):
        ready_to_run(jobs)


def test_an_array_has_one_limit() -> None:
    jobs = JobTable.build(
        submit_us=[0, 0], run_us=[US] * 2, nodes=[1] * 2, extra={"array": [4, 4], "array_limit": [1, 2]}
    )
    with pytest.raises(ValueError, match="array 4 has limits of 1 and 2 running jobs; give it one"):
        JobRules(jobs)


def test_numbers_of_dependencies_move_with_the_jobs_when_tables_are_merged() -> None:
    chain = JobTable.build(submit_us=[0, 1], run_us=[1, 1], nodes=[1, 1], extra={"after_number": [-1, 1]})
    merged = chain.merge(chain)
    assert dict(zip(merged.number.tolist(), merged.column("after_number").tolist(), strict=True)) == {
        1: -1, 2: 1, 3: -1, 4: 3,
    }  # fmt: skip
