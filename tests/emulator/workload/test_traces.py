"""The real logs of `traces/`: their checked figures come out of our reader and our rules.

`usable` of its README asks for a run time, a size, an estimate and a wait. Ours asks for no estimate and no
wait, but for a job that fits the machine; where the two differ, the table says why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from emulator.workload.formats import load
from emulator.workload.info import describe
from emulator.workload.rules import to_jobs
from testdata import TRACES


@dataclass(frozen=True)
class Figures:
    """A row of the README's tables (lines .. median_run_s), then ours."""

    lines: int
    usable: int
    nodes: int
    mean_wait_s: int
    median_wait_s: int
    median_run_s: int
    overruns: float
    load: float
    is_sorted: bool
    jobs: int
    left_out: dict[str, int]
    counted: dict[str, int]


OVERRUN, MISSING = "ran longer than its estimate", "estimate missing, run time taken"
LOGS = {
    "KTH-SP2-1996-2.1-cln.swf.xz": Figures(
        28_476, 28_467, 100, 15_296, 300, 847, 1.7, 0.70, True,
        28_467, {"no run time": 8, "no size": 1}, {OVERRUN: 475},
    ),
    "KTH-SP2-1996-2.swf.xz": Figures(
        28_489, 28_481, 100, 15_390, 300, 847, 1.7, 0.69, True,
        28_481, {"no run time": 8}, {OVERRUN: 475},
    ),
    # 6 jobs have no estimate: not usable there, replayed with their run time here.
    "CTC-SP2-1996-3.1-cln.swf.xz": Figures(
        77_222, 77_199, 338, 25_540, 2_197, 1_114, 9.3, 0.84, True,
        77_205, {"no run time": 17}, {OVERRUN: 7_174, MISSING: 6},
    ),
    # Likewise 35 jobs here.
    "SDSC-SP2-1998-4.2-cln.swf.xz": Figures(
        59_715, 53_999, 128, 26_474, 121, 237, 6.9, 0.83, True,
        54_034, {"no run time": 5_681}, {OVERRUN: 4_134, MISSING: 35},
    ),
    # Its nodes are the 2,004 cores.
    "UniLu-Gaia-2014-1.swf.xz": Figures(
        51_987, 51_859, 2004, 885, 2, 688, 2.9, 0.45, True,
        51_859, {"no run time": 128}, {OVERRUN: 1_500},
    ),
    "theta_2022.swf.xz": Figures(
        23_911, 23_911, 4360, 90_413, 25_754, 3_562, 26.2, 0.76, True,
        23_911, {}, {OVERRUN: 6_264},
    ),
    # 8 jobs are wider than the 4,360 nodes of the header: usable there, left out here.
    "theta_2023.swf.xz": Figures(
        8_401, 8_401, 4360, 45_588, 4_321, 1_959, 28.0, 0.84, False,
        8_393, {"wider than the cluster": 8}, {OVERRUN: 2_354},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_the_checked_figures_of_a_real_log_come_out(name):
    log = load(TRACES / name)
    workload = to_jobs(log, nodes=None)
    info = describe(log, workload)
    run, wait = log.column("run_s"), log.column("wait_s")
    size = np.maximum(log.column("requested_procs"), log.column("allocated_procs"))
    estimate = log.column("requested_s")
    assert (
        Figures(
            lines=len(log),
            usable=int(((run > 0) & (size > 0) & (estimate > 0) & (wait >= 0)).sum()),
            nodes=workload.nodes,
            mean_wait_s=round(wait.mean()),
            median_wait_s=round(float(np.median(wait))),
            median_run_s=round(float(np.median(run))),
            overruns=round(100 * float(((run > estimate) & (estimate > 0)).mean()), 1),
            load=round(info.load, 2),
            is_sorted=info.sorted_by_submit,
            jobs=len(workload.jobs),
            left_out=workload.left_out,
            counted=workload.counted,
        )
        == LOGS[name]
    )


def test_the_starts_and_shares_of_the_real_logs_are_those_of_their_readme():
    def first(name):
        log = load(TRACES / name)
        workload = to_jobs(log, nodes=None)
        return workload.shift_s, describe(log, workload)

    shift_s, kth = first("KTH-SP2-1996-2.1-cln.swf.xz")
    assert (shift_s, kth.users, kth.queues, kth.estimate_share) == (599_850, 214, 0, 1.0)
    shift_s, theta = first("theta_2022.swf.xz")
    assert (shift_s, theta.users, theta.unix_start) == (1_641_021_254, 0, 1_641_021_254)
    _, ctc = first("CTC-SP2-1996-3.1-cln.swf.xz")
    assert (ctc.users, ctc.queues, f"{ctc.estimate_share:.2%}") == (679, 4, "99.99%")


def test_the_uncleaned_kth_log_cut_at_the_estimates_has_the_malleable_papers_size():
    # Hungershoefer 2004, table 1: 28,490 jobs on 100 nodes; one has no line in the file, 8 have no run time.
    workload = to_jobs(load(TRACES / "KTH-SP2-1996-2.swf.xz"), nodes=None, overrun="kill")
    jobs = workload.jobs
    assert (len(jobs), workload.nodes, workload.shift_s) == (28_481, 100, 0)
    assert workload.counted == {OVERRUN: 475}
    assert (jobs.run_us <= jobs.estimate_us).all()
    assert round(float(jobs.nodes.mean()), 2) == 7.67  # section 5 of the paper has 7.66, the requested sizes
