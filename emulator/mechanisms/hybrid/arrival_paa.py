"""PAA: preempt at actual arrival (hybrid-fan-2021, section III-B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.mechanisms.hybrid.strategies import ArrivalBy


@dataclass(frozen=True, slots=True)
class PreemptAtArrival:
    """Preempts running jobs in ascending order of overhead until there are enough nodes, or none at all."""

    compiled: ClassVar[ArrivalBy] = ArrivalBy.PAA
