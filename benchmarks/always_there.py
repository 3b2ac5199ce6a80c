"""What callers notice of slow callers and of a batch system that hangs (I24): health, hooks, calls that need no batch.

    python benchmarks/always_there.py --seconds 20

The real service answers a prober, first alone; then beside 40 callers each that send a header or a body byte by byte,
that send nothing, and that wait for nodes, while `pbsnodes` hangs. Milliseconds; `ratio_p99`: beside by alone.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from balancer_load import Connection, start_service, wait_for_reserve

from balancer.clock import US, wall_us

if TYPE_CHECKING:
    from collections.abc import Sequence

_NODES, _RESERVE = 64, 8
_HEAD = b"POST /v1/request_nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
_WAITS = json.dumps({"nodes": _NODES, "wait_s": 600}).encode()
_KINDS = (
    _HEAD + b"X: ",
    _HEAD + b"Content-Length: 4000\r\n\r\n{",
    b"",
    _HEAD + b"Content-Length: %d\r\n\r\n" % len(_WAITS) + _WAITS,
)


class Prober:
    """Asks one thing after the other over connections that stay open; latencies in microseconds by kind of call."""

    def __init__(self, url: str, busy: str) -> None:
        self._url = url
        self._busy = busy
        self._others: dict[str, Connection] = {}

    def _took_us(self, kind: str, call: bytes) -> int:
        connection = self._others.setdefault(kind, Connection(self._url))
        begin_us = wall_us()
        connection.send(call)
        return wall_us() - begin_us

    def run(self, seconds: float) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"livez": [], "hook": [], "status": [], "nodes": []}
        pause, until_us, number = threading.Event(), wall_us() + round(seconds * US), 0
        while wall_us() < until_us:
            number += 1
            state = "busy" if number % 2 else "idle"
            hook = json.dumps({"states": {self._busy: state}, "job": f"{(number + 1) // 2}.server"}).encode()
            found["livez"].append(self._took_us("livez", _get("/livez")))
            found["hook"].append(self._took_us("hook", _post("/v1/update_nodes", hook)))
            found["status"].append(self._took_us("status", _get("/v1/status")))
            found["nodes"].append(self._took_us("nodes", _get(f"/v1/nodes/{self._busy}")))
            pause.wait(0.01)
        return found


def _get(path: str) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path.encode()


def _post(path: str, body: bytes) -> bytes:
    head = (
        b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (path.encode(), len(body)) + body


def batch_node(url: str) -> str:
    """One for the prober's hooks, which batch has."""
    connection = Connection(url)
    _, body = connection.send(_get("/v1/nodes?state=OA_IDLE"))
    connection.close()
    name: str = json.loads(body)["nodes"][-1]["name"]
    return name


def hang(programs: Path) -> None:
    real = programs / "pbsnodes"
    real.rename(programs / "pbsnodes.real")
    real.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    real.chmod(0o755)


def figures(found: dict[str, list[int]]) -> dict[str, float]:
    """Median, p99 and maximum of each kind."""
    made: dict[str, float] = {}
    for kind, taken in found.items():
        taken.sort()
        made[f"{kind}_p50_ms"] = taken[len(taken) // 2] / 1000
        made[f"{kind}_p99_ms"] = taken[len(taken) * 99 // 100] / 1000
        made[f"{kind}_max_ms"] = taken[-1] / 1000
    return made


def besieged(prober: Prober, address: tuple[str, int], seconds: float, each: int) -> dict[str, list[int]]:
    end = threading.Event()
    with ExitStack() as stack:
        slow: list[socket.socket] = []
        for kind in _KINDS * each:
            caller = stack.enter_context(closing(socket.create_connection(address, timeout=30)))
            caller.sendall(kind)
            slow += [caller] if kind in _KINDS[:2] else []
        sender = threading.Thread(target=_drip, args=(slow, end))
        sender.start()
        stack.callback(sender.join)
        stack.callback(end.set)
        return prober.run(seconds)


def _drip(callers: Sequence[socket.socket], end: threading.Event) -> None:
    while not end.wait(0.5):
        for caller in callers:
            try:
                caller.send(b"x")
            except OSError:
                continue  # its time was over: the service closed it


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--callers", type=int, default=40, help="of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service, url = start_service(folder, _NODES, 32, reserve=_RESERVE)
        try:
            wait_for_reserve(url, _RESERVE)
            parts = urlsplit(url)
            prober = Prober(url, batch_node(url))
            alone = figures(prober.run(options.seconds))
            hang(folder / "bin")
            address = (str(parts.hostname), int(parts.port or 0))
            beside = figures(besieged(prober, address, options.seconds, options.callers))
        finally:
            service.kill()
            service.wait()
    ratios = {
        f"{kind}_ratio_p99": round(beside[f"{kind}_p99_ms"] / alone[f"{kind}_p99_ms"], 2)
        for kind in ("livez", "hook", "status", "nodes")
    }
    for line in ({"alone": alone}, {"besieged": beside}, ratios):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
