"""The compiled kernel starts every job when the plain reference does, and every run keeps the laws."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest

from emulator.kernel import tables
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from gates import GATE
from oracle.head_protection import assert_easy_protects_head
from oracle.records import schedule_of
from oracle.reference import CHOICES, ORDERS, Job, Options, reference_schedule
from oracle.workloads import QUEUES, USERS, job_table, random_workload, smallest_part

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

Order: TypeAlias = str | dict[str, Any]

SCHEDULERS = [
    (order, backfill, choice)
    for order in ORDERS
    for backfill, choice in (
        ("none", "first_fit"),
        *(("easy", choice) for choice in CHOICES),
        ("conservative", "first_fit"),
    )
]


def random_options(rng: np.random.Generator, choice: str, backfill: str) -> Options:
    """Every option at its default half of the time."""

    def one_of(default: object, other: object) -> object:
        return default if rng.random() < 0.5 else other

    cycle_s = float(one_of(0, float(rng.integers(1, 8))))  # type: ignore[arg-type]
    return Options(
        choice=choice,
        estimates=one_of("user", "actual_for_queued"),  # type: ignore[arg-type]
        pass_=(pass_ := "instant" if cycle_s else one_of("instant", "event")),  # type: ignore[arg-type]
        cycle_s=cycle_s,
        reservation=(kept := one_of("refreshed", "kept")),  # type: ignore[arg-type]
        end_at_shadow=bool(one_of(True, False)),
        exact_ends_first=(exact := pass_ == "event" and bool(one_of(False, True))),
        submit_pass=one_of("always", "if_it_fits") if pass_ == "event" else "always",  # type: ignore[arg-type]
        submits_first=pass_ == "event" and bool(one_of(False, True)),
        ends_in_order_of=one_of(  # type: ignore[arg-type]
            "submit", "start" if exact or kept != "kept" or rng.random() < 0.5 else "expected_end"
        )
        if pass_ == "event"
        else "submit",
        head_waits=kept == "kept" and pass_ == "instant" and not cycle_s and bool(one_of(False, True)),
        spare_nodes=bool(one_of(True, False)),
        protect_head=bool(one_of(True, False)),
        priorities={queue: int(rng.integers(-2, 3)) for queue in range(QUEUES) if rng.random() < 0.7},
        commit=(commit := backfill != "conservative" and bool(one_of(False, True))),
        start_delay_s=float(one_of(0, rng.choice((0.3, 1.0, 2.5))))  # type: ignore[arg-type]
        if pass_ == "instant"
        and not (cycle_s or commit)
        and kept == "refreshed"
        and backfill != "conservative"
        else 0,
    )


def with_parameters(rng: np.random.Generator, order: str) -> Order:
    """The order with its parameters at random; ages and half-lives are as long as a few runs."""
    match order:
        case "wfp3":
            return {"wfp3": {"exponent": float(rng.choice((0.5, 1.0, 3.0)))}}
        case "multifactor":
            return {"multifactor": random_multifactor(rng)}
    return order


def random_multifactor(rng: np.random.Generator) -> dict[str, Any]:
    weights = ("age_weight", "size_weight", "fair_share_weight", "queue_weight")
    return {
        **{weight: float(rng.choice((0, 1, 100, 1000))) for weight in weights},
        "max_age_s": float(rng.choice((5, 50, 500))),
        "half_life_s": (3, 30.0, 300)[rng.integers(3)],
        "favor_small": bool(rng.integers(2)),
        "damping": float(rng.choice((0.5, 1, 3))),
        "account": str(rng.choice(("user", "group"))),
        "shares": {user: float(rng.integers(1, 5)) for user in range(USERS) if rng.random() < 0.5},
        "queues": {queue: float(rng.integers(0, 4)) for queue in range(QUEUES) if rng.random() < 0.7},
    }


def kernel_run(jobs: list[Job], nodes: int, order: Order, backfill: str, options: Options) -> RunRecord:
    """Only the order `priority` takes priorities."""
    chosen = {field.name: getattr(options, field.name) for field in fields(options)}
    chosen |= {} if order == "priority" else {"priorities": {}}
    return simulate(job_table(jobs), nodes, SchedulerConfig(order=order, backfill=backfill, **chosen))  # type: ignore[arg-type]


def assert_equal_schedules(
    jobs: list[Job], nodes: int, order: Order, backfill: str, options: Options
) -> RunRecord:
    def both(part: list[Job]) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]]:
        expected = reference_schedule(part, nodes, order=order, backfill=backfill, options=options)
        return schedule_of(kernel_run(part, nodes, order, backfill, options)), expected

    def differ(part: list[Job]) -> bool:
        ours, expected = both(part)
        return ours != expected

    record = kernel_run(jobs, nodes, order, backfill, options)
    if schedule_of(record) != reference_schedule(
        jobs, nodes, order=order, backfill=backfill, options=options
    ):
        part = smallest_part(jobs, differ)
        ours, expected = both(part)
        pytest.fail(
            f"{order}+{backfill} on {nodes} nodes with {options}\n"
            + "\n".join(f"{job}: kernel {ours[job.number]}, reference {expected[job.number]}" for job in part)
        )
    assert_lawful(record, jobs_in=len(jobs))
    return record


def compare(order: str, backfill: str, choice: str, *, workloads: int, seed: int) -> None:
    # The name of the scheduler is part of the seed, so that no two of them see the same workloads.
    rng = np.random.default_rng([seed, *f"{order}+{backfill}+{choice}".encode()])
    for _ in range(workloads):
        jobs, nodes = random_workload(rng)
        chosen = with_parameters(rng, order)
        assert_equal_schedules(jobs, nodes, chosen, backfill, random_options(rng, choice, backfill))


@pytest.mark.sample(16)
@pytest.mark.parametrize(("order", "backfill", "choice"), SCHEDULERS)
def test_every_scheduler_starts_every_job_when_the_reference_does(
    order: str, backfill: str, choice: str
) -> None:
    compare(order, backfill, choice, workloads=20 if order == "multifactor" else 30, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "backfill", "choice"), SCHEDULERS)
def test_every_scheduler_starts_hundreds_of_workloads_like_the_reference(
    order: str, backfill: str, choice: str
) -> None:
    count = GATE.reference_workloads
    compare(order, backfill, choice, workloads=count // 3 if order == "multifactor" else count, seed=2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_jobs_that_run_past_their_estimates_are_expected_to_end_at_once(backfill: str) -> None:
    rng = np.random.default_rng([3, *backfill.encode()])
    for _ in range(100):
        jobs, nodes = random_workload(rng, estimates="shorter")
        order, choice = str(rng.choice(ORDERS)), str(rng.choice(CHOICES))
        chosen = with_parameters(rng, order)
        assert_equal_schedules(jobs, nodes, chosen, backfill, random_options(rng, choice, backfill))


@pytest.mark.sample(2)
@pytest.mark.parametrize("block", [2, 3, 5])
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_plan_of_many_small_blocks_makes_the_same_schedules(
    backfill: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So few jobs run here that they would all be in one block of the usual size."""
    monkeypatch.setattr(tables, "BLOCK", block)
    rng = np.random.default_rng([5, block, *backfill.encode()])
    for round_ in range(60):
        jobs, nodes = random_workload(rng, estimates="shorter" if round_ % 3 == 0 else None, nodes=60)
        order, choice = str(rng.choice(ORDERS)), str(rng.choice(CHOICES))
        chosen = with_parameters(rng, order)
        assert_equal_schedules(jobs, nodes, chosen, backfill, random_options(rng, choice, backfill))


@pytest.mark.parametrize("choice", CHOICES)
def test_easy_never_delays_the_head_beyond_its_reservation(choice: str) -> None:
    rng = np.random.default_rng([4, *choice.encode()])
    blocked = 0
    for round_ in range(100):
        jobs, nodes = random_workload(rng)
        kept = "kept" if round_ % 2 else "refreshed"
        options = Options(choice=choice, reservation=kept, spare_nodes=round_ % 4 < 2)
        schedule = schedule_of(kernel_run(jobs, nodes, "fcfs", "easy", options))
        blocked += assert_easy_protects_head(jobs, nodes, schedule)
    assert blocked > 500


def test_a_head_that_nothing_protects_is_found_out() -> None:
    """The checker of the test above notices when the promise is broken."""
    jobs = [
        Job(number=1, submit_us=0, run_us=10, estimate_us=10, nodes=1),
        Job(number=2, submit_us=1, run_us=10, estimate_us=10, nodes=2),
        Job(number=3, submit_us=2, run_us=20, estimate_us=20, nodes=1),
    ]
    protected = schedule_of(kernel_run(jobs, 2, "fcfs", "easy", Options()))
    assert protected == {1: (0, 10), 2: (10, 20), 3: (20, 40)}
    assert assert_easy_protects_head(jobs, 2, protected) == 2
    unprotected = schedule_of(kernel_run(jobs, 2, "fcfs", "easy", Options(protect_head=False)))
    assert unprotected == {1: (0, 10), 2: (22, 32), 3: (2, 22)}
    with pytest.raises(AssertionError, match="job 2 was the head from 1 us, reserved for 10 us"):
        assert_easy_protects_head(jobs, 2, unprotected)
