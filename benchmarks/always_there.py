"""What callers notice of slow callers and of a batch system that hangs (I24): health, hooks, calls that need no batch.

    python benchmarks/always_there.py --seconds 20

A prober asks two real services in turns: one that has no other callers, and one beside 40 callers each that send a
header or a body byte by byte, that send nothing, and that wait for nodes, while its `pbsnodes` hangs. What else the
machine does is the same for both. Milliseconds; the last line is besieged by alone.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from balancer_load import Connection, start_service, wait_for_reserve
from speed_rows import print_rows, row

from balancer.clock import US, wall_us

if TYPE_CHECKING:
    from collections.abc import Sequence

_NODES, _RESERVE = 64, 8
_HEAD = b"POST /v1/request_nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def kinds(without: str) -> tuple[bytes, ...]:
    """What slow callers send: the first two go on byte by byte, the last one waits for all nodes but one."""
    waits = json.dumps({"nodes": _NODES - 1, "exclude": [without], "wait_s": 600}).encode()
    return (
        _HEAD + b"X: ",
        _HEAD + b"Content-Length: 4000\r\n\r\n{",
        b"",
        _HEAD + b"Content-Length: %d\r\n\r\n" % len(waits) + waits,
    )


_ASKED = ("livez", "hook", "status", "nodes")


class Prober:
    """Asks one service one thing after the other over open connections; `found`: microseconds by kind of call."""

    def __init__(self, url: str, busy: str) -> None:
        self._url = url
        self.busy = busy
        self._others: dict[str, Connection] = {}
        self.found: dict[str, list[int]] = {kind: [] for kind in _ASKED}

    def _took_us(self, kind: str, call: bytes) -> int:
        connection = self._others.setdefault(kind, Connection(self._url))
        begin_us = wall_us()
        connection.send(call)
        return wall_us() - begin_us

    def ask(self, number: int) -> None:
        """One call of each kind; the hook tells of the start and of the end of a job in turns."""
        state = "busy" if number % 2 else "idle"
        hook = json.dumps({"states": {self.busy: state}, "job": f"{(number + 1) // 2}.server"}).encode()
        self.found["livez"].append(self._took_us("livez", _get("/livez")))
        self.found["hook"].append(self._took_us("hook", _post("/v1/update_nodes", hook)))
        self.found["status"].append(self._took_us("status", _get("/v1/status")))
        self.found["nodes"].append(self._took_us("nodes", _get(f"/v1/nodes/{self.busy}")))


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
    """Percentiles of each kind."""
    made: dict[str, float] = {}
    for kind, taken in found.items():
        taken.sort()
        for name, percent in (("p50", 50), ("p90", 90), ("p99", 99)):
            made[f"{kind}_{name}_ms"] = taken[len(taken) * percent // 100] / 1000
        made[f"{kind}_max_ms"] = taken[-1] / 1000
    return made


def rows(alone: dict[str, float], besieged: dict[str, float]) -> list[dict[str, Any]]:
    """Two for each kind of call: in both situations."""
    return [
        row(
            f"{kind}, {where}",
            {name.removeprefix(f"{kind}_"): value for name, value in found.items() if name.startswith(kind)},
        )
        for kind in _ASKED
        for where, found in (("alone", alone), ("besieged", besieged))
    ]


def besiege(stack: ExitStack, url: str, each: int, without: str) -> None:
    """Slow callers of all kinds, until the stack is closed."""
    end = threading.Event()
    slow: list[socket.socket] = []
    parts, sent = urlsplit(url), kinds(without)
    for kind in sent * each:
        address = str(parts.hostname), int(parts.port or 0)
        caller = stack.enter_context(closing(socket.create_connection(address, timeout=30)))
        caller.sendall(kind)
        slow += [caller] if kind in sent[:2] else []
    sender = threading.Thread(target=_drip, args=(slow, end))
    sender.start()
    stack.callback(sender.join)
    stack.callback(end.set)


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
    parser.add_argument("--json", action="store_true", help="rows for the results file")
    options = parser.parse_args()
    with ExitStack() as stack:
        probers: list[Prober] = []
        for _ in range(2):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            service, url = start_service(folder, _NODES, 32, reserve=_RESERVE)
            stack.callback(service.wait)
            stack.callback(service.kill)
            wait_for_reserve(url, _RESERVE)
            probers.append(Prober(url, batch_node(url)))
        hang(folder / "bin")
        besiege(stack, url, options.callers, probers[-1].busy)
        pause, until_us, number = threading.Event(), wall_us() + round(options.seconds * US), 0
        while wall_us() < until_us:
            number += 1
            for prober in probers:
                prober.ask(number)
            pause.wait(0.01)
    alone, beside = (figures(prober.found) for prober in probers)
    ratios = {
        key.replace("_ms", "_ratio"): round(beside[key] / alone[key], 2) for key in alone if "max" not in key
    }
    if options.json:
        print_rows(rows(alone, beside | ratios))
        return
    for line in ({"alone": alone}, {"besieged": beside}, ratios):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
