"""Load on the real service: request/release pairs over keep-alive connections, each answer durable.

    python benchmarks/balancer_load.py --seconds 60 --nodes 372 --pairs-per-s 264
    python benchmarks/balancer_load.py --nodes 372 --pairs-per-s 264 --against ../another-checkout

The service runs as a process of its own with SQLite in FULL synchronous mode and R = all nodes, so that every
pair moves a node OD_RESERVE -> OD_ALLOC -> OD_RESERVE without a batch command (a fake `pbsnodes`, which keeps
its states in a file, serves the start and the periodic reading). Latencies are those of single calls as the
caller sees them; a pair that is due while its connection is busy starts late and counts in the rate.

With `--against` the services of both checkouts run side by side, on the libraries of this one, and the load goes to one
and the other in turns: what else the machine does meanwhile is the same for both.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from speed_rows import print_rows, row

from balancer.clock import US, wall_us

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parents[1]

_PBSNODES = """#!{python} -S
import fcntl, json, sys
with open("{state}", "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    offline = set(json.load(file))
    names = [name for name in sys.argv[2:] if name.startswith("n") and name != "n"]
    if sys.argv[1] == "-x":
        every = names or ["n%05d" % i for i in range(1, {count} + 1)]
        node = "<Node><name>%s</name><state>%s</state></Node>"
        shown = (node % (name, "offline" if name in offline else "free") for name in every)
        print("<Data>" + "".join(shown) + "</Data>")
    else:
        offline = offline | set(names) if sys.argv[1] == "-o" else offline - set(names)
        file.seek(0)
        file.truncate()
        json.dump(sorted(offline), file)
"""


@dataclass
class Load:
    """One connection's measurements; latencies in microseconds."""

    latencies_us: list[int] = field(default_factory=list)
    pairs: int = 0
    errors: list[str] = field(default_factory=list)


class Connection:
    """Keep-alive HTTP on a bare socket: as little work on the caller's side as can be."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = f"{parts.hostname}:{parts.port}".encode()
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: bytes, body: bytes) -> tuple[int, bytes]:
        return self.send(
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (path, self._host, len(body), body)
        )

    def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and body of the answer to a whole request."""
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        while len(rest) < length:
            rest += self._more()
        return int(head[9:12]), rest

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the service closed the connection")
        return data

    def close(self) -> None:
        self._socket.close()


def drive(url: str, load: Load, *, interval_us: int, offset_us: int, until_us: int, start_us: int) -> None:
    """Pairs at fixed times on one connection until the end."""
    connection = Connection(url)
    pause = threading.Event()
    due_us = start_us + offset_us
    try:
        while max(due_us, wall_us()) < until_us:
            ahead_us = due_us - wall_us()
            if ahead_us > 0:
                pause.wait(ahead_us / US)
            begin_us = wall_us()
            status, body = connection.post(b"/v1/request_nodes", b'{"nodes": 1}')
            middle_us = wall_us()
            if status != 200:
                load.errors.append(body.decode()[:200])
                return
            released = json.dumps({"nodes": json.loads(body)["nodes"]}).encode()
            status, body = connection.post(b"/v1/release_nodes", released)
            load.latencies_us += [middle_us - begin_us, wall_us() - middle_us]
            if status != 200:
                load.errors.append(body.decode()[:200])
                return
            load.pairs += 1
            due_us += interval_us
    finally:
        connection.close()


def cpu_s(pid: int) -> float:
    """User and system time of a process and its children that are alive."""
    total = 0
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    for each in [pid, *map(int, listed)]:
        try:
            fields = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def start_service(
    folder: Path, count: int, threads: int, *, reserve: int | None = None, checkout: Path = HERE
) -> tuple[subprocess.Popen[bytes], str]:
    """`reserve`: None: all nodes. `checkout`: whose code runs."""
    programs = folder / "bin"
    programs.mkdir()
    state = folder / "offline.json"
    state.write_text("[]", encoding="utf-8")
    pbsnodes = programs / "pbsnodes"
    pbsnodes.write_text(_PBSNODES.format(python=sys.executable, state=state, count=count), encoding="utf-8")
    pbsnodes.chmod(0o755)
    (programs / "qmgr").symlink_to("/bin/true")
    ready = folder / "ready.json"
    # Of the code in `cwd`: with `-c` that is where Python looks first.
    command = [sys.executable, "-c", "from balancer.cli import main; main()", "serve"]
    command += ["--nodes", f"n[00001-{count:05d}]", "--port", "0"]
    command += ["--reserve", str(count if reserve is None else reserve)]
    command += ["--db", str(folder / "ledger.db"), "--ready-file", str(ready), "--threads", str(threads)]
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    with (folder / "service.log").open("wb") as log:
        service = subprocess.Popen(
            command, cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    pause = threading.Event()
    while not ready.exists():
        if service.poll() is not None:
            raise SystemExit(f"the service ended with status {service.returncode}")
        pause.wait(0.02)
    return service, json.loads(ready.read_text(encoding="utf-8"))["url"]


def wait_for_reserve(url: str, count: int) -> None:
    """Until all nodes have been reclaimed: a request for all of them is granted, and they are given back."""
    connection = Connection(url)
    pause = threading.Event()
    while True:
        status, body = connection.post(b"/v1/request_nodes", json.dumps({"nodes": count}).encode())
        if status == 200:
            break
        pause.wait(0.05)
    connection.post(b"/v1/release_nodes", json.dumps({"nodes": json.loads(body)["nodes"]}).encode())
    connection.close()


def fsync_ms(folder: Path, count: int = 200) -> list[float]:
    """What the disk takes for one durable write of 4 kB just now, sorted: the floor of any commit."""
    taken: list[float] = []
    with (folder / "probe").open("wb") as file:
        for _ in range(count):
            start_us = wall_us()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            taken.append((wall_us() - start_us) / 1000)
    return sorted(taken)


@dataclass
class Measured:
    """What one service did in all its turns. Processor time is that of its process."""

    pairs: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    load_cpu_s: float = 0.0
    latencies_us: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        latencies = sorted(self.latencies_us)
        return {
            "pairs_per_s": round(self.pairs / self.took_s, 1),
            "calls": len(latencies),
            "p50_ms": latencies[len(latencies) // 2] / 1000,
            "p99_ms": latencies[len(latencies) * 99 // 100] / 1000,
            "max_ms": latencies[-1] / 1000,
            "service_cpu_cores": round(self.cpu_s / self.took_s, 2),
            "service_cpu_ms_per_pair": round(1000 * self.cpu_s / self.pairs, 3),
            "load_cpu_cores": round(self.load_cpu_s / self.took_s, 2),
        }


def turn(
    url: str, pid: int, measured: Measured, *, seconds: float, pairs_per_s: float, connections: int
) -> None:
    """Load for so long; what it took is added. The first look at the nodes since the last turn is not part of it."""
    wait_for_reserve(url, 1)
    interval_us = round(connections / pairs_per_s * US)
    start_us = wall_us()
    until_us = start_us + round(seconds * US)
    loads = [Load() for _ in range(connections)]
    before_s, own_s = cpu_s(pid), sum(os.times()[:2])
    workers = [
        threading.Thread(
            target=drive,
            args=(url, load),
            kwargs={
                "interval_us": interval_us,
                "offset_us": interval_us * number // connections,
                "until_us": until_us,
                "start_us": start_us,
            },
        )
        for number, load in enumerate(loads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    measured.took_s += (wall_us() - start_us) / US
    measured.cpu_s += cpu_s(pid) - before_s
    measured.load_cpu_s += sum(os.times()[:2]) - own_s
    measured.pairs += sum(load.pairs for load in loads)
    measured.latencies_us += [each for load in loads for each in load.latencies_us]
    errors = [error for load in loads for error in load.errors]
    if errors:
        raise SystemExit(f"{len(errors)} connections failed: {errors[0]}")


def measure(
    checkouts: Sequence[Path], count: int, threads: int, *, turns: int, **load: Any
) -> list[dict[str, float]]:
    """The figures of each checkout, whose services are loaded in turns."""
    with ExitStack() as stack:
        running: list[tuple[str, int, Measured]] = []
        for checkout in checkouts:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            service, url = start_service(folder, count, threads, checkout=checkout)
            stack.callback(service.wait, timeout=30)
            stack.callback(service.send_signal, signal.SIGTERM)
            wait_for_reserve(url, count)
            running.append((url, service.pid, Measured()))
        for _ in range(turns):
            for url, pid, measured in running:
                turn(url, pid, measured, **load)
    return [measured.figures() for _, _, measured in running]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, action="append", help="may be given several times [372 10000]")
    parser.add_argument("--pairs-per-s", type=float, default=264.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--against", type=Path, help="another checkout, to be compared with this one")
    parser.add_argument("--turns", type=int, default=10, help="with --against: parts of the seconds")
    parser.add_argument("--json", action="store_true", help="one list, of this checkout")
    options = parser.parse_args()
    if options.json and options.against:
        parser.error("--json is of this checkout; give it without --against")
    checkouts = [options.against, HERE] if options.against else [HERE]
    turns = options.turns if options.against else 1
    with tempfile.TemporaryDirectory() as name:
        taken = fsync_ms(Path(name))
    disk = {
        "disk_fsync_p50_ms": taken[len(taken) // 2],
        "disk_fsync_p99_ms": taken[len(taken) * 99 // 100],
    }
    rows = []
    for count in options.nodes or [372, 10_000]:
        found = measure(
            checkouts,
            count,
            options.threads,
            turns=turns,
            seconds=options.seconds / turns,
            pairs_per_s=options.pairs_per_s,
            connections=options.connections,
        )
        rows.append(row(f"{count} nodes, {options.pairs_per_s:g} pairs/s offered", found[-1] | disk))
        if options.json:
            continue
        for checkout, figures in zip(checkouts, found, strict=True):
            print(json.dumps({"nodes": count, "checkout": str(checkout)} | figures | disk))
        if options.against:
            ratios = {f"{key}_ratio": round(found[1][key] / found[0][key], 2) for key in _COMPARED}
            print(json.dumps({"nodes": count} | ratios))
    if options.json:
        print_rows(rows)


_COMPARED = ("pairs_per_s", "p50_ms", "p99_ms", "service_cpu_ms_per_pair")

if __name__ == "__main__":
    main()
