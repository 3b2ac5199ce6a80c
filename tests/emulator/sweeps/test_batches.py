"""How many runs are handed over together: many while many are left, few at the end."""

from __future__ import annotations

from concurrent.futures import Future
from operator import length_hint
from types import SimpleNamespace

import pytest

from emulator.sweeps.pools import _OF_DASK, _OF_PROCESSES, _handed_over, _of_task, _WithoutLive

MS = 1000


class Workers:
    """Do one batch after the other, when all places are taken or nothing more comes; all runs take the same time."""

    def __init__(self, run_us: int, places: int) -> None:
        self.run_us = run_us
        self.places = places
        self.batches: list[int] = []
        self.waiting: list[tuple[Future, int]] = []
        self.nothing_came = False

    def submit(self, _work, texts: list[str]) -> Future:
        self.nothing_came = False
        self.batches.append(len(texts))
        self.waiting.append((Future(), len(texts)))
        return self.waiting[-1][0]

    def at_once(self) -> int:
        if self.waiting and (self.nothing_came or len(self.waiting) == self.places):
            future, many = self.waiting.pop(0)
            future.set_result(([({}, "")] * many, self.run_us * many))
        self.nothing_came = True
        return self.places


def some_runs(many: int, *, live: tuple[int, ...] = ()):
    scenario = SimpleNamespace(as_json=dict)
    return [SimpleNamespace(number=k, is_live=k in live, scenario=scenario) for k in range(many)]


def batches_of(runs, run_us: int, how=_OF_DASK, at_once: int = 10) -> list[int]:
    workers = Workers(run_us, at_once)
    done = [*_handed_over(workers, workers.at_once, runs, lambda: False, how, _of_task)]
    assert sum(workers.batches) == len(done)
    return workers.batches


def test_dask_gets_a_second_of_runs_together_and_less_and_less_at_the_end():
    batches = batches_of(some_runs(2000), 20 * MS)
    assert batches[:10] == [1] * 10, "nobody knows yet how long they are"
    assert batches[10] == 50
    lasting = batches[10:-1]
    assert lasting == sorted(lasting, reverse=True)
    assert min(lasting) == 10, "a fifth of a second"
    assert len(lasting) < 100, "half as many as of a fifth of a second each"


def test_where_nobody_knows_how_many_are_left_a_batch_lasts_a_fifth_of_a_second():
    assert set(batches_of((run for run in some_runs(1000)), 20 * MS)[10:-1]) == {10}


@pytest.mark.parametrize(("run_us", "most"), [(1, 1024), (200 * MS, 5), (5_000 * MS, 1)])
def test_a_batch_has_a_run_at_least_and_not_more_than_a_scheduler_likes(run_us, most):
    assert max(batches_of(some_runs(30_000), run_us)) == most


def test_processes_of_this_machine_get_runs_for_twenty_milliseconds_to_the_end():
    assert set(batches_of(some_runs(500), 4 * MS, _OF_PROCESSES)[10:-1]) == {5}


def test_runs_of_virtual_time_are_taken_when_they_are_asked_for_and_live_ones_put_aside():
    given = some_runs(6, live=(0, 2, 5))
    taken = iter(given)
    virtual = _WithoutLive(taken)
    assert virtual.are_there()
    assert length_hint(taken) == 4, "the first two are taken, of which one is live"
    assert length_hint(virtual) == 5
    assert [run.number for run in virtual] == [1, 3, 4]
    assert [run.number for run in virtual.live] == [0, 2, 5]
    assert length_hint(virtual) == 0


def test_where_all_are_live_there_are_none_of_virtual_time():
    virtual = _WithoutLive(some_runs(2, live=(0, 1)))
    assert not virtual.are_there()
    assert len(virtual.live) == 2
