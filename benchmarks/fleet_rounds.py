"""Fleets in containers up, run and down, several times in a row: each run against virtual time, and what each leaves.

    python benchmarks/fleet_rounds.py scenarios/fleet-hour.yaml --rounds 2 --threads 6

Looked at before and after each round: containers, networks, volumes, mounts, bridges and firewall rules; nobody else
should use the engine meanwhile. Every two seconds: memory that is in use on the machine, and its load. Exit status 1: a
round ended otherwise than with 0, its run is not that of virtual time, or something was left. Needs an engine with the
images (docs/containers.md), and root to see the rules.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from speed_rows import print_rows, row

from balancer.clock import US, seconds, wall_us
from emulator.report import files
from emulator.report.compare import compare
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load

if TYPE_CHECKING:
    from collections.abc import Sequence

_PERIOD_S = 2.0
_EMULATOR = (sys.executable, "-c", "from emulator.cli import main; main()")
_COUNTERS = re.compile(r" \[\d+:\d+\]")
_LOOKS = {
    "containers": ("docker", "ps", "-a", "--format", "{{.Names}}"),
    "networks": ("docker", "network", "ls", "--format", "{{.Name}}"),
    "volumes": ("docker", "volume", "ls", "-q"),
    "bridges": ("ip", "-o", "-br", "link", "show", "type", "bridge"),
    "rules": ("iptables-save",),
}


def _lines(command: Sequence[str]) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # State and counters of what is not the fleet's may change.
    lines = (_COUNTERS.sub("", line) for line in done.stdout.splitlines() if not line.startswith("#"))
    return {line.split()[0] if command[0] == "ip" else line for line in lines}


def found() -> dict[str, set[str]]:
    """What an engine has and has done to this machine."""
    seen = {name: _lines(command) for name, command in _LOOKS.items()}
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return seen | {"mounts": {line.split()[1] for line in mounts}}


def used_mib() -> int:
    """Memory of the machine that nobody could be given."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    total_kib, available_kib = (
        int(re.search(rf"^{name}: *(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]
        for name in ("MemTotal", "MemAvailable")
    )
    return (total_kib - available_kib) // 1024


class Watch(threading.Thread):
    """Memory (MiB, the most) and load (the mean) while the block lasts."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self.most_mib = self.before_mib = used_mib()
        self.loads: list[float] = [os.getloadavg()[0]]

    def run(self) -> None:
        while not self._over.wait(_PERIOD_S):
            self.most_mib = max(self.most_mib, used_mib())
            self.loads.append(os.getloadavg()[0])

    def close(self) -> None:
        self._over.set()
        self.join()


def _round(scenario: Path, out: Path, more: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """One fleet: its figures, and what was wrong."""
    before, watch, began_us = found(), Watch(), wall_us()
    watch.start()
    command = [*_EMULATOR, "fleet", "up", str(scenario), "--out", str(out), *more]
    with (out / "up.log").open("w", encoding="utf-8") as log:
        status = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    passed_s = seconds(wall_us() - began_us)
    watch.close()
    after = found()
    left = {name: sorted(after[name] - before[name]) for name in before if after[name] - before[name]}
    text = (out / "up.log").read_text(encoding="utf-8")
    wrong = [] if status == 0 else [f"exit {status}: {text[-2000:]}"]
    if left:
        wrong.append(f"left: {left}")
    figures = {
        f"{name}_s": float(at) for name, at in re.findall(r"containers are (up) after ([\d.]+) s", text)
    }
    figures |= {
        "all_s": passed_s,
        "memory_before_mib": watch.before_mib,
        "memory_most_mib": watch.most_mib,
        "load_mean": sum(watch.loads) / len(watch.loads),
        "load_most": max(watch.loads),
    }
    wanted = load(scenario)
    if not (out / f"{wanted.name}-live" / files.SUMMARY).exists():
        return figures, [*wrong, "no results"]
    record = files.load(out / f"{wanted.name}-live")
    same = compare(run_virtual(wanted, prepare(wanted)), record)
    if not same.is_same:
        wrong.append(str(same))
    pace = record.pace or {}
    figures |= {
        "clock_waits": pace.get("holds", 0),
        "clock_waited_s": pace.get("held_us", 0) / US,
        "longest_wait_s": pace.get("longest_hold_us", 0) / US,
    }
    return figures, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="rows for the results file, if nothing is wrong")
    options, more = parser.parse_known_args(arguments)  # the rest is for `emulator fleet up`
    rows, all_wrong = [], []
    for number in range(1, options.rounds + 1):
        with tempfile.TemporaryDirectory() as out:
            figures, wrong = _round(options.scenario, Path(out), more)
        rows.append(row(f"{options.scenario.stem}, round {number}", figures))
        shown = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
        print(
            "\n".join((f"round {number}: {shown}", *wrong)),
            file=sys.stderr if options.json else sys.stdout,
            flush=True,
        )
        all_wrong += wrong
    if options.json and not all_wrong:
        print_rows(rows)
    return int(bool(all_wrong))


if __name__ == "__main__":
    sys.exit(main())
