"""What a job log can be trusted for: waits, sizes, limits and users, each with the number of jobs that say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.text.number_text import grouped
from emulator.workload import rules
from emulator.workload.cloud_rows import SHARED_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.workload.swf import SwfLog
    from emulator.workload.workload import Workload

_ENOUGH = 0.95
"""This share of the jobs has to say it."""
_FEW = 0.05
"""No more than this share of the jobs may contradict it."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether a log can be trusted for `what`: `jobs` of `of` say it. `why` it cannot; empty if it can."""

    what: str
    jobs: int
    of: int
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({grouped(self.jobs)} of {grouped(self.of)} jobs{f': {self.why}' if self.why else ''})"


def trusts(log: SwfLog, workload: Workload, *, is_crowded: bool) -> tuple[Trust, ...]:
    """Of waits, sizes, limits and users. `is_crowded`: by its starts more nodes were in use than there were."""
    rows, jobs = workload.rows, workload.jobs
    waits = int((log.column("wait_s")[rows] >= 0).sum())
    without_size = workload.left_out.get(rules.NO_SIZE, 0)
    limits, overran = int((log.column("requested_s")[rows] > 0).sum()), workload.counted.get(rules.OVERRUN, 0)
    users = jobs.user[jobs.user >= 0]
    return (
        _of("waits", waits, len(jobs), "servers do not wait in a queue" if SHARED_KEY in log.keys else ""),
        _of("sizes", len(jobs), len(jobs) + without_size,
            "by its starts more nodes were in use than there were" if is_crowded else ""),
        _of("limits", limits, len(jobs),
            f"{grouped(overran)} ran longer than theirs" if overran > _FEW * len(jobs) else ""),
        _of("users", len(users), len(jobs),
            "all have the same user" if len(jobs) > 1 and len(np.unique(users)) == 1 else ""),
    )  # fmt: skip


def trust_sentence(found: Sequence[Trust]) -> str:
    """One sentence, first what the log can be trusted for."""
    good, bad = [each for each in found if not each.why], [each for each in found if each.why]
    if not good:
        return f"Cannot be trusted for {_listed(bad)}."
    return f"Can be trusted for {_listed(good)}{f'; not for {_listed(bad)}' if bad else ''}."


def _of(what: str, jobs: int, of: int, against: str) -> Trust:
    if jobs < _ENOUGH * of:
        return Trust(what, jobs, of, "it does not say them" if jobs == 0 else "too few say them")
    return Trust(what, jobs, of, against)


def _listed(found: Sequence[Trust]) -> str:
    *first, last = map(str, found)
    return f"{', '.join(first)} and {last}" if first else last
