"""Other simulators on the same jobs: jobs a second, memory, and whether every start is equal.

python benchmarks/peers.py [--quick] [--json] [--traces FOLDER] [--environment FOLDER]

Those that PyPI has are installed, by pip, into an environment of their own (`--environment`, made when it is not
there): AccaSim, and pybatsim's EASY, driven by a loop in Batsim's place. Each has a process of its own, and so have we.
Jobs are those of a log by our input rules. Starts are compared with ours by the textbook's rules and by `like:
PROGRAM`. Processor time, because others may use the machine; the log's reading is part of it, compilation is not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from workloads import LOGS, TRACES, log_jobs

import emulator
from emulator.workload.rules import to_log
from emulator.workload.swf import write_swf

PROGRAMS = Path(__file__).parent / "peer_programs"
VERSIONS = {"ours": emulator.__version__, "accasim": "1.1.3", "batsim": "3.2.1"}
"""By program; Batsim's is pybatsim's."""
PACKAGES = (
    (f"accasim=={VERSIONS['accasim']}",),
    ("--no-deps", f"pybatsim=={VERSIONS['batsim']}"),
    ("procset", "sortedcontainers", "pyzmq"),
)
"""pybatsim wants releases of pyzmq that newer Pythons cannot build; nothing of it is used here."""
PEERS = {"accasim": "run_accasim.py", "batsim": "run_pybatsim.py"}
_LATER_S = 1
"""AccaSim begins at the first submit less one second, which must not be negative."""


@dataclass(frozen=True, slots=True)
class Row:
    """One program, of this version, on one log. `equal_textbook`, `equal_like`: starts that are ours by them."""

    log: str
    program: str
    version: str
    jobs: int
    jobs_per_s: float
    cpu_s: float
    peak_mib: float
    equal_textbook: int
    equal_like: int


def environment(folder: Path) -> Path:
    """The Python of an environment with the peers, made and filled if it is not there."""
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        venv.create(folder, with_pip=True)
        for packages in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        complete.touch()
    return python


def run(python: str | Path, program: str, *arguments: object) -> list[dict[str, Any]]:
    """What a program of `peer_programs` printed: its lines of JSON."""
    command = [str(python), str(PROGRAMS / program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(name: str, log: Path, most: int, python: Path, work: Path) -> list[Row]:
    """All programs on the first `most` jobs of a log."""
    jobs, nodes = log_jobs(log)
    jobs = jobs.take(np.arange(min(most, len(jobs))))
    jobs.submit_us[:] += _LATER_S * 1_000_000
    swf = work / f"{name}.swf"
    write_swf(to_log(jobs, nodes=nodes), swf)
    bare = work / f"{name}-bare.swf"  # fields as both peers read them: sizes in field 8, no header
    bare.write_text(
        "".join(
            f"{number} {submit} -1 {run_s} {size} -1 -1 {size} {asked} -1 1 1 1 1 1 1 -1 -1\n"
            for number, submit, run_s, size, asked in zip(
                jobs.number.tolist(),
                (jobs.submit_us // 1_000_000).tolist(),
                (jobs.run_us // 1_000_000).tolist(),
                jobs.nodes.tolist(),
                (jobs.estimate_us // 1_000_000).tolist(),
                strict=True,
            )
        )
    )
    ours = run(sys.executable, "run_ours.py", swf, nodes, "fcfs+easy", *(f"like:{peer}" for peer in PEERS))
    textbook = ours[0]["starts"]
    rows = [row_of(name, "ours", ours[0], textbook, textbook)]
    for (peer, program), like in zip(PEERS.items(), ours[1:], strict=True):
        theirs = run(python, program, bare, nodes, work)[-1]
        rows.append(row_of(name, peer, theirs, textbook, like["starts"]))
    return rows


def row_of(
    log: str, program: str, found: dict[str, Any], textbook: dict[str, float], like: dict[str, float]
) -> Row:
    starts = found["starts"]
    return Row(
        log=log,
        program=program,
        version=VERSIONS[program],
        jobs=len(textbook),
        jobs_per_s=len(starts) / found["cpu_s"],
        cpu_s=found["cpu_s"],
        peak_mib=found["peak_mib"],
        equal_textbook=sum(starts.get(number) == start for number, start in textbook.items()),
        equal_like=sum(starts.get(number) == start for number, start in like.items()),
    )


def print_table(rows: list[Row]) -> None:
    table = Table("log", "program", box=None, pad_edge=False)
    for column in ("jobs", "jobs/s", "cpu s", "peak MiB", "as the textbook", "as like: it"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.log,
            row.program,
            f"{row.jobs:,}",
            f"{row.jobs_per_s:,.0f}",
            f"{row.cpu_s:.2f}",
            f"{row.peak_mib:,.0f}",
            f"{row.equal_textbook:,}",
            f"{row.equal_like:,}",
        )
    Console(width=115).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 jobs of one log")
    parser.add_argument(
        "--jobs", type=int, default=10_000, help="at most so many of each log (default: 10,000)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder with the logs (default: traces)")
    parser.add_argument(
        "--environment", type=Path, default=Path("runs/peers"), help="of the peers (default: runs/peers)"
    )
    chosen = parser.parse_args()
    python = environment(chosen.environment.absolute())
    names, most = (("KTH",), 1_000) if chosen.quick else (("KTH", "SDSC", "CTC"), chosen.jobs)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            rows += measure(name, chosen.traces / LOGS[name], most, python, Path(work))
    if chosen.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
