"""CUA: collect until actual arrival (hybrid-fan-2021, section III-B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.mechanisms.hybrid.strategies import NoticeBy


@dataclass(frozen=True, slots=True)
class CollectUntilActualArrival:
    """Holds the idle nodes, then any that become free, until there are enough or the on-demand job arrives."""

    compiled: ClassVar[NoticeBy] = NoticeBy.CUA
