"""The made year that is like Theta's logs, beside these logs."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from emulator.workload.streams import stream
from emulator.workload.theta_logs import ThetaLogs
from testdata import TRACES


def _rank(values):
    """Ranks from 0, equal values the mean of theirs."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return (ends - (count + 1) / 2)[which]


def marginals(jobs, asked_us):
    """What the logs tell of how jobs come, ask and run."""
    gaps = np.diff(np.sort(jobs.submit_us))
    return {
        "gaps of at most 10 s": (gaps <= 10_000_000).mean(),
        "coefficient of variation of gaps": gaps.std() / gaps.mean(),
        "ran to the walltime": (jobs.run_us >= 0.98 * asked_us).mean(),
        "of 128 nodes": (jobs.nodes == 128).mean(),
        "of 256 nodes": (jobs.nodes == 256).mean(),
        "rank correlation of nodes and run time": np.corrcoef(_rank(jobs.nodes), _rank(jobs.run_us))[0, 1],
        "rank correlation of nodes and walltime": np.corrcoef(_rank(jobs.nodes), _rank(asked_us))[0, 1],
        "spread of run times": np.log(np.maximum(jobs.run_us, 1_000_000)).std(),
    }


def logged(name):
    log = load(TRACES / name)
    workload = to_jobs(log, nodes=4392)
    return marginals(workload.jobs, log.column("requested_s")[workload.rows] * 1e6)


def test_each_figure_lies_between_those_of_the_two_logs_or_a_fifth_beside_them():
    logs = [logged("theta_2022.swf.xz"), logged("theta_2023.swf.xz")]
    made = ThetaLogs().generate(stream(3, "test"), nodes=4392)
    found = marginals(made, made.estimate_us)
    apart = {
        name: (value, *sorted(log[name] for log in logs))
        for name, value in found.items()
        if not 0.8 * min(log[name] for log in logs) <= value <= 1.2 * max(log[name] for log in logs)
    }
    assert apart == {}


def test_the_totals_are_those_that_the_paper_prints():
    jobs = ThetaLogs().generate(stream(3, "test"), nodes=4392)
    assert (len(jobs), jobs.nodes.min(), jobs.nodes.max() <= 4392) == (37_298, 128, True)
    assert jobs.run_us.max() <= 86_400_000_000
    assert (jobs.nodes * jobs.run_us).sum() / 1e6 == pytest.approx(0.832 * 4392 * 365 * 86_400, rel=0.01)
    assert (jobs.estimate_us >= jobs.run_us).all()


@pytest.mark.parametrize("name", ["gap_spread", "day_spread", "at_limit", "together"])
def test_a_bad_parameter_is_named(name):
    with pytest.raises(ValueError, match=f"theta_logs: {name}"):
        ThetaLogs(**{name: -0.1})
