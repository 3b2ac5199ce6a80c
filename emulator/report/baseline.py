"""Figures of the run that a run is held against, as `baseline.json` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "emulator-baseline-1"


@dataclass(frozen=True, slots=True)
class Baseline:
    """`name` in words, as in `0.5 h without the mechanism`; `figures` of its summary, those that pages show."""

    name: str
    figures: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "name": self.name, "figures": dict(self.figures)}

    @classmethod
    def from_json(cls, text: Any) -> Baseline:
        """Raises ValueError."""
        if not isinstance(text, dict) or text.get("format") != FORMAT:
            raise ValueError(f"not in the format {FORMAT}")
        return cls(text["name"], text["figures"])
