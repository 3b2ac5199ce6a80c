"""Real logs and known schedules, read line by line."""

from __future__ import annotations

import csv
import gzip
import lzma
from typing import TYPE_CHECKING

from balancer.clock import US
from scenario_kit import jobs_in_s
from testdata import RECORDED, TRACES

if TYPE_CHECKING:
    from emulator.workload.table import JobTable


def read_log(name: str, *, overrun: str = "extend", size: str = "requested") -> JobTable:
    """A log of the archive by the input rule of `tests/recorded/README.md`.

    `overrun` is `extend` (the estimate is raised to the run time), `kill` (the run time is cut at the
    estimate) or `run_on` (neither); `size` is `requested` (field 8, else field 5) or `allocated` (field 5).
    """
    rows = []
    with lzma.open(TRACES / f"{name}.swf.xz", "rt") as lines:
        for line in lines:
            if line.startswith(";"):
                continue
            fields = [int(float(text)) for text in line.split()]
            number, submit, run, nodes, estimate = fields[0], fields[1], fields[3], fields[7], fields[8]
            if nodes < 1 or size == "allocated":
                nodes = fields[4]
            if run < 1 or nodes < 1:
                continue
            if estimate < 1:
                estimate = run
            if overrun == "kill":
                run = min(run, estimate)
            rows.append((number, submit, run, estimate if overrun == "run_on" else max(estimate, run), nodes))
    first = min(row[1] for row in rows)
    return _table([(number, submit - first, *rest) for number, submit, *rest in rows])


def read_known_input(jobs: int) -> JobTable:
    """The first `jobs` replayable jobs of SDSC-SP2-1998-4.2-cln."""
    names = ("job_id", "submit", "run", "estimate", "nodes")
    rows = _csv(f"input_sdsc-sp2-cln_{jobs}")
    return _table([tuple(int(row[name]) for name in names) for row in rows])


def read_known_schedule(jobs: int) -> dict[int, tuple[int, int]]:
    """Start and end by job number, in microseconds: FCFS and EASY on 128 nodes."""
    return {
        int(row["job_id"]): (int(row["start"]) * US, int(row["end"]) * US)
        for row in _csv(f"reference_easy_sdsc-sp2-cln_{jobs}")
    }


def read_accasims_starts() -> dict[int, int]:
    """Start by job number, in microseconds, of the first 5,000: by AccaSim itself, EASY and first fit on 128 nodes."""
    return {int(row["job_id"]): int(row["start"]) * US for row in _csv("accasim_sdsc-sp2-cln_5000")}


def _csv(name: str) -> list[dict[str, str]]:
    with gzip.open(RECORDED / "schedules" / f"{name}.csv.gz", "rt") as lines:
        return list(csv.DictReader(lines))


def _table(rows: list[tuple[int, ...]]) -> JobTable:
    return jobs_in_s(rows, "number", "submit_us", "run_us", "estimate_us", "nodes")
