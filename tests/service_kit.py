"""Builders for tests of the service: a batch system in memory, and an engine on a clock moved by hand."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from balancer.algorithms.basic import Basic
from balancer.clock import micros
from balancer.drivers.base import UNKNOWN, NodeStatus, UnclearError
from balancer.drivers.marks import Stamp, mark_text, parse
from balancer.ledger.replay import replay
from balancer.ledger.store import Ledger
from balancer.policy_settings import ReserveRule, Settings
from balancer.service.callers import CallerSettings
from balancer.service.calls import EngineSettings
from balancer.service.commands import CommandSettings
from balancer.service.engine import Engine
from balancer.service.freeze import Freeze
from balancer.service.metrics import Metrics
from balancer.timestamps import iso
from ledger_kit.empty import empty_ledger
from manual_clock import ManualClock
from polling import until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from balancer.drivers.cloud import CloudStatus
    from balancer.lifecycle.records import RequestRecord


class FakeBatch:
    """A batch system in memory; the driver and the thing itself. Every command is noted in `calls`."""

    name = "fake"

    def __init__(self, nodes: Iterable[str]) -> None:
        self.lock = threading.Lock()
        self.marked: dict[str, bool] = dict.fromkeys(nodes, False)
        self.jobs: dict[str, str] = {}
        self.down: set[str] = set()
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.fails: dict[str, Exception] = {}
        self.without_effect: set[str] = set()
        self.ours: set[str] = set()
        self.stamps: dict[str, Stamp] = {}
        self.reports: dict[str, NodeStatus] | None = None
        self.lies = 0
        self.gate = threading.Event()
        self.gate.set()

    def _command(self, name: str, nodes: Iterable[str]) -> None:
        self.gate.wait()
        with self.lock:
            self.calls.append((name, tuple(nodes)))
            if name in self.fails:
                raise self.fails[name]

    def reclaim_nodes(self, nodes: Iterable[str], *, why: str = "") -> None:
        self._command("reclaim", nodes)
        self._mark(nodes, "reclaim", marked=True)
        mark = parse(mark_text("ours", why), "ours")
        if mark is not None and mark.stamp is not None and "reclaim" not in self.without_effect:
            self.stamps |= dict.fromkeys(nodes, mark.stamp)

    def restore_nodes(self, nodes: Iterable[str]) -> None:
        self._command("restore", nodes)
        self._mark(nodes, "restore", marked=False)

    def _mark(self, nodes: Iterable[str], name: str, *, marked: bool) -> None:
        with self.lock:
            if name not in self.without_effect:
                self.marked |= dict.fromkeys(nodes, marked)

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        wanted = tuple(nodes)
        self._command("status", wanted)
        if self.reports is not None:
            return {node: self.reports.get(node, UNKNOWN) for node in wanted}
        return {node: self.status(node) for node in wanted}

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        self._command("status all", ())
        if self.reports is not None:
            return dict(self.reports)
        return {node: self.status(node) for node in self.marked}

    def status(self, node: str) -> NodeStatus:
        with self.lock:
            if node not in self.marked:
                return UNKNOWN
            marked = self.marked[node]
            jobs = (self.jobs[node],) if node in self.jobs else ()
            if node in self.down:
                return NodeStatus("down", jobs, marked=marked)
            if marked and self.lies > 0:
                self.lies -= 1
                return NodeStatus("offline", (), marked=True)
            if marked:
                stamp = self.stamps.get(node)
                return NodeStatus("offline", jobs, marked=True, is_ours=node in self.ours, stamp=stamp)
            return NodeStatus("busy" if jobs else "idle", jobs)

    def commands(self) -> list[tuple[str, tuple[str, ...]]]:
        """Those that change something."""
        with self.lock:
            return [call for call in self.calls if not call[0].startswith("status")]


class ClaimingBatch(FakeBatch):
    """One that keeps a note of whose its nodes are."""

    keeps_claims = True

    def __init__(self, nodes: Iterable[str]) -> None:
        super().__init__(nodes)
        self.claims: dict[str, str] = {}

    def read_claims(self) -> dict[str, str]:
        self._command("status claims", ())
        return dict(self.claims)

    def renew_claim(self, ledger_id: str, *, instead_of: Collection[str] = ()) -> None:
        self._command("status renew", tuple(instead_of))
        count = int(self.claims.get(ledger_id, "0")) + 1
        kept = {key: text for key, text in self.claims.items() if key not in instead_of}
        self.claims = kept | {ledger_id: str(count)}


class FakeCloud:
    """A cloud in memory; `hosts` None: it does not answer."""

    name = "fake"

    def __init__(self) -> None:
        self.hosts: dict[str, CloudStatus] | None = {}

    def get_status_of_hosts(self) -> dict[str, CloudStatus]:
        if self.hosts is None:
            raise UnclearError("the cloud did not answer in time")
        return dict(self.hosts)


class WatchedClock(ManualClock):
    """A manual clock that tells whether timers are firing at this moment."""

    def __init__(self, now_us: int = 0) -> None:
        super().__init__(now_us)
        self._firing = False

    @contextmanager
    def paused(self) -> Iterator[int]:
        # Others hold it, too: an answer until it has been sent, which no test here does.
        if threading.current_thread().name == "timers":
            self._firing = True
        try:
            with super().paused() as now_us:
                yield now_us
        finally:
            if threading.current_thread().name == "timers":
                self._firing = False

    def is_quiet(self, engine: Engine) -> bool:
        """No timer of this service is due or firing, and none of its commands is under way.

        In this order: a timer that fires is due no more before it has done anything, and a command is under way
        before the timer that wanted it has fired.
        """
        return (
            engine._timers._wake_us > self.now_us()
            and not self._firing
            and engine._commander.pending == 0
            and engine._reader.is_idle
        )


_LEDGER_IDS = cycle(f"1ed9e00{number}" for number in range(4))
"""Worlds of one test have ledgers with different names."""


class World:
    """A service on a manual clock; `restart` stops its engine and starts another on the same ledger."""

    def __init__(self, folder: Path, *, nodes: int = 6, **options: Any) -> None:
        self.names = [f"n{number:02d}" for number in range(1, nodes + 1)]
        self.db = folder / "ledger.db"
        if not self.db.exists():
            self.db.touch(mode=0o600)
            self.db.write_bytes(empty_ledger(next(_LEDGER_IDS)))
        self.clock = WatchedClock(micros(1000))
        self.batch = FakeBatch(self.names)
        self.cloud = FakeCloud()
        self.options = options
        self.freeze = Freeze(folder / "frozen")
        self.engine = self._started()

    def _started(self) -> Engine:
        options = dict(self.options)
        lifecycle = Settings(
            static_reserve=options.pop("reserve", 0),
            reserve_rule=options.pop("reserve_rule", ReserveRule.FIXED),
            wait_us=micros(options.pop("wait_s", 0)),
            idle_reserve_us=micros(options.pop("idle_reserve_s", 600)),
            at_once_us=micros(options.pop("at_once_s", 5)),
            confirm_us=micros(options.pop("confirm_s", 0)),
        )
        settings = EngineSettings(
            reconcile_period_s=options.pop("reconcile_period_s", 60.0),
            refresh_age_s=options.pop("refresh_age_s", 0.0),
            max_waiting_requests=options.pop("max_waiting_requests", 10_000),
            max_reserves=options.pop("max_reserves", 10_000),
            quarantine_s=options.pop("quarantine_s", 600.0),
            plan_limit_s=options.pop("plan_limit_s", 5.0),
            mark_wait_s=options.pop("mark_wait_s", 60.0),
            callers=options.pop("callers", CallerSettings()),
            unreachable_s=options.pop("unreachable_s", 90.0),
            commands=CommandSettings(
                confirm_poll_s=0.005, confirm_limit_s=options.pop("confirm_limit_s", 5.0)
            ),
        )
        ledger = Ledger(self.db, lock_wait_s=0)
        driver = options.pop("driver", lambda _, batch: batch)(ledger, self.batch)
        try:
            engine = Engine(
                self.names,
                options.pop("algorithm", Basic()),
                lifecycle,
                ledger=ledger,
                driver=driver,
                cloud=self.cloud if options.pop("has_cloud", True) else None,
                clock=self.clock,
                metrics=Metrics("fake"),
                settings=settings,
                freeze=self.freeze,
            )
        except Exception:
            ledger.close()
            raise
        assert not options, options
        engine.start()
        return engine

    def restart(self) -> None:
        self.engine.stop()
        self.engine = self._started()

    def close(self) -> None:
        self.batch.gate.set()
        self.engine.stop()

    # The client's side

    def asked(self, count: int, wait_s: float | None = None, **more: Any) -> RequestRecord:
        """A request, as it is once it has been decided."""
        wait_us = None if wait_s is None else micros(wait_s)
        record = self.engine.submit_request(count, wait_us, **more)
        waiter = self.engine.wait_for_request(record.request_id, 60.0)
        assert waiter is not None
        assert waiter.record is not None
        waiter.hold.close()
        return waiter.record

    # The batch system's side

    def fails(self, *nodes: str) -> str:
        """The batch system calls these nodes down for a minute; since when, as the API says it."""
        self.batch.down |= {*nodes}
        self.clock.advance_to(self.clock.now_us() + micros(1))
        since_us = self.clock.now_us()
        self.engine.reconcile()
        self.clock.advance_to(since_us + micros(60))
        self.engine.reconcile()
        return iso(since_us)

    def start_job(self, job: str, *nodes: str, hook: bool = True) -> None:
        """A job begins; without `hook` the Balancer is not told."""
        with self.batch.lock:
            self.batch.jobs |= dict.fromkeys(nodes, job)
        if hook:
            self.engine.update_nodes(busy=nodes, job=job)

    def end_job(self, job: str, *, hook: bool = True) -> None:
        """The epilogue tells the Balancer while the job is still listed; then it is gone."""
        nodes = tuple(node for node, its in self.batch.jobs.items() if its == job)
        if hook:
            self.engine.update_nodes(idle=nodes, job=job)
        with self.batch.lock:
            for node in nodes:
                del self.batch.jobs[node]

    # Looking

    def states(self) -> dict[str, str]:
        return {record.name: record.state.value for record in self.engine.nodes()}

    def log(self) -> list[str]:
        """The kinds of all events but timers, which come when they come."""
        events = self.engine.ledger.events(0, 10_000)
        return [event.kind for event in events if event.kind != "timer_fired"]

    def _done_so_far(self) -> tuple[int, int]:
        """The last event, and how many readings there were."""
        return self.engine.ledger.last_seq(), self.engine._reader._attempts

    def settled(self) -> dict[str, str]:
        """The states once no command or reading is under way and no timer is due."""

        def is_settled() -> bool:
            # Each may set off the others: quiet is only what is quiet twice, with nothing done in between.
            before = self._done_so_far()
            return (
                self.clock.is_quiet(self.engine)
                and self.clock.is_quiet(self.engine)
                and self._done_so_far() == before
            )

        until(is_settled)
        return self.states()


def check_replay(ledger: Ledger) -> None:
    """What the events say is what the tables hold."""
    with ledger.whole() as (base, log, stored, _):
        assert replay(log, base) == stored


@contextmanager
def running(action: Callable[[], Any]) -> Iterator[list[Any]]:
    """`action` in a thread; its result (or exception) is in the list when the block has ended."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(action())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield result
    finally:
        thread.join(60)
        assert not thread.is_alive()
