"""SPAA: shrink, else preempt, at actual arrival (hybrid-fan-2021, section III-B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.mechanisms.hybrid.strategies import ArrivalBy


@dataclass(frozen=True, slots=True)
class ShrinkPreemptAtArrival:
    """Shrinks the running malleable jobs as evenly as possible if that is enough, else does as PAA."""

    compiled: ClassVar[ArrivalBy] = ArrivalBy.SPAA
