"""Tiles of a run's mechanism as texts, for the terminal, the report and comparisons."""

from __future__ import annotations

from typing import Any

from emulator.metrics.mechanism_tiles import at
from emulator.report.wording import NO_FIGURE, duration, number

_S_PER_H = 3600


_OF_EVERY_RUN = frozenset(
    {
        "ondemand_granted", "ondemand_rejected", "reserve_idle_node_h", "mean_wait_s", "mean_response_s",
        "slowdown_weighted_by_area",
    }
)  # fmt: skip
"""Figures that rows of every run have."""


def own_tiles(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The tiles that tell more than the rows of every run."""
    return [tile for tile in summary.get("tiles", []) if tile["figure"] not in _OF_EVERY_RUN]


def tile_texts(
    summary: dict[str, Any], tiles: list[dict[str, Any]] | None = None
) -> list[tuple[str, str, str]]:
    """(name, value, remark) of each tile, or of these; every number is one of the summary."""
    found = []
    for tile in summary.get("tiles", []) if tiles is None else tiles:
        text = figure_text(at(summary, tile["figure"]), tile["unit"])
        if tile["of"]:
            text += f" of {number(at(summary, tile['of']))}"
        remark = ", ".join(f"{name} {number(at(summary, path))}" for name, path in tile["beside"])
        found.append((tile["name"], text, remark))
    return found


def figure_text(value: float | None, unit: str) -> str:
    """A figure with its unit."""
    if value is None:
        return NO_FIGURE
    match unit:
        case "s":
            return duration(value)
        case "h":
            return duration(value * _S_PER_H)
        case "share":
            return f"{100 * value:.1f} %"
        case "count" | "":
            return number(value)
        case _:
            return f"{number(value)} {unit}"
