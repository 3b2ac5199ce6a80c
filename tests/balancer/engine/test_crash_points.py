"""The process ends at every point around every save, commit, command and reply (T2).

The points are found by running: each statement and COMMIT of the ledger, each command of the driver, before and
after, and each reply. For each passage of each of them the same story is told once more to a service that ends
exactly there; another one is started on what is left, and the caller repeats the call it got no answer to.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from balancer.clock import micros
from balancer.policy_settings import ReserveRule
from balancer.service.decision import Key
from gates import GATE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200 * GATE.patience),
    # The threads of a process that has ended have ended, too.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


LAST = {"OD_ALLOC": 2, "OD_RESERVE": 1, "OA_IDLE": 1}
"""How the nodes are at the end of the story."""


class EndError(BaseException):
    """What a thread gets when it passes a point after the process has ended, or the one where it ends."""


class Fate:
    """Counts the passages of each point; ends the process at one of them. `then`: of the process after it."""

    def __init__(self, point: str = "", number: int = 0, then: Fate | None = None) -> None:
        self.end = point, number
        self.then = then
        self.seen: Counter[str] = Counter()
        self.is_over = self.is_spared = False
        self._lock = threading.Lock()

    def spare(self) -> bool:
        """The story is told: it does not end here any more, unless it has already."""
        with self._lock:
            self.is_spared = not self.is_over
            return self.is_spared

    def point(self, name: str) -> None:
        with self._lock:
            if self.is_spared:
                return
            self.seen[name] += 1
            if (name, self.seen[name]) == self.end:
                self.is_over = True
            if self.is_over:
                raise EndError


class Driver:
    """The batch system with a point before and after each command; checks that each has its intent (I5)."""

    name = "fake"

    def __init__(self, ledger, batch, fate, wrong):
        self._ledger, self._batch, self._fate, self._wrong = ledger, batch, fate, wrong

    def _check(self, command, nodes, allowed):
        states = {each.name: each.state.value for each in self._ledger.load().nodes}
        self._wrong += [(command, node, states[node]) for node in nodes if states[node] not in allowed]

    def reclaim_nodes(self, nodes, *, why=""):
        self._fate.point("before reclaim")
        self._check("reclaim", nodes, ("RECLAIMING", "OD_RESERVE", "OD_ALLOC"))
        self._batch.reclaim_nodes(nodes)
        self._fate.point("after reclaim")

    def restore_nodes(self, nodes):
        self._fate.point("before restore")
        self._check("restore", nodes, ("RESTORING", "RECLAIMING"))
        self._batch.restore_nodes(nodes)
        self._fate.point("after restore")

    def get_status_of_nodes(self, nodes):
        self._fate.point("before status")
        found = self._batch.get_status_of_nodes(nodes)
        self._fate.point("after status")
        return found

    def get_status_of_all_nodes(self):
        self._fate.point("before status of all")
        found = self._batch.get_status_of_all_nodes()
        self._fate.point("after status of all")
        return found


class Story:
    """A request, a release and a hint, two jobs with their hooks, and the way back to batch."""

    def __init__(self, kit, folder, fate):
        self.kit, self.fate, self.wrong, self.deaths = kit, fate, [], 0
        self.w = None
        self.acknowledged = {}
        self.folder = folder

    def driver(self, ledger, batch):
        fate = self.fate

        def statement(connection, *_):
            if connection.get_execution_options().get("writes"):
                fate.point("statement")

        def end_of_transaction(connection):
            if connection.get_execution_options().get("writes"):
                fate.point("before COMMIT")

        stored = ledger.commit

        def commit(entries):
            fate.point("before save")
            stored(entries)
            fate.point("after save")

        ledger.commit = commit
        sa.event.listen(ledger._engine, "before_cursor_execute", statement)
        sa.event.listen(ledger._engine, "commit", end_of_transaction)
        return Driver(ledger, batch, fate, self.wrong)

    def tell(self):
        self.start()
        for name, step in (
            ("busy", lambda e, k: e.update_nodes(busy=("n04",), job="1.server", key=replace(k, answer="{}"))),
            ("request", lambda e, k: e.submit_request(2, key=k)),
            ("hint", lambda e, k: e.add_reserve(1, micros(60), key=k, answer=lambda r: r.reserve_id)),
            ("wait", lambda e, k: e.submit_request(2, key=k)),
            ("idle", lambda e, k: e.update_nodes(idle=("n04",), job="1.server", key=replace(k, answer="{}"))),
        ):
            if name == "busy":
                self.w.batch.jobs["n04"] = "1.server"
            if name == "idle":
                self.w.batch.jobs.clear()
            self.call(name, step)
        first = self.granted("request")
        self.granted("wait")
        self.call("release", lambda e, k: e.release_nodes(first, key=replace(k, answer="{}")))
        self.w.clock.advance_to(micros(2000))
        self.settle()
        while not self.fate.spare():
            self.bury()
            self.start()
            self.settle()
        return self

    def start(self):
        while True:
            try:
                if self.w is None:
                    self.w = self.kit.World.__new__(self.kit.World)
                    self.w.engine = None
                    self.w.__init__(
                        self.folder,
                        nodes=4,
                        reserve=1,
                        reserve_rule=ReserveRule.REFILLED,
                        wait_s=900,
                        driver=self.driver,
                    )
                else:
                    # The clock's alarms belong to those that have ended.
                    self.w.clock = self.kit.WatchedClock(self.w.clock.now_us())
                    self.w.engine = self.w._started()
            except EndError:
                self.bury()
            else:
                return

    def bury(self):
        """What is left of a process that has ended: nothing that could still do something."""
        self.deaths += 1
        self.fate = self.fate.then or Fate()
        for engine in list(self.kit.MADE):
            engine._writer.stop()
            if engine._commander._thread.ident is not None:
                engine._commander.stop()
            engine._reader.stop()
            engine._callers.stop()
            engine._timers.stop()
            engine._bounded.stop()
            ledger = engine.ledger
            ledger._writer.close()  # takes back what was not committed
            ledger._engine.dispose()
            if ledger._lock_fd is not None:
                os.close(ledger._lock_fd)
                ledger._lock_fd = None
        self.kit.MADE.clear()

    def call(self, name, step):
        """Until it is answered, with the same key each time."""
        key = Key(name, f"digest of {name}")
        while True:
            try:
                with self.w.engine.idempotent(key) as stored:
                    if stored is None:
                        step(self.w.engine, key)
                self.fate.point("before reply")
                stored = self.w.engine.ledger.answer(name)
                assert stored is not None, f"{name} was answered and is not stored"
                if not self.fate.is_over:
                    self.acknowledged[name] = stored
                    return
            except EndError:
                pass
            except Exception:
                if not self.fate.is_over:
                    raise
            self.bury()
            self.start()

    def granted(self, name):
        request_id = self.acknowledged[name].request_id
        while True:
            found = self.w.engine.wait_for_request(request_id, 0.02)
            if self.fate.is_over:
                self.bury()
                self.start()
            elif found.record.status == "granted":
                for node in found.record.nodes:
                    assert self.w.batch.status(node).is_handed_over, node  # I1
                return found.record.nodes

    def settle(self):
        while True:
            try:
                engine = self.w.engine
                self.kit.until(lambda e=engine: self.fate.is_over or self.w.clock.is_quiet(e))
                if not self.fate.is_over:
                    engine.reconcile()
                    before = self.w.batch.commands()
                    engine.reconcile()
                    if engine._commander.pending == 0 and before == self.w.batch.commands():
                        return
            except EndError:
                pass
            if self.fate.is_over:
                self.bury()
                self.start()

    def outcome(self):
        """What every telling must lead to; and the invariants."""
        ledger, w = self.w.engine.ledger, self.w
        self.kit.until(lambda: Counter(w.states().values()) == LAST and w.engine._commander.pending == 0)
        assert self.wrong == []
        self.kit.check_replay(ledger)
        numbers = [event.seq for event in ledger.events(0, 10_000)]
        assert numbers == list(range(1, len(numbers) + 1))
        for name, answer in self.acknowledged.items():
            assert ledger.answer(name) == answer
        for record in w.engine.nodes():
            assert record.state in ("OA_IDLE", "OA_BUSY") or w.batch.status(record.name).is_handed_over
            assert record.state not in ("OA_IDLE", "OA_BUSY") or not w.batch.marked[record.name]
        found = ledger.requests(status=None, before=None, limit=100)
        return [(each.count, each.status.value) for each in found]


@pytest.fixture
def story(kit, monkeypatch):
    """Tells stories in a folder in memory (a process that ends loses nothing that was written)."""
    memory = Path("/dev/shm")  # noqa: S108 - only where to look for it
    base = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    kit.MADE = []
    plain = kit.Engine

    def engine(*args, **options):
        kit.MADE.append(plain(*args, **options))
        return kit.MADE[-1]

    monkeypatch.setattr(kit, "Engine", engine)
    running = None

    def tell(fate):
        nonlocal running
        shutil.rmtree(base / "story", ignore_errors=True)
        (base / "story").mkdir()
        running = Story(kit, base / "story", fate)
        return running.tell()

    yield tell
    if running is not None and running.w is not None and running.w.engine is not None:
        running.w.engine.stop()
    shutil.rmtree(base)


POINTS = (
    "statement",
    "before COMMIT",
    "before save",
    "after save",
    "before reclaim",
    "after reclaim",
    "before restore",
    "after restore",
    "before status",
    "after status",
    "before status of all",
    "after status of all",
    "before reply",
)


@pytest.fixture
def told(story, kit):
    """`told(fate)`: the story with this fate told, judged and put away."""

    def tell(fate):
        done = story(fate)
        assert done.outcome() == [(2, "granted"), (2, "granted")], fate.end
        done.w.engine.stop()
        done.w.engine = None
        kit.MADE.clear()
        return done

    return tell


@pytest.mark.parametrize("point", POINTS)
def test_a_service_that_ends_at_any_point_loses_nothing_and_does_nothing_twice(told, point):
    """At the first passage, the second and so on until there is none, and around again until it is enough.

    How often a point is passed differs from telling to telling: how often states are polled does.
    """
    ended = number = rounds = 0
    while ended < GATE.crashes_a_point or not rounds:
        number += 1
        fate = Fate(point, number)
        deaths = told(fate).deaths
        assert deaths == (fate.seen[point] >= number)
        ended += deaths
        if not deaths:
            assert number > 1, "the story does not pass here at all"
            number, rounds = 0, rounds + 1
        assert set(fate.seen) <= set(POINTS)


@pytest.mark.parametrize("first", POINTS)
def test_a_service_that_ends_again_while_it_recovers_loses_nothing_either(told, first):
    """All ordered pairs: one end in the middle of the story, the next at the first passage after the restart."""

    whole = told(Fate()).fate
    middle = (whole.seen[first] + 1) // 2
    deaths = sum(told(Fate(first, middle, Fate(second, 1))).deaths for second in POINTS)
    assert deaths > len(POINTS), "most of them ended twice"
