"""CUA: collect until actual arrival (hybrid-fan-2021, section III-B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.mechanisms.hybrid.notice_plan import Preparation

if TYPE_CHECKING:
    from emulator.mechanisms.hybrid.notice_plan import Outlook


@dataclass(frozen=True, slots=True)
class CollectUntilActualArrival:
    """Holds the idle nodes, then any that become free, until there are enough or the on-demand job arrives."""

    def prepare(self, outlook: Outlook) -> Preparation:  # noqa: ARG002
        return Preparation(collects=True)
