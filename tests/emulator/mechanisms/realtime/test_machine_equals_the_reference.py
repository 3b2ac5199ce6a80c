"""The compiled machine runs every segment when and where the plain reference does, and nothing gets lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from emulator.cluster.topology import BlueGeneQ, Flat, Layout
from emulator.machine.checkpoint_io import GB, CheckpointIO
from emulator.mechanisms.realtime import tables as t
from emulator.mechanisms.realtime.machine import SCHEMES, RealtimeMachine
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable
from gates import GATE
from oracle.realtime import Job, Rules, Segment, Site, reference_segments

US = 1_000_000
SMALL_TORUS = BlueGeneQ(
    torus=(1, 3, 2, 2),
    shapes=((1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 2, 2), (1, 3, 1, 2), (1, 2, 2, 2), (1, 3, 2, 2)),
)


def random_layout(rng: np.random.Generator) -> Layout:
    kind = rng.integers(3)
    if kind == 0:
        return Flat().layout(int(rng.integers(1, 13)))
    if kind == 1:
        return Flat(unit_nodes=8).layout(8 * int(rng.integers(1, 10)))
    return SMALL_TORUS.layout(12 * 512)


def random_jobs(rng: np.random.Generator, layout: Layout, *, estimates: str = "longer") -> list[Job]:
    count = int(rng.integers(1, 26))
    longest_s = int(rng.choice((8, 60, 400)))
    gap_s = np.where(rng.random(count) < 0.4, 0, rng.integers(0, longest_s // 2 + 1, count))
    submit_s = np.cumsum(gap_s)
    sizes = layout.sizes if layout.partitions else np.arange(1, layout.units + 1)
    wide = rng.random() < 0.5
    places = rng.integers(0, len(sizes) if wide else max(1, len(sizes) // 2), count)
    share = float(rng.choice((0.1, 0.3, 0.6)))
    numbers = rng.permutation(count) + 1
    interval_s = int(rng.choice((3, 20, 90)))
    jobs = []
    for k in range(count):
        run_us = int(rng.integers(1, longest_s + 1)) * US + int(rng.integers(0, 2)) * int(rng.integers(0, US))
        estimate_us = run_us + int(rng.integers(0, longest_s)) * US
        if estimates == "shorter" and rng.random() < 0.5:
            estimate_us = max(1, run_us // 3)
        interval_us = int(rng.choice((interval_s * US, max(1, run_us // 2), run_us)))
        jobs.append(
            Job(
                int(numbers[k]), int(submit_s[k]) * US, run_us, estimate_us, int(sizes[places[k]]),
                bool(rng.random() < share), interval_us,
            )
        )  # fmt: skip
    return jobs


def random_site(rng: np.random.Generator, layout: Layout) -> Site:
    return Site(
        units=layout.units,
        partitions=tuple(frozenset(each) for each in layout.partitions),
        unit_nodes=layout.unit_nodes,
        data=int(rng.choice((0, 1, 4, 16))) * GB,
        write_cap=int(rng.choice((216, 5, layout.node_count))) * GB,
        read_cap=int(rng.choice((216, 7, layout.node_count))) * GB,
        shared=bool(rng.random() < 0.8),
    )


def compiled_machine(jobs: list[Job], layout: Layout, site: Site, rules: Rules) -> RealtimeMachine:
    jobs = sorted(jobs, key=lambda job: (job.submit_us, job.number))
    has_interval = rules.scheme in ("pre_ckpt_sys", "pre_ckpt_app")
    return RealtimeMachine(
        layout,
        SchedulerConfig(backfill=rules.backfill, choice=rules.choice),  # type: ignore[arg-type]
        JobTable.build(
            number=[job.number for job in jobs],
            submit_us=[job.submit_us for job in jobs],
            run_us=[job.run_us for job in jobs],
            estimate_us=[job.estimate_us for job in jobs],
            nodes=[job.units * layout.unit_nodes for job in jobs],
        ),
        scheme=rules.scheme,
        realtime=np.array([job.realtime for job in jobs]),
        interval_us=np.array([job.interval_us if has_interval else 0 for job in jobs]),
        io=CheckpointIO(
            data_gb=site.data / GB,
            write_cap_gb_s=site.write_cap / GB,
            read_cap_gb_s=site.read_cap / GB,
            shared=site.shared,
        ),
        to_the_back=rules.resubmit == "back",
        hpq_blocks=rules.hpq_blocks,
    )


def segments_of(machine: RealtimeMachine) -> dict[int, list[Segment]]:
    first, unit = machine.units_of_segments()
    found: dict[int, list[Segment]] = {int(number): [] for number in machine.job_table().number}
    for k, row in enumerate(machine.segments):
        units = tuple(sorted(int(each) for each in unit[first[k] : first[k + 1]]))
        columns = ("work_us", "lost_us", "writes_us", "redo_us")
        number = int(machine.job_table().number[row.job])
        found[number].append(
            Segment(int(row.start_us), int(row.end_us), units, *(int(row[column]) for column in columns))
        )
    return found


def without_intervals(jobs: list[Job], scheme: str) -> list[Job]:
    if scheme in ("pre_ckpt_sys", "pre_ckpt_app"):
        return jobs
    return [job._replace(interval_us=0) for job in jobs]


def random_rules(rng: np.random.Generator, scheme: str) -> Rules:
    return Rules(
        scheme,
        str(rng.choice(("easy", "easy", "none"))),
        str(rng.choice(("first_fit", "best_fit", "shortest_first", "first_submitted"))),
        str(rng.choice(("back", "place"))),
        bool(rng.random() < 0.5),
    )


def assert_conserved(machine: RealtimeMachine) -> None:
    """Work done = work owed + work redone, and all time on the units is work, checkpoints or rework."""
    rows, jobs = machine.segments, machine.job_table()
    length = rows["end_us"] - rows["start_us"]
    assert (length == rows["work_us"] - rows["lost_us"] + rows["writes_us"] + rows["redo_us"]).all()
    kept = np.zeros(len(jobs), np.int64)
    np.add.at(kept, rows["job"], rows["work_us"] - rows["lost_us"])
    assert (kept == jobs.run_us).all()


def assert_never_shared(machine: RealtimeMachine) -> None:
    """No unit has two jobs at a time; so no two partitions in use overlap."""
    first, unit = machine.units_of_segments()
    rows = machine.segments
    stays = sorted(
        (int(each), int(rows["start_us"][k]), int(rows["end_us"][k]))
        for k in range(len(rows))
        for each in unit[first[k] : first[k + 1]]
    )
    for (one, _, end), (other, start, _) in pairwise(stays):
        assert one != other or start >= end


def compare(scheme: str, *, workloads: int, seed: int, estimates: str = "longer") -> None:
    rng = np.random.default_rng([seed, *scheme.encode()])
    for _ in range(workloads):
        layout = random_layout(rng)
        jobs = without_intervals(random_jobs(rng, layout, estimates=estimates), scheme)
        site, rules = random_site(rng, layout), random_rules(rng, scheme)
        machine = compiled_machine(jobs, layout, site, rules)
        machine.advance(t.NEVER)
        assert segments_of(machine) == reference_segments(jobs, site, rules), (layout, jobs, site, rules)
        assert_conserved(machine)
        assert_never_shared(machine)


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_runs_every_segment_as_the_reference_does(scheme: str) -> None:
    compare(scheme, workloads=150, seed=1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_jobs_that_run_past_their_estimates_change_nothing_about_that(scheme: str) -> None:
    compare(scheme, workloads=50, seed=2, estimates="shorter")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_hundreds_of_workloads_like_the_reference(scheme: str) -> None:
    compare(scheme, workloads=4 * GATE.reference_workloads, seed=3)
