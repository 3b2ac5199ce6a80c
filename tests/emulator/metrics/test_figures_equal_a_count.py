"""Headline figures of runs that stretch jobs, against a slow count from the run record alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import emulator
from emulator.harness.record import JobState, RunOutcome
from emulator.workload.table import Kind

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def counted(record):
    """Job by job and core by core, in plain Python."""
    wait, response, bounded, above, below = [], [], [], 0, 0
    for row in range(len(record.jobs)):
        if record.jobs.kind[row] != Kind.BATCH or record.state[row] != JobState.ENDED:
            continue
        submit, start, end = (
            int(times[row]) for times in (record.jobs.submit_us, record.start_us, record.end_us)
        )
        owed = int(record.jobs.run_us[row])
        if RunOutcome.KILLED in record.runs.outcome[record.runs.job == row]:
            owed = min(owed, end - start)
        wait.append((start - submit) / 1e6)
        response.append((end - submit) / 1e6)
        bounded.append(max(1, (end - submit) / max(owed, 10_000_000)))
        if owed:
            above += int(record.jobs.nodes[row]) * (end - submit)
            below += int(record.jobs.nodes[row]) * owed
    return {
        "mean_wait_s": float(np.mean(wait)),
        "mean_response_s": float(np.mean(response)),
        "mean_bounded_slowdown": float(np.mean(bounded)),
        "slowdown_weighted_by_area": above / below,
        "utilization": used(record),
    }


def used(record):
    """Time in which something runs on each physical core or node, moment by moment."""
    runs, shares = record.runs, "oversubscribe" in (record.scenario.get("mechanism") or {})
    spans = {}
    for run in range(len(runs.job)):
        end = int(runs.end_us[run]) if runs.end_us[run] >= 0 else record.horizon_us
        for node in runs.node[runs.first[run] : runs.first[run + 1]].tolist():
            name = record.node_names[node]
            spans.setdefault(name.rsplit(".", 1)[0] if shares else name, []).append(
                (int(runs.start_us[run]), end)
            )
    names = {name.rsplit(".", 1)[0] if shares else name for name in record.node_names}
    busy = 0
    for of_core in spans.values():
        reached = -1
        for start, end in sorted(of_core):
            busy += max(0, end - max(start, reached))
            reached = max(reached, end)
    ends = [end for of_core in spans.values() for _, end in of_core]
    first = min(int(record.jobs.submit_us[job]) for job in runs.job.tolist())
    return busy / (len(names) * (max(ends) - first))


@pytest.mark.parametrize("multiplicity", [1, 2, 4])
def test_of_jobs_that_share_cores(multiplicity):
    found = emulator.run(
        SCENARIOS / "shared-cores.yaml", changes={"mechanism.oversubscribe.multiplicity": multiplicity}
    )
    expected = counted(found.record)
    assert {name: found.summary[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert found.summary["nodes"] == 2


def test_sharing_does_not_flatter():
    """Each of 8 jobs starts at once with 4 on a core, and runs longer: bounded slowdown was 1, utilisation 44 %."""
    changes = {"mechanism.oversubscribe.multiplicity": 4}
    summary = emulator.run(SCENARIOS / "shared-cores.yaml", changes=changes).summary
    assert summary["mean_wait_s"] == 0
    assert summary["mean_bounded_slowdown"] == pytest.approx(2.0, abs=0.05)
    assert summary["utilization"] == pytest.approx(0.9565, abs=1e-4)


@pytest.mark.parametrize("name", ["default", "energy"])
def test_of_whole_nodes(name):
    found = emulator.run(SCENARIOS / f"{name}.yaml")
    expected = counted(found.record)
    assert {key: found.summary[key] for key in expected} == pytest.approx(expected, rel=1e-12)
