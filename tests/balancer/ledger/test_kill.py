"""kill -9 of the real service while 8 callers write: what was acknowledged is stored, nothing is done twice (T3)."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from balancer.clock import wall_us
from balancer.ledger.reader import open_to_read
from balancer.ledger.replay import differences, replay
from gates import GATE
from ledger_kit import zygote
from polling import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(36_000)]
NODES, RESERVE, CALLERS = 24, 16, 8


class Service:
    """The process that is killed again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "ledger.db"
        self._log = (folder / "log").open("w", encoding="utf-8")
        self._zygote = subprocess.Popen(
            [sys.executable, zygote.__file__, str(folder), str(NODES), str(RESERVE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.pid = 0

    def start(self) -> tuple[str, int]:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self._zygote.stdin.write("start\n")
        self._zygote.stdin.flush()
        self.pid = int(self._zygote.stdout.readline())
        until(ready.exists, lambda: (self.folder / "log").read_text(encoding="utf-8")[-4000:])
        host, _, port = json.loads(ready.read_text(encoding="utf-8"))["url"].rpartition(":")
        return host.removeprefix("http://"), int(port)

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self.pid = 0

    def close(self) -> None:
        if self.pid:
            self.kill()
        self._zygote.stdin.close()
        self._zygote.wait(10)
        self._zygote.stdout.close()
        self._log.close()


class Caller:
    """Requests a node and gives it back. A call without an answer is repeated with its key after the restart."""

    def __init__(self) -> None:
        self.open = None  # (path, body, key) of the call that has no answer yet
        self.held = None
        self.unchecked = []  # (key, path, answer) that were acknowledged since the last check
        self.repeated = 0
        self.wrong = []

    def run(self, host: str, port: int) -> None:
        connection = http.client.HTTPConnection(host, port, timeout=20)
        self.repeated += self.open is not None
        try:
            while True:
                if self.open is None:
                    self.open = self.next_call()
                path, body, key = self.open
                headers = {"Content-Type": "application/json", "Idempotency-Key": key}
                connection.request("POST", path, json.dumps(body), headers)
                response = connection.getresponse()
                text = response.read()
                self.take(response.status, text)
        except (OSError, http.client.HTTPException):
            return  # killed
        finally:
            connection.close()

    @property
    def owned(self) -> list[str]:
        """What it may use: what it has begun to give back may be somebody else's already."""
        gives_back = self.open is not None and self.open[0].endswith("release_nodes")
        return [] if self.held is None or gives_back else self.held

    def next_call(self):
        if self.held is None:
            return "/v1/request_nodes", {"nodes": 1}, str(uuid4())
        return "/v1/release_nodes", {"nodes": self.held}, str(uuid4())

    def take(self, status: int, text: bytes) -> None:
        path, _, key = self.open
        answer = json.loads(text)
        if status == 200:
            self.unchecked.append((key, path, answer))
            self.held = answer["nodes"] if path.endswith("request_nodes") else None
        elif status == 503:
            return  # it is told to ask again
        elif not (status == 409 and answer["code"] == "balancer.not_obtainable"):
            self.wrong.append((status, answer))
        self.open = None


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    yield made
    made.close()


def check(db: Path, callers: list[Caller]) -> int:
    """All that was acknowledged is in the ledger as it was acknowledged, and the log gives the state."""
    reader = open_to_read(db)
    try:
        checked = 0
        for caller in callers:
            assert caller.wrong == []
            for key, path, answer in caller.unchecked:
                stored = reader.answer(key)
                assert stored is not None, (key, answer)
                if path.endswith("request_nodes"):
                    record = reader.request(stored.request_id)
                    assert record.status == "granted"
                    assert list(record.nodes) == answer["nodes"]
                checked += 1
            caller.unchecked.clear()
        owned = [node for caller in callers for node in caller.owned]
        assert len(owned) == len(set(owned)), "a node was given twice"
    finally:
        reader.close()
    return checked


def test_what_was_acknowledged_survives_every_kill(service):
    chance = random.Random(0)
    callers = [Caller() for _ in range(CALLERS)]
    acknowledged = 0
    start_us = wall_us()
    for _ in range(GATE.kills):
        host, port = service.start()
        threads = [threading.Thread(target=caller.run, args=(host, port)) for caller in callers]
        for thread in threads:
            thread.start()
        threading.Event().wait(chance.uniform(0.02, 0.25))
        service.kill()
        for thread in threads:
            thread.join()
        acknowledged += check(service.db, callers)
    took_s = (wall_us() - start_us) / 1e6
    reader = open_to_read(service.db)
    with reader.whole() as (base, log, stored, writer):
        events = list(log)
        assert differences(stored, replay(events, base)) == []
        assert writer.epoch >= GATE.kills
    requests = reader.requests(status=None, before=None, limit=10_000_000)
    reader.close()
    # One event for each request that was ever stored, and no node with two of them.
    assert [e.kind for e in events].count("nodes_requested") == len(requests)
    assert len({record.request_id for record in requests}) == len(requests)
    held = [each.name for each in stored.nodes if each.reserved_for is not None and each.state == "OD_ALLOC"]
    assert len(held) <= CALLERS
    repeated = sum(caller.repeated for caller in callers)
    print(f"{GATE.kills} kills in {took_s:.0f} s: {acknowledged} acknowledged, {repeated} repeated")
    assert acknowledged > GATE.kills
    assert repeated > 0
