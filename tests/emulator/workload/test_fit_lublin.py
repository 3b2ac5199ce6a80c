"""The model of Lublin and Feitelson with the parameters of a log."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import yaml

from command_line import emulate
from emulator.workload.files import TraceError
from emulator.workload.fit_lublin import figures, fit
from emulator.workload.formats import load
from emulator.workload.generators import parse_generators
from emulator.workload.lublin import ALL, BATCH, LublinFeitelson
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.table import JobTable
from testdata import TRACES

KTH = TRACES / "KTH-SP2-1996-2.1-cln.swf.xz"
CLOSE = {
    "one-node jobs, %": 0.05, "powers of two (not one), %": 0.12, "nodes, mean of log2": 0.1, "nodes, mean": 0.25,
    "run time, mean, s": 0.25, "run time, spread of log": 0.05, "jobs a day": 0.2, "load, %": 0.05,
}  # fmt: skip
"""How far, as a part of the log's, the figures of the jobs may be that a fitted model makes."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln", "SDSC-SP2-1998-4.2-cln"])
def test_a_fitted_model_makes_jobs_like_those_of_the_log(name):
    workload = to_jobs(load(TRACES / f"{name}.swf.xz"), nodes=None)
    found = fit(workload.jobs, workload.nodes)
    made = found.model.generate(stream(1, "test"), nodes=workload.nodes)
    of_log, of_model = figures(workload.jobs, workload.nodes), figures(made, workload.nodes)
    apart = {
        each: (of_log[each], of_model[each])
        for each, part in CLOSE.items()
        if abs(of_model[each] - of_log[each]) > part * of_log[each]
    }
    assert apart == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("published", [ALL, BATCH])
def test_the_published_parameters_are_found_again_in_the_jobs_they_make(published):
    model = LublinFeitelson(days=2000, own=asdict(published))
    own = fit(model.generate(stream(2, "test"), nodes=128), 128).model.own
    assert own is not None
    near = {
        "serial_share": 0.01,
        "power_of_two_share": 0.03,
        "low_log2": 0.45,
        "medium_below": 0.5,
        "low_share": 0.06,
    }
    assert {name: abs(own[name] - getattr(published, name)) <= most for name, most in near.items()} == dict.fromkeys(
        near, True
    )  # fmt: skip
    for name, shape, scale in (("short", "a1", "b1"), ("long", "a2", "b2")):
        mean = getattr(published, shape) * getattr(published, scale)
        assert own[shape] * own[scale] == pytest.approx(mean, rel=0.1), name
    assert own["pb"] == pytest.approx(published.pb, abs=0.1)


def test_the_model_of_another_site_is_not_found_in_a_log():
    """The published parameters themselves are further from KTH's log than what was fitted."""
    workload = to_jobs(load(KTH), nodes=None)
    of_log = figures(workload.jobs, workload.nodes)
    published = LublinFeitelson(days=330, load=of_log["load, %"] / 100)
    of_model = figures(published.generate(stream(1, "test"), nodes=100), 100)
    assert any(abs(of_model[each] - of_log[each]) > part * of_log[each] for each, part in CLOSE.items())


def every(seconds, count):
    return JobTable.build(
        submit_us=np.arange(count) * seconds * 1_000_000,
        run_us=np.full(count, 60_000_000),
        nodes=np.ones(count, np.int32),
    )


@pytest.mark.parametrize(
    ("jobs", "said"), [(every(3600, 100), "100 jobs are too few"), (every(10, 250), "less than a day")]
)
def test_a_log_that_says_too_little_is_refused(jobs, said):
    with pytest.raises(TraceError, match=said):
        fit(jobs, 100)


def test_jobs_that_are_all_alike_have_a_model_all_the_same():
    model = fit(every(3600, 400), 100).model
    made = model.generate(stream(1, "test"), nodes=100)
    assert (made.nodes == 1).all()
    assert np.median(made.run_us) == pytest.approx(60e6, rel=0.1)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"a1": None}, "own.a1 is missing"),
        ({"c": 1.0}, "own.c is not a parameter"),
        ({"serial_share": 1.5}, "own.serial_share"),
        ({"b1": 0.0}, "own.b1"),
        ({"serial_share": 0.9, "power_of_two_share": 0.9}, "more than 1 together"),
    ],
)
def test_bad_parameters_of_ones_own_are_named(own, said):
    given = {name: value for name, value in (asdict(ALL) | own).items() if value is not None}
    with pytest.raises(ValueError, match=said):
        LublinFeitelson(own=given)


def test_the_command_writes_a_scenario_that_makes_such_jobs(tmp_path):
    done = emulate("trace", "fit", KTH, "--out", tmp_path / "kth.yaml")
    assert done.exit_code == 0, done.output
    document = yaml.safe_load((tmp_path / "kth.yaml").read_text())
    (model,) = parse_generators(document["workload"]["generate"])
    made = model.generate(stream(1, "workload.generate.0"), nodes=document["nodes"])
    assert figures(made, 100)["load, %"] == pytest.approx(70.1, rel=0.05)
    assert yaml.safe_load(done.output.partition(" " * 20)[0])["nodes"] == 100


def test_a_name_that_is_no_scenario_is_refused(tmp_path):
    done = emulate("trace", "fit", KTH, "--out", tmp_path / "kth.txt")
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
