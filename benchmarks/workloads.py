"""Workloads to measure with: whole logs, and synthetic ones of any size at one load."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from balancer.clock import US
from emulator.workload.formats import load as read_log
from emulator.workload.rules import to_jobs
from emulator.workload.table import JobTable

TRACES = Path(__file__).parents[1] / "traces"
LOGS = {
    "KTH": "KTH-SP2-1996-2.1-cln.swf.xz",
    "CTC": "CTC-SP2-1996-3.1-cln.swf.xz",
    "SDSC": "SDSC-SP2-1998-4.2-cln.swf.xz",
    "UniLu": "UniLu-Gaia-2014-1.swf.xz",
    "Theta": "theta_2022.swf.xz",
}

_REQUESTS_S = np.array([600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800])
"""Walltimes that people ask for; a longer run asks for its own length."""


def log_jobs(path: Path) -> tuple[JobTable, int]:
    """All replayable jobs of a log, and the nodes of its machine."""
    work = to_jobs(read_log(path), nodes=None)
    return work.jobs, work.nodes


def offered_load(jobs: JobTable, nodes: int) -> float:
    """Node time wanted, in parts of the machine's from the first to the last submit."""
    wanted = float((jobs.nodes * (jobs.run_us / US)).sum())
    return wanted / (nodes * float(np.ptp(jobs.submit_us) / US))


def synthetic_jobs(
    count: int, nodes: int, *, load: float = 0.85, widest: int = 64, seed: int = 1
) -> JobTable:
    """76 % of the jobs want one node, the others 2 to `widest` (uniform in the logarithm), as on Cori.

    Run times are log-normal (median 20 minutes), requests are rounded up to usual walltimes. Jobs are submitted
    independently of one another at the rate that offers `load` of the machine's node time. The same
    seed gives the same shapes whatever the machine, so that only the rate depends on `nodes`.
    """
    rng = np.random.default_rng(seed)
    single = rng.random(count) < 0.76
    wide = np.floor(2.0 ** rng.uniform(1, np.log2(widest + 1), count)).astype(np.int64)
    width = np.where(single, 1, wide)
    run_s = np.clip(np.exp(rng.normal(np.log(1200), 1.6, count)), 1, 172_800).astype(np.int64)
    asked_s = np.maximum(run_s, (run_s * rng.uniform(1, 8, count)).astype(np.int64))
    place = np.minimum(np.searchsorted(_REQUESTS_S, asked_s), len(_REQUESTS_S) - 1)
    estimate_s = np.maximum(_REQUESTS_S[place], run_s)
    span_s = float((width * run_s).sum()) / (load * nodes)
    gaps = rng.exponential(1.0, count)
    submit_s = np.cumsum(gaps) * (span_s / gaps.sum())
    return JobTable.build(
        submit_us=np.floor(submit_s).astype(np.int64) * US,
        run_us=run_s * US,
        estimate_us=estimate_s * US,
        nodes=width.astype(np.int32),
    )
