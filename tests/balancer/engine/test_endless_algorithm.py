"""An algorithm that does not come back (T20): the call fails naming it, and the service goes on."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest

from balancer.algorithms.basic import Basic
from balancer.algorithms.interface import Plan
from balancer.algorithms.time_limit import Bounded, _Call, _TooLong
from balancer.lifecycle.errors import BadPlan

LIMIT_S = 1.0


class Moody:
    """`basic`, or whatever it is told to do instead."""

    def __init__(self):
        self.mood = None
        self._basic = Basic()

    def plan(self, view):
        return self._basic.plan(view) if self.mood is None else self.mood(view)


def loops(_):
    while True:
        pass


def loops_and_catches_all_errors(_):
    while True:
        try:
            [].pop()
        except Exception:  # noqa: BLE001, S112 - what a careless plug-in does
            continue


def sleeps_a_little_at_a_time(_):
    while True:
        threading.Event().wait(0.001)


def swallows_even_the_interruption(_):
    try:
        loops(_)
    except BaseException:  # noqa: BLE001 - what a hostile plug-in does
        return Plan()


ENDLESS = [loops, loops_and_catches_all_errors, sleeps_a_little_at_a_time, swallows_even_the_interruption]


@pytest.fixture
def moody(world):
    algorithm = Moody()
    w = world(nodes=4, reserve=2, algorithm=algorithm, plan_limit_s=LIMIT_S)
    w.settled()
    w.algorithm = algorithm
    return w


@pytest.mark.sample(2)
@pytest.mark.parametrize("mood", ENDLESS)
def test_a_request_is_refused_naming_it_and_nothing_moves(moody, mood):
    before = moody.states()
    moody.algorithm.mood = mood
    with pytest.raises(BadPlan, match=r"algorithm Moody: raised TimeoutError: it had no plan within 1 s"):
        moody.engine.submit_request(1)
    assert moody.states() == before
    moody.algorithm.mood = None
    assert moody.engine.submit_request(1).status == "granted"


def test_what_a_hook_reports_is_stored_all_the_same(moody):
    moody.algorithm.mood = loops
    moody.start_job("1.server", "n04")
    assert moody.states()["n04"] == "OA_BUSY"
    moody.algorithm.mood = None
    moody.restart()
    assert moody.states()["n04"] == "OA_BUSY"


def test_the_service_can_be_read_meanwhile_and_says_what_it_waits_for(moody, kit):
    engine, let_go = moody.engine, threading.Event()
    moody.algorithm.mood = lambda _: let_go.wait()  # not Python code: it cannot be interrupted
    with kit.running(lambda: engine.submit_request(1)) as answer:
        kit.until(lambda: engine.problem() == "the algorithm Moody does not come back with a plan")
        assert len(engine.nodes()) == 4
        let_go.set()
    assert isinstance(answer[0], BadPlan)
    moody.algorithm.mood = None
    kit.until(lambda: engine.problem() is None)
    assert engine.submit_request(1).status == "granted"


@pytest.mark.sample(1)
@pytest.mark.parametrize("mood", [loops, sleeps_a_little_at_a_time])
def test_a_service_whose_algorithm_never_comes_back_can_be_stopped_and_loses_nothing(moody, kit, mood):
    granted = moody.engine.submit_request(1)
    moody.algorithm.mood = mood
    with kit.running(lambda: moody.engine.submit_request(1)) as answer:
        moody.engine.stop()
    assert isinstance(answer[0], Exception)
    moody.algorithm.mood = None
    moody.engine = moody._started()
    assert moody.engine.ledger.request(granted.request_id) == granted
    kit.check_replay(moody.engine.ledger)


def test_no_interruption_reaches_the_service_although_plans_end_just_then(world, kit):
    """Plans that take about as long as they may, over and over: each has its plan or is refused.

    On a busy machine whoever interrupts them may be late: then they take longer.
    """
    algorithm = Moody()
    w = world(nodes=2, reserve=2, algorithm=algorithm, plan_limit_s=0.01)
    w.settled()
    pause = threading.Event()

    def takes_long(view):
        pause.wait(0.011 + 0.01 * (sum(ends.values()) // 100))
        return algorithm._basic.plan(view)

    ends = {"granted": 0, "rejected": 0, "refused": 0}
    algorithm.mood = takes_long
    while sum(ends.values()) < 100 or not ends["refused"]:
        try:
            record = w.engine.submit_request(1)
        except BadPlan:
            ends["refused"] += 1
            continue
        ends[record.status.value] += 1
        if record.nodes:
            w.engine.release_nodes(record.nodes)
    kit.check_replay(w.engine.ledger)


class EndsAtOnce(_Call):
    """A call that whoever interrupts has got hold of, though its plan is there."""

    __slots__ = ("looks",)

    def __init__(self):
        super().__init__()
        self.looks = iter((False, False, True))
        self.end.acquire()

    @property
    def interrupted(self):
        return next(self.looks, True)

    @interrupted.setter
    def interrupted(self, _):
        pass


def test_wherever_an_interruption_comes_after_the_plan_it_can_be_stopped():
    """At each line and return of what then runs, one after the other."""
    for place in itertools.count():
        bounded, left = Bounded(Moody(), "Moody", LIMIT_S), itertools.count(place, -1)
        came = threading.Event()

        def interrupt(frame, event, _, left=left, came=came):
            if event in {"line", "return"} and next(left) == 0:
                came.set()
                raise _TooLong
            return interrupt

        def finish(bounded=bounded, interrupt=interrupt):
            sys.settrace(interrupt)
            try:
                bounded._finish(EndsAtOnce())
            except _TooLong:
                sys.settrace(None)

        for action in (finish, bounded.stop):
            thread = threading.Thread(target=action, daemon=True)
            thread.start()
            thread.join(5)
            assert not thread.is_alive(), f"locked by an interruption at step {place}"
        if not came.is_set():
            break
    assert place > 5
