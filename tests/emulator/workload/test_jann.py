"""The model of Jann et al.: made of a log, and the jobs it makes."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import yaml

from balancer.clock import US
from command_line import emulate
from emulator.workload.files import TraceError
from emulator.workload.fit_jann import fit, ranges
from emulator.workload.formats import load
from emulator.workload.generators import parse_generators
from emulator.workload.hyper_erlang import HyperErlang, match
from emulator.workload.jann import CTC, DAY_S, Jann, Range
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.table import JobTable
from testdata import TRACES

LOG = TRACES / "CTC-SP2-1996-3.1-cln.swf.xz"
PAPERS_JOBS = 17_440
ORDERS = [1, 2, 3, 7]


@pytest.mark.parametrize("stages", ORDERS)
def test_three_moments_are_matched_with_as_few_stages_as_it_takes(stages):
    values = HyperErlang(stages, 40.0, 900.0, 0.7).draw(np.random.default_rng(1), 400_000)
    found = match(values)
    for power in (1, 2, 3):
        assert found.moment(power) == pytest.approx(float((values**power).mean()), rel=1e-6)
    assert found.stages <= stages


def test_values_that_hardly_vary_take_many_stages_and_alike_ones_the_most():
    steady = np.random.default_rng(1).normal(100, 10, 10_000)
    assert 50 < match(steady).stages < 200
    assert match(np.full(10, 5.0)) == HyperErlang(1000, 0.005, 0.005, 1.0)


def test_the_default_is_what_the_method_finds_in_the_jobs_of_the_paper():
    workload = to_jobs(load(LOG), nodes=None)
    first = workload.jobs.take(np.arange(PAPERS_JOBS))
    assert first.submit_us[-1] // (DAY_S * US) == 77, "25 June to 12 September"
    found = [
        {name: float(f"{value:.6g}") for name, value in asdict(each).items()} for each in ranges(first, 322)
    ]
    assert found == [asdict(each) for each in CTC]
    assert max(each.run_stages for each in CTC) == 8
    assert sum(each.gap_stages == 1 for each in CTC) == 8, "most required only a single stage"


def test_its_jobs_have_the_moments_of_each_range():
    jobs = Jann(days=30_000).generate(stream(1, "test"), nodes=322)
    off = {}
    for each in CTC:
        rows = (jobs.nodes >= each.least) & (jobs.nodes <= each.most)
        runs = jobs.run_us[rows] / US
        for name, ours, model in (
            ("gap", float(np.diff(jobs.submit_us[rows] / US).mean()), each.gap.moment(1)),
            ("run", float(runs.mean()), each.run.moment(1)),
            ("run squared", float((runs**2).mean()), each.run.moment(2)),
            ("nodes", float(jobs.nodes[rows].mean()), each.mean_nodes(322)),
        ):
            if abs(ours - model) > 0.06 * model:
                off[each.least, name] = (ours, model)
    assert off == {}


@pytest.mark.parametrize("load_wanted", [0.5, 0.9])
def test_load_stretches_the_gaps_and_nothing_else(load_wanted):
    jobs = Jann(days=3_000, load=load_wanted).generate(stream(2, "test"), nodes=128)
    assert float(jobs.nodes.astype(float) @ jobs.run_us) / US / (128 * 3_000 * DAY_S) == pytest.approx(
        load_wanted, rel=0.04
    )
    assert jobs.nodes.max() == 128, (
        "ranges beyond the cluster are left out, wider jobs of a range as wide as it"
    )
    assert (jobs.estimate_us == jobs.run_us).all()


def test_a_log_of_ones_own_gives_ranges_that_make_jobs_like_it():
    kth = to_jobs(load(TRACES / "KTH-SP2-1996-2.1-cln.swf.xz"), nodes=None)
    found = fit(kth.jobs, kth.nodes)
    made = found.model.generate(stream(1, "test"), nodes=kth.nodes)
    for of in (
        len,
        lambda jobs: jobs.run_us.mean(),
        lambda jobs: (jobs.nodes == 1).mean(),
    ):
        assert float(of(made)) == pytest.approx(float(of(kth.jobs)), rel=0.1)
    (again,) = parse_generators([found.as_part()])
    assert isinstance(again, Jann)
    assert again.ranges() == found.model.ranges()


def test_the_command_prints_a_scenario_that_runs(tmp_path):
    out = tmp_path / "site.yaml"
    command = [
        "trace",
        "fit",
        str(TRACES / "KTH-SP2-1996-2.1-cln.swf.xz"),
        "--model",
        "jann",
        "--out",
        str(out),
    ]
    done = emulate(*command)
    assert done.exit_code == 0, done.output
    part = yaml.safe_load(out.read_text())["workload"]["generate"][0]["jann"]
    assert [(each["least"], each["most"]) for each in part["own"]][:4] == [(1, 1), (2, 2), (3, 4), (5, 8)]


def rows(nodes):
    count = len(nodes)
    rng = np.random.default_rng(3)
    return JobTable.build(
        submit_us=np.cumsum(rng.integers(1, 600, count)) * US,
        run_us=rng.integers(1, 9_000, count) * US,
        nodes=nodes,
    )


def test_a_range_with_hardly_any_jobs_is_one_with_that_above_it_and_the_last_with_that_below():
    few = [1] * 150 + [2] * 9 + [3] * 60 + [7] * 30 + [16] * 3
    assert [(each.least, each.most) for each in ranges(rows(few), 16)] == [(1, 1), (2, 4), (5, 16)]


RANGE = asdict(CTC[0])


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ([], "no range of sizes"),
        ("text", "a list of ranges"),
        ([{**RANGE, "mots": 1}], "range 1: mots missing or unknown"),
        ([{**RANGE, "gap_stages": 0}], "gap_stages"),
        ([{**RANGE, "run_first_s": -1}], "run_first_s"),
        ([RANGE, {**RANGE, "most": 4}], "range 2 begins at 1 nodes, in the one before"),
    ],
)
def test_what_is_no_model_is_refused(own, says):
    with pytest.raises(ValueError, match=says):
        parse_generators([{"jann": {"own": own}}])


def test_too_small_a_cluster_and_too_few_jobs_are_said():
    wide = {**RANGE, "least": 64, "most": 64}
    with pytest.raises(ValueError, match="no range of sizes has jobs for a cluster of 8 nodes"):
        Jann(own=[wide]).generate(stream(1, "test"), nodes=8)
    with pytest.raises(TraceError, match="12 jobs are too few"):
        fit(rows([1] * 12), 4)
    assert Range(**RANGE) == CTC[0]
