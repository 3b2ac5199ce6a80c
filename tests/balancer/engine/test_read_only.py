"""Nothing can be stored: the service turns read-only, says so, and recovers by itself (T22)."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing

import pytest
import structlog

from balancer.http.app import create_app
from balancer.ledger import connect, log
from balancer.ledger.errors import LedgerError, ReadOnlyError
from balancer.ledger.store import Ledger
from balancer.service.engine import Engine


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB of its own; None where mounting is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    yield folder if mounted else None
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def full(world, disk):
    """Fill the disk to the last byte; returns how to make room again."""
    if disk is None:
        return limited(world, disk)
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return filler.unlink


def limited(world, disk):
    """SQLite's own limit on the file gives the very error of a full disk."""
    connection = world.engine.ledger._writer.connection.dbapi_connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return lambda: connection.execute("PRAGMA max_page_count = 1000000")


def read_only(world, disk):
    connection = world.engine.ledger._writer.connection.dbapi_connection
    connection.execute("PRAGMA query_only = ON")
    return lambda: connection.execute("PRAGMA query_only = OFF")


def busy(world, disk):
    """Somebody holds the database's lock for longer than a writer waits for it."""
    other = sqlite3.connect(world.db, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def test_a_ledger_that_cannot_be_opened_on_a_full_disk_says_that_it_is_full(small_disk):
    if small_disk is None:
        pytest.skip("nothing may be mounted here")
    path = small_disk / "ledger.db"
    Ledger(path).close()
    full(None, small_disk)
    with pytest.raises(LedgerError, match=r"ledger\.db cannot be (opened|written): .*disk is full"):
        Ledger(path).take_epoch()


@pytest.mark.parametrize("fault", [full, limited, read_only, busy])
def test_the_service_turns_read_only_says_so_and_recovers_by_itself(
    world, kit, small_disk, fault, monkeypatch
):
    monkeypatch.setattr(connect, "_BUSY_TIMEOUT_MS", 50)
    w = world(nodes=4, reserve=4, **({"folder": small_disk} if small_disk is not None else {}))
    before = w.settled()
    api = create_app(w.engine).test_client()
    mend = fault(w, small_disk)
    taken = [request_until_it_fails(w)]
    assert "read-only" in w.engine.problem()
    ready, refused = api.get("/readyz"), api.post("/v1/request_nodes", json={"nodes": 1})
    assert (ready.status_code, refused.status_code) == (503, 503)
    assert ready.text.startswith("read-only: ")
    assert refused.json["code"] == "balancer.read_only"
    with pytest.raises(ReadOnlyError):
        w.engine.release_nodes(("n01",))
    assert api.get("/v1/nodes").status_code == 200
    assert api.get("/livez").status_code == 200
    mend()
    kit.until(lambda: w.engine.problem() is None)
    for record in taken[0]:
        w.engine.release_nodes(record.nodes)
    assert w.settled() == before
    assert w.asked(4).nodes == ("n01", "n02", "n03", "n04")
    assert api.get("/readyz").status_code == 200
    numbers = [event.seq for event in w.engine.ledger.events(0, 100_000)]
    assert numbers == list(range(1, len(numbers) + 1))
    kit.check_replay(w.engine.ledger)


def test_a_disk_that_stays_full_is_one_line_in_the_log_and_not_one_for_each_part_that_notices(
    world, kit, monkeypatch
):
    monkeypatch.setattr("balancer.service.writer._PROBE_S", 0.05)
    w = world(nodes=4, reserve=1, reconcile_period_s=0)
    w.settled()
    with structlog.testing.capture_logs() as lines:
        mend = read_only(w, None)
        with pytest.raises(LedgerError):
            w.engine.submit_request(1)
        before = tries_of(w)
        w.batch.jobs["n04"] = "1.server"  # a look has news to store, and is repeated
        w.engine._reader.ask()
        w.engine._timers.wake_at(0)
        kit.until(lambda: all(now >= was + 3 for now, was in zip(tries_of(w), before, strict=True)))
        mend()
        kit.until(lambda: w.engine.problem() is None)
    cause = f"the ledger {w.db} cannot be written: attempt to write a readonly database"
    assert [(line["event"], line.get("error")) for line in lines] == [
        ("nothing can be stored until the ledger can be written again", cause),
        ("the ledger can be written again", None),
    ]


def test_what_lasts_is_logged_at_once_then_once_a_minute_and_its_end_once(monkeypatch):
    now_us = 0
    monkeypatch.setattr(log, "wall_us", lambda: now_us)
    outage = log.Outage(structlog.get_logger())
    with structlog.testing.capture_logs() as lines:
        for now_us in range(0, 121_000_000, 1_000_000):
            outage.lasts(f"full at {now_us // 1_000_000} s", LedgerError("no room"))
        for _ in range(2):
            outage.over("it has room")
    assert [(line["event"], line["log_level"], line.get("error")) for line in lines] == [
        ("full at 0 s", "error", "no room"),
        ("full at 60 s", "error", "no room"),
        ("full at 120 s", "error", "no room"),
        ("it has room", "info", None),
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ReadOnlyError("full"), []),
        (LedgerError("gone"), [{"event": "it failed", "log_level": "error", "error": "gone", "part": 1}]),
    ],
)
def test_an_error_of_the_ledger_is_a_line_without_a_traceback(error, said):
    with structlog.testing.capture_logs() as lines:
        log.log_failure(structlog.get_logger(), "it failed", error, part=1)
    assert lines == said


def test_an_error_that_is_not_the_ledgers_is_logged_with_its_traceback():
    error = ZeroDivisionError("a bug")
    with structlog.testing.capture_logs() as lines:
        log.log_failure(structlog.get_logger(), "it failed", error)
    assert lines == [{"event": "it failed", "log_level": "error", "exc_info": error}]


def tries_of(w):
    """How often the parts tried: the reader, and the commander or whoever looks at all nodes."""
    return w.engine._reader._attempts, w.batch.calls.count(("status all", ()))


def request_until_it_fails(w):
    """Requests that were granted while there was still a little room."""
    taken = []
    for _ in range(3000):
        try:
            record = w.engine.submit_request(1)
            taken.append(record)
            if len(taken) == 2:
                w.engine.release_nodes(taken[0].nodes)
                del taken[0]
        except LedgerError:
            return taken
    raise AssertionError("the fault has no effect")


def test_a_database_that_is_busy_when_the_service_starts_is_named(world, monkeypatch):
    monkeypatch.setattr(connect, "_BUSY_TIMEOUT_MS", 50)
    w = world(nodes=2)
    w.engine.stop()
    with closing(sqlite3.connect(w.db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"cannot be opened: .*database is locked"):
            w._started()
    w.engine = w._started()


def test_a_start_that_cannot_be_stored_says_so_and_can_be_ended(world, monkeypatch):
    w = world(nodes=2)
    w.engine.stop()
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "start", lambda _: None)
        w.engine = w._started()

    def no_room(*_):
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "commit", no_room)
        with pytest.raises(LedgerError, match="the disk is full"):
            w.engine.start()
    w.engine.stop()
    w.engine = w._started()
    assert w.engine.problem() is None
