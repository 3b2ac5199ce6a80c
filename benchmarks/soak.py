"""A long time under load, on a faster clock: whether memory, descriptors, threads and the ledger stay as they are.

    python benchmarks/soak.py                          # a week of cluster time at 60x: 2.8 h
    python benchmarks/soak.py --hours 15 --speed 60    # a quarter of an hour

The real service on an SQLite ledger, with a fake `pbsnodes` that keeps nodes and jobs in a file. Users ask, wait,
confirm, renew, withdraw, hang up and give back; jobs start and end, with their hooks; others look at pages, metrics and
the stream of events. After a first part in which everything fills (a fifth), the medians of the first and the last
third of the rest are compared: resident memory, descriptors, threads, bytes of the ledger for each event (events and
requests are kept, so the file itself grows). Exit status 1: one has grown by more than `--most`, a call failed in a way
it should not, or `balancer ledger verify` finds something.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from balancer.client import Balancer, BalancerError, NotObtainable, Unreachable
from balancer.clock import SystemAlarm, SystemClock, utc_us, wall_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parents[1]

_NODES = 32
_USERS = 6
_CONFLICT = 409

_PBSNODES = """#!{python} -S
import fcntl, json, sys
with open("{state}", "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    nodes = json.load(file)
    if sys.argv[1] == "-x":
        print("<Data>")
        for name in sys.argv[2:] or nodes:
            is_offline, job = nodes[name]
            words = ["offline"] * is_offline + ["job-exclusive"] * bool(job)
            jobs = "<jobs>0/%s</jobs>" % job if job else ""
            print("<Node><name>%s</name><state>%s</state>%s</Node>" % (name, ",".join(words) or "free", jobs))
        print("</Data>")
    else:
        for name in set(sys.argv[2:]) & set(nodes):
            nodes[name][0] = sys.argv[1] == "-o"
        file.seek(0)
        file.truncate()
        json.dump(nodes, file)
"""


class FastClock(SystemClock):
    """The service's clock: `speed` times as fast as life."""

    name = "fast"

    def __init__(self, speed: float = 60.0) -> None:
        super().__init__()
        self.speed = speed
        self._began_us, self._began_wall_us = utc_us(), wall_us()

    def now_us(self) -> int:
        return self._began_us + round((wall_us() - self._began_wall_us) * self.speed)

    def not_before(self, at_us: int) -> None:
        self._began_us += max(0, at_us - self.now_us())

    def alarm(self) -> FastAlarm:
        return FastAlarm(self)


class FastAlarm(SystemAlarm):
    """A timer on it: what is so far away by the clock is nearer by the wall."""

    _clock: FastClock

    def wait(self, timeout_s: float | None = None) -> bool:
        to_go_s = max(0.0, min(self._due_us - self._clock.now_us(), 10**15) / 1e6 / self._clock.speed)
        woken = self._woken.wait(min(to_go_s, threading.TIMEOUT_MAX if timeout_s is None else timeout_s))
        self._woken.clear()
        return not woken and self._clock.now_us() >= self._due_us


@dataclass(slots=True)
class Soak:
    """One run: the service, its users, and what they met."""

    folder: Path
    speed: float
    seed: int
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    calls: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def pause(self, mean_s: float, chance: random.Random) -> bool:
        """So much cluster time on average, from a tenth of it to six times as much; True: the run is over."""
        cluster_s = mean_s * min(6.0, 0.1 + chance.expovariate(1.0))
        return self.ended.wait(cluster_s / self.speed)

    def count(self, what: str) -> None:
        self.calls[what] = self.calls.get(what, 0) + 1

    def again(self, name: str, act: Callable[[Balancer, random.Random], None]) -> None:
        """One caller until the end. A refusal is an answer; anything else is a failure of the run."""
        chance = random.Random(f"{self.seed} {name}")
        with Balancer(self.url) as client:
            while not self.ended.is_set():
                try:
                    act(client, chance)
                except (NotObtainable, Unreachable) as error:
                    self.count(type(error).__name__)
                    if isinstance(error, Unreachable) and not self.ended.is_set():
                        self.failures.append(f"{name}: {error}")
                except BalancerError as error:
                    self.count(error.code)
                    if error.status != _CONFLICT and not self.ended.is_set():
                        self.failures.append(f"{name}: {error}")
                except Exception as error:  # noqa: BLE001 - the run goes on, and fails at its end
                    self.failures.append(f"{name}: {error!r}")

    # Who calls

    def user(self, client: Balancer, chance: random.Random) -> None:
        """Ask, keep for a while, give back; one in ten leaves it to the lease."""
        granted = client.request_nodes(chance.randint(1, 4), wait_s=chance.choice([0, 300]), lease_s=1800)
        self.count("granted")
        if self.pause(300, chance):
            return
        if chance.random() < 0.3:
            client.renew_lease(granted.id)
        if chance.random() < 0.1:
            self.pause(2400, chance)
            return
        client.release_nodes(granted.nodes)
        self.count("released")
        self.pause(120, chance)

    def hasty(self, client: Balancer, chance: random.Random) -> None:
        """Asks for more than there is and goes away without a word."""
        body = json.dumps({"nodes": _NODES - 2, "wait_s": 600}).encode()
        asked = Request(  # noqa: S310 - our own service
            f"{self.url}/v1/request_nodes", data=body, headers={"Content-Type": "application/json"}
        )
        with suppress(OSError), urlopen(asked, timeout=0.3):  # noqa: S310
            pass
        self.count("hung up")
        for waiting in client.requests(state="waiting"):
            if chance.random() < 0.5:
                client.withdraw_request(waiting.id)
        self.pause(300, chance)

    def batch(self, client: Balancer, chance: random.Random) -> None:
        """A job starts where nobody is, runs, and ends; its hooks tell, but for one in ten."""
        with self.nodes() as nodes:
            idle = [name for name, (is_offline, job) in nodes.items() if not is_offline and not job]
            name = chance.choice(idle) if idle else None
            job = f"{chance.randrange(10**9)}.server"
            if name is not None:
                nodes[name][1] = job
        if name is None:
            self.pause(60, chance)
            return
        tells = chance.random() < 0.9
        try:
            if tells:
                client.update_nodes({name: "busy"}, job=job)
            self.pause(600, chance)
        finally:
            with self.nodes() as nodes:
                nodes[name][1] = ""
        if tells:
            client.update_nodes({name: "idle"}, job=job)
        self.count("jobs")
        self.pause(30, chance)

    def looker(self, client: Balancer, chance: random.Random) -> None:
        client.status()
        client.nodes()
        for path in ("/", "/metrics", "/readyz"):
            with suppress(OSError), urlopen(self.url + path, timeout=10) as answer:  # noqa: S310
                answer.read()
        stream = Request(f"{self.url}/v1/events", headers={"Accept": "text/event-stream"})  # noqa: S310
        with suppress(OSError), urlopen(stream, timeout=1) as answer:  # noqa: S310
            answer.readline()
        if chance.random() < 0.1:
            client.add_reserve(chance.randint(1, 3), chance.choice([0.0, 1800.0]))
        self.count("looks")
        self.pause(60, chance)

    # Around it

    @contextmanager
    def nodes(self) -> Iterator[dict[str, Any]]:
        """What the batch system knows, for changing."""
        with (self.folder / "nodes.json").open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            nodes = json.load(file)
            yield nodes
            file.seek(0)
            file.truncate()
            json.dump(nodes, file)

    def start(self) -> subprocess.Popen[bytes]:
        state, programs, ready = self.folder / "nodes.json", self.folder / "bin", self.folder / "ready.json"
        state.write_text(
            json.dumps({f"n{n:02d}": [False, ""] for n in range(1, _NODES + 1)}), encoding="utf-8"
        )
        programs.mkdir()
        (programs / "pbsnodes").write_text(
            _PBSNODES.format(python=sys.executable, state=state), encoding="utf-8"
        )
        (programs / "pbsnodes").chmod(0o755)
        (programs / "qmgr").symlink_to("/bin/true")
        command = [sys.executable, "-c", "from balancer.cli import main; main()", "serve"]
        command += ["--nodes", f"n[01-{_NODES:02d}]", "--reserve", "8", "--wait-s", "300"]
        command += ["--port", "0", "--db", str(self.folder / "ledger.db"), "--ready-file", str(ready)]
        command += ["--refresh-age-s", str(self.speed), "--confirm-poll-s", "0.2"]
        command += ["--plugin", f"{Path(__file__).resolve()}:FastClock"]
        command += ["--clock", json.dumps({"fast": {"speed": self.speed}})]
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        with (self.folder / "service.log").open("wb") as log:
            service = subprocess.Popen(command, cwd=HERE, env=environment, stdout=log, stderr=log)
        while not ready.exists():
            if service.poll() is not None:
                raise SystemExit(f"the service ended: {(self.folder / 'service.log').read_text()[-2000:]}")
            self.ended.wait(0.05)
        self.url = json.loads(ready.read_text(encoding="utf-8"))["url"]
        return service


_STATUS = {"rss_kb": "VmRSS:", "threads": "Threads:"}


def sample(pid: int, soak: Soak, client: Balancer) -> dict[str, float]:
    """What the service takes at this moment."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    taken: dict[str, float] = {
        name: int(line.split()[1]) for name, key in _STATUS.items() for line in lines if line.startswith(key)
    }
    taken["descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - of another process, which changes
    files = [soak.folder / f"ledger.db{suffix}" for suffix in ("", "-wal")]
    taken["file_bytes"] = sum(file.stat().st_size for file in files)
    newest = client.status()["newest_event"]
    return taken | {"events": newest, "file_bytes_per_event": taken["file_bytes"] / max(1, newest)}


_SHOWN = {"rss_kb": "memory"}
_COMPARED = ("rss_kb", "threads", "descriptors", "file_bytes_per_event")


def grown(samples: list[dict[str, float]]) -> dict[str, float]:
    """Of the last four fifths: the median of the last third by that of the first."""
    rest = samples[len(samples) // 5 :]
    third = max(1, len(rest) // 3)
    return {
        name: round(
            median([each[name] for each in rest[-third:]]) / median([each[name] for each in rest[:third]]), 3
        )
        for name in _COMPARED
    }


def run(soak: Soak, seconds: float, count: int) -> list[dict[str, float]]:
    """The service under load for so long; `count` samples."""
    service = soak.start()
    acts = [("user", soak.user)] * _USERS + [("batch", soak.batch)] * 8
    acts += [("hasty", soak.hasty), ("looker", soak.looker), ("looker", soak.looker)]
    callers = [
        threading.Thread(target=soak.again, args=(f"{name} {number}", act))
        for number, (name, act) in enumerate(acts)
    ]
    samples: list[dict[str, float]] = []
    begin_us = wall_us()
    try:
        for caller in callers:
            caller.start()
        with Balancer(soak.url) as client:
            for number in range(1, count + 1):
                soak.ended.wait(max(0.0, seconds * number / count - (wall_us() - begin_us) / 1e6))
                samples.append(sample(service.pid, soak, client))
    finally:
        soak.ended.set()
        for caller in callers:
            caller.join()
        service.send_signal(signal.SIGTERM)
        service.wait(timeout=60)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=168.0, help="of cluster time [168]")
    parser.add_argument("--speed", type=float, default=60.0, help="cluster time by wall time [60]")
    parser.add_argument("--samples", type=int, default=150)
    parser.add_argument("--most", type=float, default=1.1, help="so many times more at the end [1.1]")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--json", action="store_true", help="a row for the results file, if nothing is wrong")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name), options.speed, options.seed)
        samples = run(soak, options.hours * 3600 / options.speed, options.samples)
        checked = subprocess.run(
            [sys.executable, "-m", "balancer", "ledger", "verify", "--db", f"{name}/ledger.db"],
            cwd=HERE,
            capture_output=True,
            text=True,
            check=False,
        )
    ratios = grown(samples)
    for part in (
        {"hours": options.hours, "speed": options.speed, "calls": soak.calls},
        {"first": samples[len(samples) // 5], "last": samples[-1]},
        {"grown": ratios, "verify": checked.returncode, "failures": len(soak.failures)},
    ):
        print(json.dumps(part), file=sys.stderr if options.json else sys.stdout)
    wrong = [f"{name} is {ratio} times what it was" for name, ratio in ratios.items() if ratio > options.most]
    wrong += soak.failures[:10] + ([checked.stdout + checked.stderr] if checked.returncode else [])
    if wrong:
        raise SystemExit("\n".join(wrong))
    if options.json:
        # Not above: the service reads this file as a plug-in, away from the folder of benchmarks.
        from speed_rows import print_rows, row  # noqa: PLC0415

        figures = {f"{_SHOWN.get(name, name)}_ratio": ratio for name, ratio in ratios.items()}
        figures |= {
            "events": samples[-1]["events"],
            "peak_mib": max(each["rss_kb"] for each in samples) / 1024,
        }
        print_rows([row(f"{options.hours:g} hours at {options.speed:g}x", figures)])


if __name__ == "__main__":
    main()
