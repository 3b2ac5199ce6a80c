"""Orders that raise, answer nonsense or cannot be compiled: each is told with its name, the job and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import emulator

JOBS = {"submit_s": [0, 0, 0, 0], "run_s": [5, 4, 3, 2], "nodes": [3, 2, 3, 1]}


def starts(order):
    return emulator.run(JOBS, nodes=3, scheduler=order).to_pandas(unit="s").start_s.tolist()


def error_of(order):
    with pytest.raises((emulator.PluginError, emulator.ScenarioError)) as error:
        starts(order)
    return str(error.value)


@emulator.compiled
def over_wait(job):
    return job.nodes / job.wait_us


@emulator.compiled
def over_nothing(job):
    return job.nodes // (job.queue + 1)


@emulator.compiled
def by_number(job):
    return job.number


@dataclass(frozen=True)
class Scored:
    kind: str = "short"
    cap: float = 2.0

    def score(self, job):
        return self.cap / job.wait_us


@dataclass(frozen=True)
class ByText:
    kind: str = "short"

    def score(self, job):
        return self.kind


class NoDataclass:
    def score(self, job):
        return job.nodes


@dataclass(frozen=True)
class TwoWays:
    def rank(self, job):
        return 1

    def score(self, job):
        return 2


def test_a_compiled_order_that_raises_ends_the_run_as_one_in_python_does():
    failed = "failed in score of the job in row 0 at 0.000000 s: ZeroDivisionError"
    assert error_of(over_wait) == f"queue order over_wait {failed}: division by zero"
    assert f"queue order over_nothing {failed}" in error_of(over_nothing)
    assert f"queue order scored {failed}" in error_of(Scored)
    assert "ZeroDivisionError: division by zero" in error_of(lambda job: job.nodes / job.wait_us)


def test_an_order_that_cannot_be_compiled_is_told_what_there_is_to_read():
    assert "by_number cannot be compiled (it reads number; of a job there are row, submit_us" in error_of(
        by_number
    )
    assert "ByText cannot be compiled (it reads kind;" in error_of(ByText)
    assert "make it a dataclass; a method called `rank` in its place runs in Python" in error_of(NoDataclass)


def test_an_order_with_two_methods_is_refused():
    assert "TwoWays has score and rank; an order has one of them" in error_of(TwoWays)


def test_only_a_function_is_compiled():
    with pytest.raises(TypeError, match=r"@emulator.compiled is for a function of \(job\), not for 3"):
        emulator.compiled(3)


def halves(jobs, config):
    return jobs.nodes * 0.5


def whole(jobs, config):
    return jobs.nodes


def test_fractions_of_an_order_that_never_changes_are_in_their_order():
    assert starts(halves) == starts(whole) != starts(None)


def too_few(jobs, config):
    return jobs.nodes[:1]


def one_nan(jobs, config):
    return np.where(jobs.nodes > 3, 1.0, np.nan)


def nothing(jobs, config):
    return None


@pytest.mark.parametrize("order", [too_few, one_nan, nothing])
def test_an_order_that_never_changes_gives_one_number_a_job(order):
    assert error_of(order).startswith(
        f"queue order {order.__name__} failed in its keys at 0.000000 s: TypeError: it "
    )
    assert error_of(order).endswith("of 4 jobs; return one number a job, no NaN")


class ShortFixed:
    def priority(self, now_us, queue):
        return queue.fixed

    def fixed(self, jobs, node_count):
        return [1.0]


class NoShare:
    def priority(self, now_us, queue):
        return queue.usage

    def fair_share(self):
        return 3600


def test_further_methods_of_an_order_are_told_too():
    assert "fixed returned float64 of shape (1,) of 4 jobs; return one number a job" in error_of(ShortFixed)
    assert "fair_share returned 3600; return a FairShare" in error_of(NoShare)
