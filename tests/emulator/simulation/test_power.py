"""Sleeping nodes and energy: equal to the slow reference job by job and second by second, and by hand."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest

from balancer.clock import US
from emulator.events.external_events import ExternalEvents
from emulator.events.node_failures import Outage
from emulator.events.node_outages import NodeOutages
from emulator.events.power import SleepingNodes, SleepTimes
from emulator.metrics.energy import Energy, energy_of
from emulator.metrics.summary import summarize
from emulator.report import files
from emulator.runs.preparation import prepare
from emulator.runs.runner import describe, run_virtual
from emulator.runs.scenario import EnergyPart
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import make_cluster
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from oracle.power import Power, SleepyMachine, energy_j
from oracle.reference import BACKFILLS, Options
from oracle.workloads import job_table, random_workload
from scenario_kit import a_day, assert_refused

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord

_ORDERS = ("fcfs", "sjf", "wfp3")


def keys_of(power: Power) -> dict[str, float | None]:
    return {
        "busy_w": power.busy, "idle_w": power.idle, "sleep_w": power.sleep, "boot_w": power.boot,
        "shutdown_w": power.shutdown, "sleep_after_s": power.sleep_after, "shutdown_s": power.shutdown_s,
        "boot_s": power.boot_s,
    }  # fmt: skip


def run_with(
    jobs: JobTable, nodes: int, scheduler: SchedulerConfig, power: Power, outages: NodeOutages | None = None
) -> tuple[RunRecord, Energy]:
    energy = EnergyPart(**keys_of(power)).model_dump()  # type: ignore[arg-type]
    sleeping = SleepingNodes(SleepTimes.of(energy)) if power.sleep_after is not None else None
    loop = Loop(make_cluster(nodes, scheduler, jobs), external_events=ExternalEvents(None, outages, sleeping))
    loop.run()
    record = loop.record()
    record.scenario["energy"] = energy
    found = energy_of(record)
    assert found is not None
    return record, found


def compare(rng: np.random.Generator, order: str, backfill: str) -> None:
    jobs, nodes = random_workload(rng, jobs=20, nodes=8)
    watts = rng.permutation([300, 100, 10, 200, 50]).tolist()
    power = Power(
        *watts,
        sleep_after=None if rng.random() < 0.2 else int(rng.integers(0, 15)),
        shutdown_s=int(rng.integers(0, 6)),
        boot_s=int(rng.integers(0, 12)),
    )
    config = SchedulerConfig(order=order, backfill=backfill)  # type: ignore[arg-type]
    record, energy = run_with(job_table(jobs), nodes, config, power)
    assert_lawful(record, jobs_in=len(jobs))
    first = record.runs.first.tolist()
    given = {
        int(record.jobs.number[job]): frozenset(record.runs.node[first[row] : first[row + 1]].tolist())
        for row, job in enumerate(record.runs.job.tolist())
    }
    expected = SleepyMachine(jobs, nodes, order, backfill, Options(), power, given).run()
    found = {
        number: (start, end)
        for number, start, end in zip(
            record.jobs.number.tolist(), record.start_us.tolist(), record.end_us.tolist(), strict=True
        )
    }
    assert found == expected
    total_j, of_job_j = energy_j(expected, given, nodes, power)
    assert energy.total_j == pytest.approx(total_j, rel=1e-12)
    assert dict(zip(record.jobs.number.tolist(), energy.job_j.tolist(), strict=True)) == pytest.approx(
        of_job_j, rel=1e-12
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_wait_for_sleeping_nodes_and_cost_what_the_reference_says(order: str, backfill: str) -> None:
    rng = np.random.default_rng([29, *f"{order}+{backfill}".encode()])
    for _ in range(15):
        compare(rng, order, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_many_workloads_on_sleeping_nodes_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([30, *f"{order}+{backfill}".encode()])
    for _ in range(60):
        compare(rng, order, backfill)


# By hand: 300 W busy, 100 idle, 10 asleep, 200 booting, 50 shutting down; after 20 s idle 5 s down, 10 s up.

POWER = Power(busy=300, idle=100, sleep=10, boot=200, shutdown=50, sleep_after=20, shutdown_s=5, boot_s=10)


def by_hand(
    submits_s: list[int],
    failures: list[tuple[int, int, int]] = (),
    *,
    power: Power = POWER,
    nodes: int = 1,  # type: ignore[assignment]
) -> tuple[list[tuple[float, float]], Energy]:
    """Start and end in seconds of each run of jobs of ten seconds on one node; what all consumed."""
    jobs = JobTable.build(
        submit_us=[at_s * US for at_s in submits_s],
        run_us=[10 * US] * len(submits_s),
        nodes=[1] * len(submits_s),
    )
    told = iter([Outage(begin * US, end * US, node) for begin, end, node in failures])
    record, energy = run_with(jobs, nodes, SchedulerConfig(), power, NodeOutages(nodes, told))
    assert_lawful(record)
    return [
        (start / US, end / US) for start, end in zip(record.runs.start_us, record.runs.end_us, strict=True)
    ], energy


def test_a_job_on_a_node_that_is_awake_starts_to_compute_at_once() -> None:
    runs, energy = by_hand([15])
    assert (runs, energy.total_j, energy.boots) == ([(15, 25)], 15 * 100 + 10 * 300, 0)


def test_a_job_waits_until_the_node_it_woke_has_booted() -> None:
    runs, energy = by_hand([40])
    assert runs == [(40, 60)]
    assert (energy.idle_j, energy.shutdown_j, energy.sleep_j, energy.boot_j, energy.busy_j, energy.boots) == (
        20 * 100, 5 * 50, 15 * 10, 10 * 200, 10 * 300, 1,
    )  # fmt: skip
    assert energy.job_j.tolist() == [10 * 200 + 10 * 300]


def test_a_node_that_is_shutting_down_does_so_to_the_end_before_it_boots() -> None:
    runs, energy = by_hand([22])
    assert (runs, energy.shutdown_j, energy.boot_j) == ([(22, 45)], 5 * 50, 10 * 200)


def test_a_node_that_fails_while_it_boots_consumes_nothing_and_is_awake_when_it_is_back() -> None:
    runs, energy = by_hand([40], [(44, 50, 0)])
    assert runs == [(40, 44), (50, 60)]
    assert (energy.boot_j, energy.down_j, energy.busy_j) == (4 * 200, 0, 10 * 300)


def test_without_switching_off_nodes_are_busy_or_idle() -> None:
    runs, energy = by_hand([40], power=POWER._replace(sleep_after=None), nodes=2)
    assert (runs, energy.total_j) == ([(40, 50)], 90 * 100 + 10 * 300)


# Scenarios and results.


def test_energy_is_in_the_summary_and_in_jobs_csv(tmp_path: Path) -> None:
    powers = {"busy_w": 300, "idle_w": 100, "sleep_after_s": 600, "boot_s": 120}
    sleepy = a_day(energy=powers)
    record = run_virtual(sleepy, prepare(sleepy))
    summary = files.write(record, tmp_path / "run", bounded_slowdown_threshold_s=10, report=False)
    found = summary["energy"]
    assert found["boots"] > 0
    parts = [found[f"{name}_kwh"] for name in ("busy", "idle", "shutdown", "sleep", "boot", "down")]
    assert found["total_kwh"] == pytest.approx(sum(parts))
    with (tmp_path / "run" / "jobs.csv").open() as stream:
        of_jobs = [float(row["consumed_energy"]) for row in csv.DictReader(stream)]
    # What nodes of a job wait for the slowest of them is idle, and the job's.
    assert 3.6e6 * (found["busy_kwh"] + found["boot_kwh"]) <= sum(of_jobs) * (1 + 1e-12)
    assert sum(of_jobs) < 3.6e6 * found["total_kwh"]
    assert min(of_jobs) > 0
    assert len(of_jobs) == 40


def test_a_scenario_that_says_nothing_of_energy_has_none() -> None:
    plain = a_day()
    record = run_virtual(plain, prepare(plain))
    assert "energy" not in summarize(record)
    assert "energy" not in plain.as_json()
    assert describe(record, plain, prepare(plain)).scenario == plain.as_json()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"mechanism": "balancer"},
            "energy: nodes that are switched off go with plain schedulers; the mechanism balancer",
        ),
        (
            {"scheduler": "slurm"},
            "energy: nodes that are switched off go with plain schedulers on whole nodes",
        ),
        ({"scheduler": "fcfs+conservative", "mechanism": "malleable"}, "energy: it counts whole nodes"),
    ],
)
def test_who_gives_away_nodes_otherwise_has_no_sleeping_nodes(keys: dict[str, object], message: str) -> None:
    assert_refused(a_day(energy={"busy_w": 300, "idle_w": 100, "sleep_after_s": 600}, **keys), message)
