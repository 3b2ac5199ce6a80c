"""What an event of the virtual run costs live: processor time by role, wake-ups, and messages.

    python benchmarks/live_events.py                                  # the default day, as fast as the machine can
    python benchmarks/live_events.py scenarios/default.yaml --set nodes=372 --speed 600 --json

An event is a submit, a start or an end of a job or lease, or a lease that is refused. Counted from the first tick of
the run's clock to its last. Processor time and wake-ups (voluntary context switches of all threads) are the
kernel's, of each process and of those that it waited for. Messages are segments of TCP and connections in a network of
the run's own, which takes root; elsewhere they are left out. The virtual run of the same jobs is beside it. Exit
status 1: the two differ.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speed_rows import print_rows, row

from emulator.clock.clock_file import NOW_AT
from emulator.live.fleet import Fleet
from emulator.metrics.summary import summarize
from emulator.report.compare import compare
from emulator.report.summary_text import speeds
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.record.run_record import RunRecord
    from emulator.runs.scenario import Scenario

_CHECKOUT = Path(__file__).resolve().parent.parent
_VIRTUAL_RUNS = 5
_WORD = 8
_PERIOD_S = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")
_IN_OWN_NETWORK = "EMULATOR_OWN_NETWORK"
_OURS = "clock and watch"


@dataclass(slots=True)
class Cost:
    """Of one role: processor time in s, wake-ups."""

    processor_s: float = 0.0
    wake_ups: int = 0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.processor_s - other.processor_s, self.wake_ups - other.wake_ups)


def cost_of(pid: int) -> Cost | None:
    """With what it has waited for, but for us, who wait for all of them. None: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        wake_ups = 0
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for line in (thread / "status").read_text(encoding="ascii").splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    wake_ups += int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    last = 13 if pid == os.getpid() else 15
    return Cost(sum(map(int, fields[11:last])) / _TICKS, wake_ups)


def messages() -> dict[str, int]:
    """What TCP counted in this network so far."""
    heads, values = (
        line.split()
        for line in Path("/proc/net/snmp").read_text("ascii").splitlines()
        if line.startswith("Tcp:")
    )
    found = dict(zip(heads, values, strict=True))
    return {"connections": int(found["ActiveOpens"]), "segments": int(found["OutSegs"])}


@dataclass(slots=True)
class Meter:
    """Asked by the fleet again and again whether to end it; it never says so, and looks at its processes."""

    fleet: Fleet
    reason: str = ""
    first: dict[str, Cost] = field(default_factory=dict)
    last: dict[str, Cost] = field(default_factory=dict)
    first_messages: dict[str, int] = field(default_factory=dict)
    last_messages: dict[str, int] = field(default_factory=dict)
    due_s: float = 0.0
    own_s: float = 0.0
    """Processor time of looking, which is not the run's."""

    def __bool__(self) -> bool:
        begun_s = time.thread_time()
        if time.monotonic() >= self.due_s:
            self._look()
            self.due_s = time.monotonic() + _PERIOD_S
            self.own_s += time.thread_time() - begun_s
        return False

    def _look(self) -> None:
        pids = {name: process.pid for name, process in self.fleet.processes.items()} | {_OURS: os.getpid()}
        for name, pid in pids.items():
            if (cost := cost_of(pid)) is not None:
                self.last[name] = cost
        self.last[_OURS].processor_s -= self.own_s
        self.last_messages = messages()
        if not self._runs:
            self.first, self.first_messages = dict(self.last), self.last_messages

    @property
    def _runs(self) -> bool:
        """The clock has moved: everybody has started."""
        if not self.fleet.clock_file.exists():
            return False
        at = NOW_AT * _WORD
        return int.from_bytes(self.fleet.clock_file.read_bytes()[at : at + _WORD], sys.byteorder) > 0

    def costs(self) -> dict[str, Cost]:
        """By role: agents are one."""
        found: dict[str, Cost] = {}
        for name, cost in self.last.items():
            role = "agents" if name.startswith("agent") else name
            done, passed = found.get(role, Cost()), cost - self.first.get(name, Cost())
            found[role] = Cost(done.processor_s + passed.processor_s, done.wake_ups + passed.wake_ups)
        return found

    def counted(self) -> dict[str, int]:
        return {name: count - self.first_messages[name] for name, count in self.last_messages.items()}


def events_of(record: RunRecord) -> dict[str, int]:
    """How many events a run had, by kind."""
    return {
        "submits": len(record.jobs),
        "starts": len(record.runs.start_us),
        "ends": int((record.runs.end_us >= 0).sum()),
        "refusals": sum(not lease.granted for lease in record.leases),
    }


def measure(scenario: Scenario) -> dict[str, Any]:
    prepared = prepare(scenario)
    virtual = run_virtual(scenario, prepared)  # compiled and warm
    begun_s = time.process_time()
    for _ in range(_VIRTUAL_RUNS):
        run_virtual(scenario, prepared)
    virtual_s = (time.process_time() - begun_s) / _VIRTUAL_RUNS
    with tempfile.TemporaryDirectory(prefix="live-events-") as folder:
        fleet = Fleet(scenario, prepared, Path(folder))
        meter = Meter(fleet)
        record = fleet.run(meter, quiet=True)
    return {
        "scenario": scenario.name,
        "nodes": prepared.nodes,
        "as_in_virtual_time": compare(virtual, record).is_same,
        "events": events_of(virtual),
        "virtual_processor_s": virtual_s,
        "pace": summarize(record)["pace"],
        "roles": {
            name: {"processor_s": cost.processor_s, "wake_ups": cost.wake_ups}
            for name, cost in meter.costs().items()
        },
        "messages": meter.counted() if _IN_OWN_NETWORK in os.environ else {},
    }


def whole(found: dict[str, Any]) -> dict[str, float]:
    """Processor time and wake-ups of all roles together."""
    roles = found["roles"].values()
    return {key: sum(role[key] for role in roles) for key in ("processor_s", "wake_ups")}


def figures(found: dict[str, Any]) -> dict[str, float]:
    """Of an event, and how fast the clock went. Messages are known in a network of the run's own only."""
    events, costs = sum(found["events"].values()), whole(found)
    return {
        "nodes": found["nodes"],
        "events": events,
        "speed": found["pace"]["reached_speed"],
        "processor_ms_per_event": 1e3 * costs["processor_s"] / events,
        "wake_ups_per_event": costs["wake_ups"] / events,
        "virtual_us_per_event": 1e6 * found["virtual_processor_s"] / events,
    } | {f"{name}_per_event": count / events for name, count in found["messages"].items()}


def told(found: dict[str, Any]) -> str:
    events, pace = sum(found["events"].values()), found["pace"]
    kinds = ", ".join(f"{count:,} {name}" for name, count in found["events"].items())
    lines = [
        f"{found['scenario']}: {found['nodes']} nodes, {events:,} events ({kinds})",
        f"as in virtual time: {found['as_in_virtual_time']}; speed {speeds(pace)}",
        f"an event, virtual: {1e6 * found['virtual_processor_s'] / events:,.1f} us of processor time",
        f"{'an event, live':<16} {'processor ms':>12} {'wake-ups':>9}",
    ]
    roles = found["roles"]
    by_cost = sorted(roles.items(), key=lambda item: -item[1]["processor_s"])
    for name, role in (*by_cost, ("all", whole(found))):
        lines.append(
            f"{name:<16} {1e3 * role['processor_s'] / events:>12.2f} {role['wake_ups'] / events:>9.1f}"
        )
    lines += [f"{name}: {count / events:.1f} an event" for name, count in found["messages"].items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario", type=Path, nargs="?", default=_CHECKOUT / "scenarios" / "default.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--speed", type=float, default=60_000.0, help="what is asked for (default: %(default)g)"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if _IN_OWN_NETWORK not in os.environ and os.geteuid() == 0:
        again = [sys.executable, *sys.orig_argv[1:]]
        script = 'ip link set lo up && exec "$@"'
        command = ["unshare", "--net", "sh", "-c", script, "sh", *again]
        return subprocess.run(command, env=os.environ | {_IN_OWN_NETWORK: "1"}, check=False).returncode
    scenario = load(options.scenario, (*options.set, f"live.speed={options.speed}"))
    found = measure(scenario)
    if not options.json:
        print(told(found))
    elif found["as_in_virtual_time"]:
        print_rows([row(found["scenario"], figures(found))])
    return int(not found["as_in_virtual_time"])


if __name__ == "__main__":
    sys.exit(main())
