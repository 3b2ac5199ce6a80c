"""HTTP front ends before the same service: speed, and what slow callers do to everybody else.

    pip install gunicorn waitress; python benchmarks/front_ends.py --pairs 150

Each front end serves the same application (the ledger on disk, a fake `pbsnodes`) with 32 threads, one after the
other, `--rounds` times. Pairs of request and release go over 8 connections, flat out; then 40 callers send a header
byte by byte, 40 a body, 40 send nothing, and `/livez` is asked meanwhile. What is printed are medians over the rounds.
Only ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from balancer_load import _PBSNODES, Connection, Load, cpu_s, drive

from balancer.clock import US, SystemClock, wall_us
from balancer.config import Config
from balancer.console.serve import configure_logs, make_access, make_engine, serve
from balancer.http.app import create_app

NAMES = ("gunicorn", "waitress", "granian-wsgi", "balancer")
_THREADS = 32
_SLOW = 40
_NODES = 64
_PATIENCE_S = 3.0


def application() -> Any:
    """The service in the process that serves it."""
    config = Config.model_validate_json(os.environ["BENCHMARK_CONFIG"])
    configure_logs("error")
    engine = make_engine(config, SystemClock())
    engine.start()
    return create_app(engine, access=make_access(config))


def run_server(name: str, port: int) -> None:
    """Until it is killed."""
    if name == "balancer":
        serve(Config.model_validate_json(os.environ["BENCHMARK_CONFIG"]).model_copy(update={"port": port}))
    elif name == "waitress":
        import waitress  # noqa: PLC0415 - only the one that is measured is there

        waitress.serve(application(), host="127.0.0.1", port=port, threads=_THREADS, channel_timeout=30)
    elif name == "granian-wsgi":
        import granian  # noqa: PLC0415

        options = {"interface": "wsgi", "blocking_threads": _THREADS, "backpressure": 1024}
        granian.Granian("front_ends:application", port=port, factory=True, **options).serve()
    else:
        arguments = ["--threads", str(_THREADS), "--keep-alive", "75", "--no-control-socket"]
        command = ["gunicorn", "--worker-class", "gthread", "--bind", f"127.0.0.1:{port}", *arguments]
        whole = [sys.executable, "-m", *command, "front_ends:application()"]
        os.execv(sys.executable, whole)  # noqa: S606 - gunicorn takes our place


class Running:
    """One front end in a process group of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        state = folder / "offline.json"
        state.write_text("[]", encoding="utf-8")
        text = _PBSNODES.format(python=sys.executable, state=state, count=_NODES)
        (programs / "pbsnodes").write_text(text, encoding="utf-8")
        (programs / "pbsnodes").chmod(0o755)
        (programs / "qmgr").symlink_to("/bin/true")
        config = {"nodes": f"n[00001-{_NODES:05d}]", "reserve": _NODES, "db": str(folder / "ledger.db")}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        more = {"rate_per_s": 0, "threads": _THREADS, "log_level": "error"}
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "BENCHMARK_CONFIG": json.dumps(config | more),
            "PYTHONPATH": str(Path(__file__).parent),
        }
        command = [sys.executable, __file__, "--serve", name, "--port", str(self.port)]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(lambda: livez_ms(self.port) < 1000 * _PATIENCE_S)

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def wait_for(condition: Any) -> None:
    pause, until_us = threading.Event(), wall_us() + 60 * US
    while not condition():
        if wall_us() > until_us:
            raise SystemExit("a front end does not start")
        pause.wait(0.05)


def livez_ms(port: int) -> float:
    """How long the answer takes; the patience where none comes."""
    begin_us = wall_us()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as caller:
            caller.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if not caller.recv(1024).startswith(b"HTTP/1.1 200"):
                return 1000 * _PATIENCE_S
    except OSError:
        return 1000 * _PATIENCE_S
    return (wall_us() - begin_us) / 1000


def pairs(running: Running, count: int) -> dict[str, float]:
    """So many pairs, flat out, over each of 8 connections."""
    loads = [Load() for _ in range(8)]
    before_s, start_us = cpu_s(running.process.pid), wall_us()
    # All are due at once, a microsecond apart.
    times = {"interval_us": 1, "offset_us": 0, "start_us": start_us, "until_us": start_us + count}
    workers = [threading.Thread(target=drive, args=(running.url, load), kwargs=times) for load in loads]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took_s, used_s = (wall_us() - start_us) / US, cpu_s(running.process.pid) - before_s
    errors = [error for load in loads for error in load.errors]
    if errors:
        raise SystemExit(errors[0])
    done = sum(load.pairs for load in loads)
    latencies = sorted(each for load in loads for each in load.latencies_us)
    return {
        "pairs_per_s": done / took_s,
        "cpu_ms_a_pair": 1000 * used_s / done,
        "p50_ms": latencies[len(latencies) // 2] / 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] / 1000,
    }


def slow(port: int) -> list[socket.socket]:
    """Callers of three kinds in turn: in the middle of a header, of a body, and with nothing sent."""
    head = b"POST /v1/request_nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    begun = (head + b"X: ", head + b"Content-Length: 1000\r\n\r\n", b"")
    callers = []
    for number in range(3 * _SLOW):
        callers.append(socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S))
        callers[-1].sendall(begun[number % 3])
    return callers


def slow_callers(running: Running) -> dict[str, float]:
    """`/livez` while many callers are slow."""
    end = threading.Event()
    callers = slow(running.port)

    def send() -> None:
        alive = [caller for number, caller in enumerate(callers) if number % 3 != 2]
        while not end.wait(0.2):
            for caller in alive:
                try:
                    caller.send(b"x")
                except OSError:
                    continue  # the front end has closed it, as it should in the end

    sender = threading.Thread(target=send)
    sender.start()
    pause = threading.Event()
    pause.wait(1)
    asked = []
    for _ in range(8):
        asked.append(livez_ms(running.port))
        pause.wait(0.2)
    end.set()
    sender.join()
    for caller in callers:
        caller.close()
    return {"livez_ms": statistics.median(asked), "livez_worst_ms": max(asked)}


def measure(name: str, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        running = Running(name, Path(folder))
        try:
            connection = Connection(running.url)
            whole = json.dumps({"nodes": _NODES}).encode()
            wait_for(lambda: connection.post(b"/v1/request_nodes", whole)[0] == 200)
            names = json.dumps({"nodes": [f"n{number:05d}" for number in range(1, _NODES + 1)]}).encode()
            connection.post(b"/v1/release_nodes", names)
            connection.close()
            return pairs(running, count) | slow_callers(running)
        finally:
            running.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run_server(options.serve, options.port)
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in NAMES}
    for _ in range(options.rounds):
        for name in NAMES:
            found[name].append(measure(name, options.pairs))
    for name, rounds in found.items():
        medians = {key: round(statistics.median(each[key] for each in rounds), 2) for key in rounds[0]}
        print(json.dumps({"front_end": name} | medians))


if __name__ == "__main__":
    main()
