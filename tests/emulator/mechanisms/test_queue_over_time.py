"""The queue of a run, whatever its mechanism does with jobs, is that of a count event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from emulator.kernel.job_states import RunOutcome
from emulator.metrics.timeline import timeline
from emulator.report import tables
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from testdata import TRACES

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord

_SITE = {"daily_batch": {"days": 2, "jobs": 400, "load": 1.1}}
_KTH = TRACES / "KTH-SP2-1996-2.swf.xz"
SCENARIOS: dict[str, dict[str, Any]] = {
    "hybrid": {
        "nodes": 4392,
        "workload": {
            "generate": [{"theta_year": {"days": 8, "jobs": 800}}],
            "transforms": [{"hybrid_kinds": {"notices": "W5"}}],
        },
        "mechanism": {"hybrid": {"strategy": "cua+spaa"}},
    },
    "malleable": {
        "nodes": 100,
        "workload": {
            "trace": str(_KTH),
            "overrun": "kill",
            "transforms": [
                {"window": {"begin_s": 0, "end_s": 1_000_000}},
                {"scale_interarrival": 0.6},
                {"flexible_jobs": {"moldable": 0.4, "malleable": 0.4}},
            ],
        },
        "scheduler": "fcfs+conservative",
        "mechanism": {"malleable": {"tick_s": 1}},
    },
    "realtime": {
        "nodes": 64,
        "workload": {"generate": [_SITE]},
        "mechanism": {"realtime": {"scheme": "pre_ckpt", "percent": 20, "topology": "flat"}},
    },
    "balancer": {
        "nodes": 64,
        "workload": {"generate": [_SITE, {"bursty_leases": {"days": 2}}]},
        "mechanism": "balancer",
    },
}
INTERRUPTED = {
    "hybrid": {RunOutcome.PREEMPTED, RunOutcome.RESIZED},
    "malleable": {RunOutcome.RESIZED},
    "realtime": {RunOutcome.PREEMPTED},
}
"""What happens to runs, so that it is looked at."""


def queue_by_events(record: RunRecord) -> dict[int, tuple[int, int]]:
    """Waiting jobs and their nodes after all events of each time: each job waits, runs, pauses or is over."""
    nodes = dict(zip(record.jobs.number.tolist(), record.jobs.nodes.tolist(), strict=True))
    waiting: set[int] = set()
    found = {}
    for event in tables.events_table(record).whole().to_pylist():
        job, kind = event["job"], event["event"]
        if kind in {"submit", "requeue", "preempt"}:
            waiting.add(job)
        elif kind in {"start", "cancel"}:
            waiting.discard(job)
        found[event["time_us"]] = (len(waiting), sum(nodes[each] for each in waiting))
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_queue_is_that_of_a_count_event_by_event(name: str) -> None:
    scenario = from_mapping({"name": name, "seed": 3, "scheduler": "fcfs+easy", **SCENARIOS[name]})
    record = run_virtual(scenario, prepare(scenario))
    assert INTERRUPTED.get(name, set()) <= {RunOutcome(each) for each in np.unique(record.runs.outcome)}
    line, counted = timeline(record), queue_by_events(record)
    at = np.searchsorted(line.at_us, list(counted), side="right") - 1
    queue = zip(line.queued_jobs[at].tolist(), line.queued_nodes[at].tolist(), strict=True)
    assert dict(zip(counted, queue, strict=True)) == counted
    assert max(line.queued_jobs) > 0
