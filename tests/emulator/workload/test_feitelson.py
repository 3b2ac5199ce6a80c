"""Feitelson's model of 1996: sizes and repetitions are harmonic, run times hyper-exponential, longer on more nodes."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import assert_lawful
from emulator.workload.feitelson import FeitelsonJobs
from emulator.workload.generators import parse_generators
from emulator.workload.relations import After
from emulator.workload.streams import stream

US = 1_000_000
SHORT = {"short_s": 10.0, "long_s": 70.0}
"""So short that hardly a job's last executions come after the end."""


def make(nodes=128, seed=1, **given):
    return FeitelsonJobs(**given).generate(stream(seed, "test"), nodes=nodes)


def first_executions(jobs):
    return jobs.take(jobs.column("after_number") < 0)


@pytest.fixture(scope="module")
def many():
    return make(days=30, load=0.05, resubmit="after_end", **SHORT)


def test_without_tailoring_sizes_are_harmonic_of_order_three_halves():
    jobs = first_executions(make(days=30, load=0.1, powers_of_two=1, resubmit="after_end", **SHORT))
    weights = np.arange(1, 129) ** -1.5
    expected = weights / weights.sum()
    assert len(jobs) > 40_000
    found = np.bincount(jobs.nodes, minlength=129)[1:] / len(jobs)
    assert np.abs(found - expected).max() < 0.01
    assert jobs.nodes.mean() == pytest.approx((expected * np.arange(1, 129)).sum(), rel=0.05)


def test_powers_of_two_and_small_sizes_are_as_much_likelier_as_is_asked_for(many):
    def shares(jobs):
        return np.bincount(first_executions(jobs).nodes, minlength=129) / len(first_executions(jobs))

    found = shares(many)
    assert found[8] / found[7] == pytest.approx(3 * (7 / 8) ** 1.5, rel=0.15)
    assert found[16] / found[15] == pytest.approx(3 * (15 / 16) ** 1.5, rel=0.3)
    tailored = shares(make(days=30, load=0.05, small=4, resubmit="after_end", **SHORT))
    assert tailored[9] / tailored[10] == pytest.approx(4 * (10 / 9) ** 1.5, rel=0.4)


def test_the_defaults_have_the_shares_of_the_log_of_ctc_that_the_model_was_made_of(many):
    """83 % of CTC's jobs have a power of two (docs/traces.md)."""
    sizes = first_executions(many).nodes
    assert ((sizes & (sizes - 1)) == 0).mean() == pytest.approx(0.83, abs=0.02)


def test_repetitions_are_harmonic_of_order_five_halves(many):
    before = dict(zip(many.number.tolist(), many.column("after_number").tolist(), strict=True))
    first = {}
    for number in many.number.tolist():  # sorted by submit, so whom it repeats comes first
        first[number] = number if before[number] < 0 else first[before[number]]
    _, turns = np.unique(list(first.values()), return_counts=True)
    weights = np.arange(1, 1001) ** -2.5
    expected = weights / weights.sum()
    for count in (1, 2, 3, 5):
        assert (turns == count).mean() == pytest.approx(expected[count - 1], abs=0.01)
    assert turns.mean() == pytest.approx((expected * np.arange(1, 1001)).sum(), rel=0.1)
    assert turns.max() > 50


def test_run_times_vary_more_than_exponential_ones_and_are_longer_on_more_nodes(many):
    jobs = first_executions(many)
    run_s = jobs.run_us / US
    assert 1.5 < run_s.std() / run_s.mean() < 2
    assert 0 < np.corrcoef(jobs.nodes, run_s)[0, 1] < 0.3
    serial, whole = run_s[jobs.nodes == 1], run_s[jobs.nodes >= 96]
    assert serial.mean() == pytest.approx(10 + 60 * (0.05 + 0.2 / 128), rel=0.05)
    assert whole.mean() == pytest.approx(10 + 60 * (0.05 + 0.2 * 0.9), rel=0.25)


def test_the_load_is_met_by_the_number_of_jobs_and_nothing_is_submitted_after_the_days():
    jobs = make(days=100, load=0.6)
    node_s = int((jobs.nodes * (jobs.run_us // US)).sum())
    assert node_s == pytest.approx(0.6 * 128 * 100 * 86_400, rel=0.02)
    assert jobs.submit_us.max() < 100 * 86_400 * US
    assert jobs.nodes.max() <= 128
    assert (jobs.estimate_us == jobs.run_us).all()


def test_the_same_job_comes_again_when_it_is_over_and_somebody_has_thought():
    jobs = make(days=2, think_s=60, resubmit="after_end")
    row = {number: place for place, number in enumerate(jobs.number.tolist())}
    after = jobs.column("after_number")
    again = np.flatnonzero(after >= 0)
    before = np.array([row[number] for number in after[again].tolist()])
    assert len(again) > 20
    assert (jobs.nodes[again] == jobs.nodes[before]).all()
    assert (jobs.run_us[again] == jobs.run_us[before]).all()
    assert (jobs.submit_us[again] == jobs.submit_us[before] + jobs.run_us[before] + 60 * US).all()
    assert set(jobs.column("after_kind")[again].tolist()) == {After.THINK}
    assert set(jobs.column("after_delay_us")[again].tolist()) == {60 * US}
    plain = make(days=2, think_s=60)
    assert (plain.submit_us.tolist(), plain.extra) == (jobs.submit_us.tolist(), {})


def test_in_a_run_nobody_comes_again_before_the_end():
    scenario = from_mapping(
        {
            "nodes": 16,
            "workload": {"generate": [{"feitelson": {"days": 1, "load": 1.2, "resubmit": "after_end"}}]},
        }
    )
    record = run_virtual(scenario, prepare(scenario))
    assert_lawful(record)
    jobs = record.jobs
    row = {number: place for place, number in enumerate(jobs.number.tolist())}
    after = jobs.column("after_number")
    again = np.flatnonzero(after >= 0)
    ended = np.array([record.end_us[row[number]] for number in after[again].tolist()])
    assert (jobs.submit_us[again] == ended).all()


def test_a_seed_gives_the_same_jobs_and_bounds_are_checked():
    assert make(seed=2).run_us.tolist() == make(seed=2).run_us.tolist() != make(seed=3).run_us.tolist()
    assert make(nodes=1, days=1).nodes.max() == 1
    (made,) = parse_generators([{"feitelson": {"load": 0.5}}])
    assert made == FeitelsonJobs(load=0.5)
    with pytest.raises(ValueError, match="feitelson: resubmit is as_run or after_end, not 'never'"):
        FeitelsonJobs(resubmit="never")
    with pytest.raises(ValueError, match="feitelson: most_repeats"):
        FeitelsonJobs(most_repeats=0)
    with pytest.raises(ValueError, match="at least 1 node"):
        make(nodes=0)
