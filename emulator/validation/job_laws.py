"""The laws of how many jobs may be there at once: limits of users, groups, queues and QOS (docs/job-rules.md).

A part of `laws.py`: each breach is a sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US, seconds
from emulator.config.scenario_parts import LimitPart, QosPart
from emulator.events.job_limits import limits_of, values_of
from emulator.kernel.job_states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from emulator.events.job_limits import Limit
    from emulator.record.run_record import RunRecord
    from emulator.validation.node_use import NodeUse


def limits_are_kept(facts: NodeUse) -> Iterator[str]:
    """No more jobs, nodes and node-hours run at once, and no more jobs are submitted, than a limit says."""
    for limit in _limits(facts.record):
        value = np.full(len(facts.record.jobs), -1, np.int64)
        for row, number in values_of(facts.record.jobs, limit):
            value[row] = number
        yield from _running(facts.record, limit, value)
        yield from _submitted(facts.record, limit, value)


def _limits(record: RunRecord) -> list[Limit]:
    said: Any = record.scenario
    qos = None if said.get("qos") is None else QosPart.model_validate(said["qos"])
    return limits_of([LimitPart.model_validate(each) for each in said.get("limits", ())], qos)


def _running(record: RunRecord, limit: Limit, value: NDArray[np.int64]) -> Iterator[str]:
    if limit.most is None:
        return
    runs, jobs = record.runs, record.jobs
    nodes = jobs.nodes.astype(np.int64)
    asks = (np.ones_like(nodes), nodes, nodes * jobs.estimate_us)
    selected = value[runs.job] >= 0
    whose = runs.job[selected]
    end_us = np.where(runs.end_us < 0, NEVER_US, runs.end_us)[selected]
    for what, most, each in zip(("jobs", "nodes", "node-us"), limit.most, asks, strict=True):
        yield from _beyond(
            f"{what} run", limit, most, (value[whose], runs.start_us[selected], end_us), each[whose]
        )


def _submitted(record: RunRecord, limit: Limit, value: NDArray[np.int64]) -> Iterator[str]:
    if limit.submitted is None:
        return
    submit_us = record.jobs.submit_us
    end_us = np.where(record.end_us < 0, NEVER_US, record.end_us)
    refused = (record.state == JobState.CANCELLED) & (end_us <= submit_us)
    selected = (value >= 0) & ~refused
    spans = value[selected], submit_us[selected], end_us[selected]
    yield from _beyond("jobs are submitted", limit, limit.submitted, spans, np.ones(selected.sum(), np.int64))


def _beyond(
    what: str,
    limit: Limit,
    most: int,
    spans: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    amount: NDArray[np.int64],
) -> Iterator[str]:
    """A sentence for each value of which more than `most` is there at a time; `spans`: value, begin and end."""
    value, begin_us, end_us = spans
    whose = np.concatenate((value, value))
    at_us = np.concatenate((end_us, begin_us))
    change = np.concatenate((-amount, amount))
    order = np.lexsort((change, at_us, whose))
    there = np.cumsum(change[order])  # each value's is 0 again at its end
    for place in np.flatnonzero(there > most):
        if place and there[place - 1] > most and whose[order][place - 1] == whose[order][place]:
            continue
        yield (
            f"{there[place]} {what} of {limit.by} {whose[order][place]} at {seconds(int(at_us[order][place])):g} s, "
            f"more than {most}"
        )


JOB_LAWS = (limits_are_kept,)
