"""Waits that a log recorded, and how far those of a run of it may be from them.

Where a run of a log as it is makes jobs wait far longer, or far shorter, than they did, something about the site is not
known here: nodes taken for processors, nodes that jobs share, nodes that were down, its own priorities and limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.swf import SwfLog

FAR = 2.0
"""How many times longer or shorter simulated waits may be than recorded ones before that is told as a doubt.

Twice: a wait that is doubled by what is not known is an effect as large as most of those that are asked for.
"""
_SLACK_MIN = 10.0
"""Added to both before they are compared: whether jobs wait one minute or five is no sign of anything."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedWaits:
    """By job, in any order: its number, and the microseconds that it waited by the log (-1: not known)."""

    number: NDArray[np.int64]
    wait_us: NDArray[np.int64]


def wait_us_of(log: SwfLog, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Recorded waits of these rows in microseconds, -1 where the log says none."""
    wait_s = log.column("wait_s")[rows]
    return np.where(wait_s >= 0, np.rint(wait_s * US), -1).astype(np.int64)


def apart(was_min: float, now_min: float) -> float:
    """How many times longer the longer of two waits is, minutes that tell nothing added to both."""
    ratio = (now_min + _SLACK_MIN) / (was_min + _SLACK_MIN)
    return max(ratio, 1 / ratio)
