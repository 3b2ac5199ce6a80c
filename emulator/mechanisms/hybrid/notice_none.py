"""N: do nothing at the notice (hybrid-fan-2021, section III-B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.mechanisms.hybrid.strategies import NoticeBy


@dataclass(frozen=True, slots=True)
class DoNothing:
    """Ignores the notice: all is done when the on-demand job arrives."""

    compiled: ClassVar[NoticeBy] = NoticeBy.N
