"""PAA: preempt at actual arrival (hybrid-fan-2021, section III-B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.mechanisms.hybrid.decisions import Room, least_first

if TYPE_CHECKING:
    from emulator.mechanisms.hybrid.decisions import Running


@dataclass(frozen=True, slots=True)
class PreemptAtArrival:
    """Preempts running jobs in ascending order of overhead until there are enough nodes, or none at all."""

    def make_room(self, running: Running, needed: int) -> Room | None:
        chosen = least_first(running.overhead_us, running.nodes, needed)
        return None if chosen is None else Room(preempt=tuple(running.job[chosen].tolist()))
