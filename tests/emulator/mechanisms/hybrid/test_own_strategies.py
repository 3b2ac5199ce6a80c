"""Strategies of one's own, in Python: asked by the compiled handlers, checked, and named when they fail."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.mechanisms.hybrid import HybridMechanism
from emulator.mechanisms.hybrid.arrival_paa import PreemptAtArrival
from emulator.mechanisms.hybrid.decisions import Room
from emulator.mechanisms.hybrid.notice_plan import Preparation
from emulator.plugins.failure import PluginError
from oracle.hybrid_kit import STRATEGIES, make_loop, random_jobs
from oracle.hybrid_reference import HybridJob
from oracle.hybrid_strategies import ARRIVALS, NOTICES, Cua, N, Paa

FAILING = {"mtbf_s": 2e-5, "repair_s": 1e-5}


def run(jobs, nodes, strategy, *, notice=None, arrival=None, by_steps=False, **params):
    """(runs of jobs, whose each node was, figures) with strategies of one's own in the place of compiled ones."""
    mechanism, loop = make_loop(jobs, nodes, strategy, **params)
    if notice is not None:
        mechanism._notice = notice
    if arrival is not None:
        mechanism._arrival = arrival
    loop.run(by_steps=by_steps)
    record = loop.record()
    figures = {
        name: value
        for name, value in record.figures.items()
        if not name.startswith(("decision_", "handling_"))
    }
    runs = record.runs
    return [runs.job.tolist(), runs.start_us.tolist(), runs.outcome.tolist(), runs.node.tolist(), figures]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_in_python_makes_the_same_run_as_the_compiled_one(strategy):
    at_notice, _, at_arrival = strategy.partition("+")
    for seed in range(30):
        jobs, nodes = random_jobs(np.random.default_rng([seed, 1]), jobs=40)
        settings = {"warning_us": (0, 4)[seed % 2]} | (FAILING if seed % 3 == 0 else {})
        own = {"notice": NOTICES[at_notice](), "arrival": ARRIVALS[at_arrival]()}
        some = {} if seed % 4 == 0 else dict([list(own.items())[seed % 2]])
        expected = run(jobs, nodes, strategy, **settings)
        assert run(jobs, nodes, strategy, **(some or own), **settings) == expected, seed
        assert run(jobs, nodes, strategy, **own, by_steps=True, **settings) == expected, seed


class HalfAtFirst:
    """Shrinks the first job that can by half, and preempts the last ones for the rest."""

    def make_room(self, running, needed):
        if running.nodes.sum() < needed:
            return None
        giving = [k for k in range(len(running.job)) if running.spare[k] > 1][:1]
        shrink = [(running.job[k], min(needed, running.spare[k] // 2)) for k in giving]
        needed -= sum(fewer for _, fewer in shrink)
        preempt = []
        for k in reversed(range(len(running.job))):
            if needed > 0 and k not in giving:
                preempt.append(running.job[k])
                needed -= running.nodes[k]
        return None if needed > 0 else Room(preempt=tuple(preempt), shrink=tuple(shrink))


def test_some_may_shrink_and_others_go():
    jobs = [
        HybridJob(0, 90, 90, 6, "malleable", least=2),
        HybridJob(0, 90, 90, 3),
        HybridJob(5, 10, 10, 5, "on_demand"),
    ]
    _, mechanism_runs, outcomes, _, figures = run(jobs, 9, "n+paa", arrival=HalfAtFirst())
    assert (figures["shrinks"], figures["preemptions"], figures["instant_start_ratio"]) == (1, 1, 1.0)
    assert mechanism_runs.count(5) == 2, "the narrower job and the on-demand job"
    assert len(outcomes) == 6


class Answers:
    """Says the same whatever it is asked; raises it, if it is an exception."""

    def __init__(self, answer):
        self.answer = answer

    def make_room(self, _running, _needed):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def prepare(self, _outlook):
        return self.make_room(None, None)


def two_jobs_and_one_that_wants_both():
    return [
        HybridJob(0, 90, 90, 6, "malleable", least=2),
        HybridJob(0, 90, 90, 3),
        HybridJob(20, 10, 10, 8, "on_demand", notice_us=5, predicted_us=20),
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (KeyError("lost"), "KeyError: 'lost'"),
        (Room(preempt=(1,)), "ValueError: it makes room of 3 nodes where 8 are needed; return None if it cannot"),
        (Room(preempt=(0, 1, 1)), "it names job 2, which is no running job that may give nodes, or names it twice"),
        (Room(preempt=(0, 2)), "it names job 3, which is no running job that may give nodes"),
        (Room(preempt=(0, 77)), "it names row 77, which is no running job"),
        (Room(shrink=((0, 5),), preempt=(1,)), "it takes 5 nodes from job 1, which can give 4"),
    ],
    ids=["raises", "too few", "twice", "not running", "unknown", "too narrow"],
)  # fmt: skip
def test_an_arrival_strategy_that_cannot_be_followed_ends_the_run_and_is_named(answer, message):
    mechanism, loop = make_loop(two_jobs_and_one_that_wants_both(), 9, "n+paa")
    mechanism._arrival = Answers(answer)
    with pytest.raises(PluginError) as error:
        loop.run()
    assert str(error.value).startswith("hybrid arrival paa failed in make_room for job 3 at 0.000020 s: ")
    assert message in str(error.value)
    record = loop.record()
    assert record.interrupted == str(error.value)
    assert record.runs.start_us.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (KeyError("lost"), "KeyError: 'lost'"),
        (Preparation(promised=(0, 0)), "it names job 1, which is no running job whose nodes nobody else waits for"),
        (Preparation(promised=(1,), stops=((9, 2),)), "it names job 3, which is no running job"),
    ],
    ids=["raises", "twice", "not running"],
)  # fmt: skip
def test_a_notice_strategy_that_cannot_be_followed_ends_the_run_and_is_named(answer, message):
    mechanism, loop = make_loop(two_jobs_and_one_that_wants_both(), 9, "cup+paa")
    mechanism._notice = Answers(answer)
    with pytest.raises(PluginError) as error:
        loop.run(by_steps=True)
    assert str(error.value).startswith("hybrid notice cup failed in prepare for job 3 at 0.000005 s: ")
    assert message in str(error.value)


class MyPaa(PreemptAtArrival):
    """What comes with the mechanism may be built on: a choice of one's own is asked."""

    def make_room(self, running, needed):
        return Paa().make_room(running, needed)


def test_a_class_built_on_one_that_comes_with_the_mechanism_is_asked():
    jobs, nodes = random_jobs(np.random.default_rng(3), jobs=40)
    assert run(jobs, nodes, "cua+spaa", arrival=MyPaa()) == run(jobs, nodes, "cua+paa")
    assert run(jobs, nodes, "cua+spaa", notice=N(), arrival=MyPaa()) == run(jobs, nodes, "n+paa")
    assert run(jobs, nodes, "n+spaa", notice=Cua()) == run(jobs, nodes, "cua+spaa")


def test_an_unknown_strategy_is_refused_with_the_nearest_right_one():
    with pytest.raises(ValueError, match=r"there is no hybrid notice 'cuaa'; did you mean 'cua'"):
        HybridMechanism("cuaa+paa")
    with pytest.raises(ValueError, match=r"such as cua\+spaa"):
        HybridMechanism("cua")
    with pytest.raises(ValueError, match="warning_s"):
        HybridMechanism(warning_s=-1)
