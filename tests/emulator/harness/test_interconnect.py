"""Nodes that go together: equal to the slow reference job by job and node by node, laws, and each by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from emulator.harness.interconnect import interconnect_of
from emulator.harness.laws import assert_lawful
from emulator.harness.loop import Loop
from emulator.harness.record import RunOutcome
from emulator.harness.run import make_cluster
from emulator.scenario_parts import PlacementPart
from emulator.schedulers.config import SchedulerConfig
from gates import GATE
from oracle.interconnect import WiredMachine, Wiring
from oracle.reference import BACKFILLS, CHOICES, Options
from oracle.workloads import job_table, random_workload

if TYPE_CHECKING:
    from emulator.harness.record import RunRecord
    from emulator.workload.table import JobTable

_POLICIES = ("basic", "contiguous", "best_effort_contiguous", "local", "best_effort_local")
_REQUIRED = ("contiguous", "local")


def run_on(
    jobs: JobTable, nodes: int, part: PlacementPart, scheduler: SchedulerConfig, *, kills: bool = False
) -> RunRecord:
    cluster = make_cluster(nodes, scheduler, jobs, interconnect=interconnect_of(part, nodes, kills=kills))
    loop = Loop(cluster)
    loop.run()
    record = loop.record()
    return replace(record, scenario={"placement": part.model_dump(mode="json")})


def schedule_of(record: RunRecord) -> dict[int, tuple[int, int]]:
    numbers = record.jobs.number.tolist()
    return dict(zip(numbers, zip(record.start_us.tolist(), record.end_us.tolist(), strict=True), strict=True))


def nodes_of(record: RunRecord) -> dict[int, set[int]]:
    """The nodes of each job's one run, by its number."""
    runs = record.runs
    return {
        int(record.jobs.number[job]): set(runs.node[runs.first[row] : runs.first[row + 1]].tolist())
        for row, job in enumerate(runs.job.tolist())
    }


def random_part(rng: np.random.Generator, policy: str, nodes: int) -> PlacementPart:
    """A topology that the policy goes with; a torus where the nodes have a divisor."""
    kinds = ["tree", "dragonfly"] if policy.endswith("local") else ["line", "tree", "torus"]
    kind = str(rng.choice(kinds))
    keys: dict[str, Any] = {}
    if kind == "tree":
        keys["switch_nodes"] = int(rng.integers(1, nodes + 2))
    elif kind == "dragonfly":
        keys["group_nodes"] = int(rng.integers(1, nodes + 2))
    elif kind == "torus":
        side = int(rng.choice([each for each in range(1, nodes + 1) if nodes % each == 0]))
        keys["dimensions"] = (side, nodes // side)
    penalty = float(rng.choice([0, 0.1, 1.5]))
    return PlacementPart(policy=policy, topology=kind, spread_penalty=penalty, **keys)  # type: ignore[arg-type]


def compare(rng: np.random.Generator, policy: str, backfill: str) -> None:
    estimates = str(rng.choice(("exact", "longer", "mixed", "shorter")))
    jobs, nodes = random_workload(rng, jobs=30, estimates=estimates)
    part = random_part(rng, policy, nodes)
    kills = bool(rng.random() < 0.5) and estimates != "shorter"
    order = str(rng.choice(("fcfs", "sjf", "wfp3")))
    options: dict[str, Any] = {"cycle_s": float(rng.choice([0, 0, 0, 7]))}
    if policy not in _REQUIRED and backfill == "easy" and not options["cycle_s"]:
        options |= {"choice": str(rng.choice(CHOICES)), "pass_": str(rng.choice(["instant", "event"]))}
    config = SchedulerConfig(order=order, backfill=backfill, **options)  # type: ignore[arg-type]
    record = run_on(job_table(jobs), nodes, part, config, kills=kills)
    order_of = tuple(interconnect_of(part, nodes).order.tolist())
    unit = part.switch_nodes or part.group_nodes or 0
    wiring = Wiring(policy, order_of, unit, part.spread_penalty, kills)
    oracle = WiredMachine(jobs, order, backfill, Options(**options), wiring)
    assert schedule_of(record) == oracle.run()
    assert nodes_of(record) == {
        number: {order_of[place] for place in places} for number, places in oracle.on.items()
    }
    killed = record.runs.job[record.runs.outcome == RunOutcome.KILLED]
    assert set(record.jobs.number[killed].tolist()) == oracle.killed
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.sample(4)
@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_start_when_and_on_the_nodes_that_the_reference_says(policy: str, backfill: str) -> None:
    rng = np.random.default_rng([51, *f"{policy}+{backfill}".encode()])
    for _ in range(15):
        compare(rng, policy, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_thousands_of_workloads_get_the_nodes_of_the_reference(policy: str, backfill: str) -> None:
    rng = np.random.default_rng([52, *f"{policy}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        compare(rng, policy, backfill)
