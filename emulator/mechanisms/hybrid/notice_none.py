"""N: do nothing at the notice (hybrid-fan-2021, section III-B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.mechanisms.hybrid.notice_plan import Outlook, Preparation


@dataclass(frozen=True, slots=True)
class DoNothing:
    """Ignores the notice: all is done when the on-demand job arrives."""

    def prepare(self, outlook: Outlook) -> Preparation | None:  # noqa: ARG002
        return None
