"""SPAA: shrink, else preempt, at actual arrival (hybrid-fan-2021, section III-B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.mechanisms.hybrid.arrival_paa import PreemptAtArrival
from emulator.mechanisms.hybrid.decisions import Room, evenly

if TYPE_CHECKING:
    from emulator.mechanisms.hybrid.decisions import Running


@dataclass(frozen=True, slots=True)
class ShrinkPreemptAtArrival:
    """Shrinks the running malleable jobs as evenly as possible if that is enough, else does as PAA."""

    def make_room(self, running: Running, needed: int) -> Room | None:
        given = evenly(running.spare, needed)
        if given is None:
            return PreemptAtArrival().make_room(running, needed)
        giving = np.flatnonzero(given)
        return Room(shrink=tuple(zip(running.job[giving].tolist(), given[giving].tolist(), strict=True)))
