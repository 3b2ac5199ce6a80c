"""Other workloads of the same jobs: counts and node-time stay what they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.workload.formats import load
from emulator.workload.reshape import Inject, MultiplyLeases, Narrow, Sample, Widen
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind
from emulator.workload.transforms import Limit, RandomTransform, Transform, apply_transforms, parse_transforms
from testdata import TRACES

US = 1_000_000
WEEK_US = 604_800 * US
NODES = 64
TABLES = st.lists(
    st.tuples(st.integers(0, 3 * 604_800), st.integers(1, 50_000), st.integers(1, NODES // 2), st.booleans()),
    max_size=40,
).map(lambda rows: table(*rows))


def table(*rows):
    submit, run, nodes, lease = zip(*rows, strict=True) if rows else ((), (), (), ())
    return JobTable.build(
        submit_us=[time * US for time in submit],
        run_us=[time * US for time in run],
        estimate_us=[2 * time * US for time in run],
        nodes=list(nodes),
        kind=[Kind.ON_DEMAND if one else Kind.BATCH for one in lease],
    )


def batch(jobs):
    return jobs.take(jobs.kind == Kind.BATCH)


def leases(jobs):
    chosen = jobs.take(jobs.kind == Kind.ON_DEMAND)
    return list(zip(chosen.submit_us.tolist(), chosen.run_us.tolist(), chosen.nodes.tolist(), strict=True))


def node_time(jobs):
    return batch(jobs).run_us * batch(jobs).nodes


def in_order(jobs):
    return (np.lexsort((jobs.number, jobs.submit_us)) == np.arange(len(jobs))).all() and len(
        np.unique(jobs.number)
    ) == len(jobs)


def rng(seed=1):
    return stream(seed, "test")


@given(TABLES, st.integers(0, 5))
def test_widening_halves_the_jobs_and_keeps_the_node_time_within_the_largest_job(jobs, seed):
    wide = Widen().apply_random(jobs, nodes=NODES, rng=rng(seed))
    assert len(batch(wide)) == -(-len(batch(jobs)) // 2)
    before = node_time(jobs)
    assert abs(int(node_time(wide).sum()) - int(before.sum())) <= before.max(initial=0)
    assert set(batch(wide).number.tolist()) <= set(batch(jobs).number.tolist())
    assert leases(wide) == leases(jobs)
    assert in_order(wide)


def test_a_widened_job_is_no_wider_than_the_cluster():
    wide = Widen().apply_random(table((0, 10, 40, False), (0, 10, 40, False)), nodes=NODES, rng=rng())
    assert wide.nodes.tolist() == [NODES]
    too_wide = Widen().apply_random(table((0, 10, 100, False)), nodes=NODES, rng=rng())
    assert too_wide.nodes.tolist() == [100]  # left to the input rule, which counts it


@given(TABLES)
def test_narrowing_keeps_the_node_time_and_splits_all_jobs_but_those_of_one_node(jobs):
    narrow = Narrow().apply(jobs, nodes=NODES)
    assert int(node_time(narrow).sum()) == int(node_time(jobs).sum())
    assert len(batch(narrow)) == len(batch(jobs)) + int((batch(jobs).nodes > 1).sum())
    assert leases(narrow) == leases(jobs)
    assert in_order(narrow)


def test_a_job_of_five_nodes_becomes_one_of_three_and_one_of_two():
    narrow = Narrow().apply(table((7, 10, 5, False), (8, 10, 1, False)), nodes=NODES)
    rows = zip(narrow.number.tolist(), (narrow.submit_us // US).tolist(), narrow.nodes.tolist(), strict=True)
    assert list(rows) == [(1, 7, 3), (3, 7, 2), (2, 8, 1)]


@given(TABLES, st.floats(0.01, 1), st.integers(0, 5))
def test_a_sample_has_its_share_of_the_jobs_at_their_offsets_in_the_week(jobs, share, seed):
    sample = Sample(share).apply_random(jobs, nodes=NODES, rng=rng(seed))
    assert len(batch(sample)) == round(share * len(batch(jobs)))
    assert (batch(sample).submit_us < WEEK_US).all()
    by_number = dict(zip(jobs.number.tolist(), jobs.submit_us.tolist(), strict=True))
    assert [by_number[number] % WEEK_US for number in batch(sample).number.tolist()] == batch(
        sample
    ).submit_us.tolist()
    assert leases(sample) == leases(jobs)
    assert in_order(sample)


@given(TABLES, st.integers(0, 5))
def test_injecting_reaches_the_load_within_the_largest_job_and_changes_no_job(jobs, seed):
    room = NODES * WEEK_US
    before = node_time(jobs)
    load = max(2 * float(before.sum()) / room, 1e-6)
    full = Inject(load).apply_random(jobs, nodes=NODES, rng=rng(seed))
    if len(batch(jobs)):
        missing = load * room - float(node_time(full).sum())
        assert -1 <= missing <= before.max() + 1
        kept = full.take(np.isin(full.number, jobs.number))
        assert kept.submit_us.tolist() == jobs.submit_us.tolist()
        shapes = set(zip(batch(jobs).nodes.tolist(), batch(jobs).run_us.tolist(), strict=True))
        assert set(zip(batch(full).nodes.tolist(), batch(full).run_us.tolist(), strict=True)) == shapes
    assert leases(full) == leases(jobs)
    assert in_order(full)


def test_injecting_below_the_load_there_is_is_an_error():
    with pytest.raises(ValueError, match=r"inject: the jobs' load is 0.\d+ already, more than 1e-06"):
        Inject(1e-6).apply_random(table((0, 5000, 4, False)), nodes=NODES, rng=rng())


def test_multiplied_leases_come_when_they_came_and_batch_stays():
    jobs = MultiplyLeases(4).apply(table((0, 10, 1, True), (5, 10, 2, False), (9, 3, 2, True)), nodes=NODES)
    assert jobs.nodes.tolist() == [4, 2, 8]
    with pytest.raises(ValueError, match=r"leases of more than 2\^31 nodes"):
        MultiplyLeases(2**31).apply(table((0, 10, 1, True)), nodes=NODES)


def test_chance_comes_from_the_seed_and_not_from_the_other_transforms():
    jobs = table(*[(time, 60, 2, False) for time in range(200)])
    sample = Sample(0.1)

    def numbers(*transforms, seed=1):
        return apply_transforms(transforms, jobs, nodes=NODES, seed=seed).number.tolist()

    assert numbers(sample) == numbers(sample) == numbers(Limit(200), sample)
    assert numbers(sample) != numbers(sample, seed=2)
    assert len(numbers(sample, sample)) == 2


def test_the_random_ones_are_told_from_the_others():
    transforms = parse_transforms(
        [{"sample": {"share": 0.01}}, "widen", "narrow", {"inject": {"load": 0.77}}, {"multiply_leases": 8}]
    )
    kinds = [(isinstance(one, RandomTransform), isinstance(one, Transform)) for one in transforms]
    assert kinds == [(True, False), (True, False), (False, True), (True, False), (False, True)]


@pytest.mark.parametrize("transform", [Sample(), Widen(), Narrow(), Inject(0.5), MultiplyLeases(2)])
def test_no_jobs_stay_no_jobs(transform):
    assert len(apply_transforms([transform], JobTable.empty(), nodes=4, seed=1)) == 0


def test_the_papers_workloads_come_out_of_its_logs():
    # Table II of Liu et al. 2018: average nodes 2.9, 5.7 and 1.6.
    jobs = to_jobs(load(TRACES / "lcrc"), nodes=372, origin_s=0).jobs
    main = Sample(0.01).apply_random(jobs, nodes=372, rng=rng())
    wide, narrow = Widen().apply_random(main, nodes=372, rng=rng()), Narrow().apply(main, nodes=372)
    assert (len(jobs), len(main), len(wide)) == (853_168, 8_532, 4_266)
    assert [round(float(one.nodes.mean()), 1) for one in (main, wide, narrow)] == pytest.approx(
        [2.9, 5.7, 1.6], abs=0.35
    )
