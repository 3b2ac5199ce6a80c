"""Kinds by project, notices by mix, setups and checkpoints; and the made traces."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping
from emulator.workload.daly import optimum_interval_us
from emulator.workload.hybrid_kinds import (
    GROUPED_BY_SHAPE,
    GROUPED_BY_USER,
    MIXES,
    HybridKinds,
    JobClass,
    ranks,
)
from emulator.workload.hybrid_machines import CoriMonths, ThetaYear, figures
from emulator.workload.streams import stream
from emulator.workload.table import JobTable, Kind

US = 1_000_000


def some_jobs(count=4000, projects=40, widest=2000, **columns):
    rng = np.random.default_rng(7)
    width = rng.integers(1, widest + 1, count)
    run_us = rng.integers(60, 86_400, count) * US
    group = rng.integers(1, projects + 1, count)
    known = {"group": group, "user": group} | columns
    submit_us = np.arange(count) * 600 * US + 10**10
    return JobTable.build(submit_us=submit_us, run_us=run_us, estimate_us=run_us + US, nodes=width, **known)


def test_ranks_are_the_places_among_the_different_values():
    rng = np.random.default_rng(5)
    for far in (1, 7, 100, 2**31 - 1):
        for count in (1, 2, 40):
            values = rng.integers(-1, far, count).astype(np.int32)
            places = {value: place for place, value in enumerate(sorted(set(values.tolist())))}
            assert ranks(values).tolist() == [places[value] for value in values.tolist()]
    assert ranks(np.empty(0, np.int32)).tolist() == []
    assert ranks(np.array([-(2**31), 2**31 - 1], np.int32)).tolist() == [0, 1]


def transformed(jobs, seed=1, **params):
    return HybridKinds(**params).apply_random(jobs, nodes=5000, rng=stream(seed, "test"))


def test_projects_are_of_one_kind_in_the_papers_shares():
    jobs = transformed(some_jobs())
    kind = jobs.kind * 10 + jobs.extra["job_class"]
    wide = jobs.nodes > 1
    kinds = [set(kind[wide & (jobs.group == group)].tolist()) for group in np.unique(jobs.group)]
    assert all(len(each) == 1 for each in kinds)
    assert [sum(each == {code} for each in kinds) for code in (10, 0, 2)] == [4, 24, 12]


def test_malleable_jobs_of_one_node_become_rigid_or_on_demand():
    jobs = transformed(some_jobs(widest=2))
    malleable = jobs.extra["job_class"] == JobClass.MALLEABLE
    assert malleable.any()
    assert (jobs.nodes[malleable] > 1).all()


@pytest.mark.parametrize("mix", MIXES)
def test_notices_follow_the_mix_and_are_derived_backwards_from_the_arrival(mix):
    jobs = transformed(some_jobs(20_000), notices=mix)
    mine = jobs.take(jobs.kind == Kind.ON_DEMAND)
    notice, predicted, arrival = mine.extra["notice_us"], mine.extra["predicted_us"], mine.submit_us
    none = notice < 0
    accurate, early, late = (
        ~none & (predicted == arrival),
        predicted > arrival,
        ~none & (predicted < arrival),
    )
    shares = [rows.mean() for rows in (none, accurate, early, late)]
    assert shares == pytest.approx(MIXES[mix], abs=0.05)
    ahead_s = (predicted - notice)[~none] / US
    assert ahead_s.min() >= 900
    assert ahead_s.max() <= 1800
    assert (notice[early] <= arrival[early]).all()
    assert ((arrival - predicted)[late] <= 1800 * US).all()


def test_setup_is_part_of_the_run_time_and_the_least_size_a_fifth():
    before = some_jobs()
    jobs = transformed(before)
    assert (jobs.run_us + jobs.extra["setup_us"] == before.run_us).all()
    assert (jobs.estimate_us >= jobs.run_us).all()
    malleable = jobs.extra["job_class"] == JobClass.MALLEABLE
    rigid = (jobs.kind == Kind.BATCH) & ~malleable
    share = jobs.extra["setup_us"] / before.run_us
    assert share[rigid].min() > 0.049
    assert share[rigid].max() < 0.1001
    assert share[malleable].max() < 0.0501
    assert (jobs.extra["min_nodes"][malleable] == np.ceil(jobs.nodes[malleable] / 5)).all()
    assert (jobs.extra["min_nodes"][rigid] == jobs.nodes[rigid]).all()


def test_setups_on_top_leave_the_run_time_as_the_log_has_it_and_without_any_there_are_none():
    before = some_jobs()
    on_top, none = transformed(before, setups="on_top"), transformed(before, setups="none")
    inside = transformed(before)
    assert (on_top.run_us == before.run_us).all()
    assert (on_top.estimate_us == before.estimate_us).all()
    assert on_top.extra["setup_us"].tolist() == inside.extra["setup_us"].tolist()
    assert (none.run_us == before.run_us).all()
    assert not none.extra["setup_us"].any()


def test_writes_inside_the_run_time_leave_a_run_as_long_as_the_log_has_it():
    before = some_jobs()
    params = {"setups": "none", "checkpoint_scale": 0.1}
    inside = transformed(before, checkpoints="inside", **params)
    interval, cost = inside.extra["checkpoint_interval_us"], inside.extra["checkpoint_us"]
    writes = interval > 0
    assert writes.any()
    assert (inside.run_us[~writes] == before.run_us[~writes]).all()
    # What the harness makes of it: a write after each interval, but for one at the very end.
    length = inside.run_us + np.where(writes, (inside.run_us - 1) // np.maximum(interval, 1) * cost, 0)
    assert (length <= before.run_us).all()
    assert (before.run_us - length)[writes].max() <= cost.max(), (
        "a run that would end in a write ends before it"
    )
    assert (length == before.run_us).mean() > 0.5
    assert not transformed(before, checkpoints="none", **params).extra["checkpoint_interval_us"].any()


def test_only_rigid_jobs_longer_than_the_optimum_interval_write_checkpoints():
    before = some_jobs()
    jobs = transformed(before, checkpoint_scale=0.5)
    interval, cost = jobs.extra["checkpoint_interval_us"], jobs.extra["checkpoint_us"]
    writes = interval > 0
    rigid = (jobs.kind == Kind.BATCH) & (jobs.extra["job_class"] == JobClass.RIGID)
    assert not (writes & ~rigid).any()
    assert (interval[writes] <= before.run_us[writes]).all()
    wide = jobs.nodes >= 1000
    optimum = optimum_interval_us(np.where(wide, 1200, 600) * US, np.full(len(jobs), 180_000 * US))
    assert (writes == (rigid & (np.rint(optimum / 2) <= before.run_us))).all()
    assert set(cost[writes & wide]) == {1200 * US}
    assert set(cost[writes & ~wide]) == {600 * US}


def test_dalys_interval_is_the_one_that_loses_least():
    """His eq. 20: expected run time M e^(R/M) (e^((t + d)/M) - 1) Ts/t, with restart R = 0, at its minimum."""
    delta, mean = 600.0, 18_000.0
    interval = optimum_interval_us(np.array([600 * US]), np.array([18_000 * US]))[0] / US
    tau = np.arange(500.0, 20_000.0)
    cost = np.expm1((tau + delta) / mean) / tau
    assert interval == pytest.approx(tau[cost.argmin()], rel=0.01)


def test_a_trace_without_groups_and_users_says_what_stands_for_them():
    bare = some_jobs(group=-1, user=-1)
    assert HybridKinds().count(bare) == {GROUPED_BY_SHAPE: len(bare)}
    assert HybridKinds().count(some_jobs(group=-1)) == {GROUPED_BY_USER: len(bare)}
    assert HybridKinds().count(some_jobs()) == {}
    jobs = transformed(bare)
    shapes = set(
        zip(jobs.extra["project"].tolist(), bare.nodes.tolist(), bare.estimate_us.tolist(), strict=True)
    )
    assert len(shapes) == len({project for project, _, _ in shapes})


def test_the_substitute_is_told_with_the_results():
    document = {
        "nodes": 100,
        "workload": {"generate": [{"bursty_leases": {"days": 1}}], "transforms": ["hybrid_kinds"]},
    }
    assert GROUPED_BY_SHAPE in prepare(from_mapping(document)).counted


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"notices": "W6"}, "W1, W2, W3, W4, W5"),
        ({"notices": {"none": 0.5}}, "add up to 0.5"),
        ({"notices": {"sometimes": 1}}, "'sometimes'"),
        ({"rigid_setup": 0.1}, "a range"),
        ({"on_demand_share": 0.5, "rigid_share": 0.6}, "more than 1 together"),
        ({"grouping": "name"}, "grouping"),
        ({"setups": "under"}, "setups is inside, on_top, none"),
        ({"checkpoints": "never"}, "checkpoints is inside, on_top, none"),
        ({"on_demand_load": 0.1}, "on_demand_load is a range"),
        ({"on_demand_load": [0.2, 0.1]}, r"on_demand_load\[1\]"),
    ],
)
def test_a_bad_parameter_is_named(params, text):
    with pytest.raises(ValueError, match=text):
        HybridKinds(**params)


def load_on_demand(jobs):
    node_us = jobs.nodes * jobs.run_us
    return node_us[jobs.kind == Kind.ON_DEMAND].sum() / node_us.sum()


def test_projects_are_drawn_until_on_demand_jobs_have_the_load_that_is_wanted():
    loads = [load_on_demand(transformed(some_jobs(), seed, setups="none")) for seed in range(1, 21)]
    wanted = [load_on_demand(transformed(some_jobs(), seed, setups="none", on_demand_load=[0.1, 0.11]))
              for seed in range(1, 21)]  # fmt: skip
    assert not all(0.1 <= load <= 0.11 for load in loads)
    assert all(0.1 <= load <= 0.11 for load in wanted)


def test_a_load_that_no_draw_has_is_an_error_that_says_what_there_is():
    with pytest.raises(ValueError, match=r"none has 90.0 % to 95.0 % of the node-seconds on demand \(\d+"):
        transformed(some_jobs(), on_demand_load=[0.9, 0.95])


@pytest.mark.parametrize("machine", [ThetaYear(), CoriMonths(jobs=150_000, days=7)])
def test_a_made_trace_has_the_figures_of_table_1(machine):
    jobs = machine.generate(stream(3, "test"), nodes=machine.NODES)
    found = figures(jobs, nodes=machine.NODES, days=machine.days)
    assert found["jobs"] == machine.jobs
    assert found["load"] == pytest.approx(machine.load, rel=0.01)
    assert found["one_node_share"] == pytest.approx(0.76 if machine.NAME == "cori_months" else 0, abs=1e-4)
    assert found["min_nodes"] == (1 if machine.NAME == "cori_months" else 128)
    assert found["max_nodes"] <= machine.NODES
    assert found["max_run_h"] * 3600 <= machine.max_run_s
    assert (jobs.estimate_us >= jobs.run_us).all()


def test_a_made_trace_is_for_its_own_machine():
    with pytest.raises(ValueError, match="4392"):
        ThetaYear().generate(stream(3, "test"), nodes=100)
