"""What whole commands cost, start-up included: wall and processor time, and peak memory of each process.

python benchmarks/whole_process.py [--quick | --large | --compile] [--json] [--traces FOLDER]

Each command runs once unmeasured (it compiles the kernels if nobody has), then several times; medians. `--large`: a
large run instead, once. `--compile`: runs that compile their kernels, each once with an empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from speed_rows import print_rows, row
from workloads import LOGS, TRACES

from balancer.clock import US, wall_us

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CORI = {
    "name": "cori",
    "nodes": 12_076,
    "seed": 1001,
    "workload": {"generate": [{"cori_months": {}}], "transforms": [{"hybrid_kinds": {"notices": "W5"}}]},
    "mechanism": {"hybrid": {"strategy": "cup+paa"}},
}
EMULATOR = (sys.executable, "-c", "from emulator.cli import main; main(prog_name='emulator')")


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the runs of one command."""

    command: str
    wall_s: float
    user_s: float
    system_s: float
    peak_mib: float


def run_once(arguments: list[str], kernels: Path | None = None) -> tuple[float, float, float, float]:
    """Wall, user and system seconds and peak MiB of `emulator ARGUMENTS`. Raises if it fails.

    `kernels`: the cache of compiled ones, if not the usual.
    """
    # Modules that are compiled anew each time are no part of a command.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if kernels is not None:
        environment["EMULATOR_CACHE_DIR"] = str(kernels)
    begin_us = wall_us()
    with subprocess.Popen(
        [*EMULATOR, *arguments], stdout=subprocess.DEVNULL, cwd=ROOT, env=environment
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"emulator {' '.join(arguments)} ended with status {process.returncode}")
    return (wall_us() - begin_us) / US, used.ru_utime, used.ru_stime, used.ru_maxrss / 1024


def measure(arguments: list[str], shown: str, repeat: int) -> Cost:
    if repeat > 1:
        run_once(arguments)
    runs = zip(*(run_once(arguments) for _ in range(repeat)), strict=True)
    return Cost(f"emulator {shown}", *(statistics.median(values) for values in runs))


def compiled(traces: Path, folder: Path) -> Iterator[Cost]:
    """Two runs that first compile what they need."""
    for name, scenario in (
        ("run --trace KTH", ["--trace", str(traces / LOGS["KTH"])]),
        ("run scenarios/hybrid.yaml --no-report", ["scenarios/hybrid.yaml", "--no-report"]),
    ):
        with tempfile.TemporaryDirectory(dir=folder) as out:
            arguments = ["run", *scenario, "--json", "--out", f"{out}/run"]
            yield Cost(f"emulator {name}, nothing compiled", *run_once(arguments, Path(out, "kernels")))


def large(folder: Path) -> Cost:
    """Cori's months under the mechanism `hybrid`."""
    scenario = folder / "cori.yaml"
    scenario.write_text(json.dumps(CORI), encoding="utf-8")
    return measure(["run", str(scenario), "--json", "--out", str(folder / "cori")], "run CORI.yaml", 1)


def commands(traces: Path, out: Path, *, quick: bool) -> list[tuple[list[str], str]]:
    """Arguments, and how to show them."""
    default = "scenarios/default.yaml"
    log = traces / LOGS["KTH"]
    found = [
        (["--help"], "--help"),
        (["schedulers"], "schedulers"),
        (["run", default, "--json", "--out", str(out / "default")], f"run {default}"),
        (["trace", "info", str(log)], "trace info KTH"),
        (["run", "--trace", str(log), "--json", "--out", str(out / "kth")], "run --trace KTH"),
        (
            ["run", "--trace", str(log), "--no-report", "--json", "--out", str(out / "bare")],
            "run --trace KTH --no-report",
        ),
    ]
    if not quick:
        log = traces / LOGS["CTC"]
        found.append((["run", "--trace", str(log), "--json", "--out", str(out / "ctc")], "run --trace CTC"))
    return found


def row_of(cost: Cost) -> dict[str, Any]:
    figures = asdict(cost)
    return row(figures.pop("command"), figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="each command only once")
    which.add_argument("--large", action="store_true", help="Cori's months (2.3 million jobs) instead")
    which.add_argument("--compile", action="store_true", help="two runs with an empty cache instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder with the logs (default: traces)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.large:
            costs = [large(Path(folder))]
        elif chosen.compile:
            costs = list(compiled(chosen.traces, Path(folder)))
        else:
            costs = [
                measure(arguments, shown, 1 if chosen.quick else 5)
                for arguments, shown in commands(chosen.traces, Path(folder), quick=chosen.quick)
            ]
    if chosen.json:
        print_rows(row_of(cost) for cost in costs)
        return
    table = Table("command", box=None, pad_edge=False)
    for column in ("wall s", "user s", "system s", "peak MiB"):
        table.add_column(column, justify="right")
    for cost in costs:
        figures = (cost.wall_s, cost.user_s, cost.system_s)
        table.add_row(cost.command, *(f"{value:.2f}" for value in figures), f"{cost.peak_mib:,.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
