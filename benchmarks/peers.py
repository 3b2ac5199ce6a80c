"""Other simulators on the same jobs: jobs a second, memory, and whether every start is equal.

python benchmarks/peers.py [--quick | --whole] [--json] [--traces FOLDER] [--environment FOLDER]
python benchmarks/peers.py --starts FILE... [--json] [--traces FOLDER]

Those that PyPI has are installed, by pip, into an environment of their own (`--environment`, made when it is not
there): AccaSim, and pybatsim's EASY, driven by a loop in Batsim's place. Each has a process of its own, and so have we.
Jobs are those of a log by our input rules. Starts are compared with ours by the textbook's rules and by `like:
PROGRAM`. Processor time, because others may use the machine; the log's reading is part of it, compilation is not.

`--starts` compares what a program that no registry has once wrote of a whole log, in files such as
`KTH-rlscheduler-cd433e3.csv` (log, program, version) with the columns `job,start`, in seconds from the first submit.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
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
_STARTS = re.compile(r"(?P<log>[^-]+)-(?P<program>[^-]+)-(?P<version>.+)\.csv")
_LATER_S = 1
"""AccaSim begins at the first submit less one second, which must not be negative."""


@dataclass(frozen=True, slots=True)
class Row:
    """One program, of this version, on one log. `equal_textbook`, `equal_like`: starts that are ours by them."""

    log: str
    program: str
    version: str
    jobs: int
    equal_textbook: int
    equal_like: int
    jobs_per_s: float | None = None
    cpu_s: float | None = None
    peak_mib: float | None = None


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


def measure(name: str, log: Path, most: int | None, python: Path, work: Path) -> list[Row]:
    """All programs on the first `most` jobs of a log, or on all."""
    jobs, nodes = log_jobs(log)
    jobs = jobs.take(np.arange(len(jobs) if most is None else min(most, len(jobs))))
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


def compare(file: Path, traces: Path, work: Path) -> Row:
    """The starts of a file beside ours on the whole log."""
    name = _STARTS.fullmatch(file.name)
    if name is None or name["log"] not in LOGS:
        raise SystemExit(f"{file}: name it LOG-PROGRAM-VERSION.csv, with a log of {', '.join(LOGS)}")
    with file.open(newline="") as lines:
        starts = {row["job"]: float(row["start"]) for row in csv.DictReader(lines)}
    jobs, nodes = log_jobs(traces / LOGS[name["log"]])
    first_s = float(jobs.submit_us[0] / 1_000_000)
    swf = work / f"{file.stem}.swf"
    write_swf(to_log(jobs, nodes=nodes), swf)
    textbook, like = (
        {number: round(start - first_s, 6) for number, start in ours["starts"].items()}
        for ours in run(sys.executable, "run_ours.py", swf, nodes, "fcfs+easy", f"like:{name['program']}")
    )
    return Row(
        log=name["log"],
        program=name["program"],
        version=name["version"],
        jobs=len(textbook),
        equal_textbook=sum(starts.get(number) == start for number, start in textbook.items()),
        equal_like=sum(starts.get(number) == start for number, start in like.items()),
    )


def figure(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def print_table(rows: list[Row]) -> None:
    table = Table("log", "program", box=None, pad_edge=False)
    for column in ("jobs", "jobs/s", "cpu s", "peak MiB", "as the textbook", "as like: it"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.log,
            row.program,
            f"{row.jobs:,}",
            figure(row.jobs_per_s),
            figure(row.cpu_s, 2),
            figure(row.peak_mib),
            f"{row.equal_textbook:,}",
            f"{row.equal_like:,}",
        )
    Console(width=115).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 jobs of one log")
    parser.add_argument("--whole", action="store_true", help="whole logs")
    parser.add_argument("--starts", nargs="+", type=Path, help="files LOG-PROGRAM-VERSION.csv of job,start")
    parser.add_argument(
        "--jobs", type=int, default=10_000, help="at most so many of each log (default: 10,000)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder with the logs (default: traces)")
    parser.add_argument(
        "--environment", type=Path, default=Path("runs/peers"), help="of the peers (default: runs/peers)"
    )
    chosen = parser.parse_args()
    names = ("KTH",) if chosen.quick else ("KTH", "SDSC", "CTC")
    most = 1_000 if chosen.quick else None if chosen.whole else chosen.jobs
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if chosen.starts:
            rows = [compare(file, chosen.traces, work) for file in chosen.starts]
        else:
            python = environment(chosen.environment.absolute())
            for name in names:
                rows += measure(name, chosen.traces / LOGS[name], most, python, work)
    if chosen.json:
        how = " --starts FILE..." if chosen.starts else " --whole" if chosen.whole else ""
        command = {"command": f"python benchmarks/peers.py{how}"}
        print(json.dumps([command | asdict(row) for row in rows], indent=2))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
