"""Tiles of a run's mechanism as texts, for the terminal, the report and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.metrics.mechanism_tiles import at
from emulator.text.number_text import duration, number, numbers, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        (text,) = figure_texts([at(summary, tile["figure"])], tile["unit"])
        if tile["of"]:
            text += f" of {number(at(summary, tile['of']))}"
        remark = ", ".join(f"{name} {_by_path(summary, path)}" for name, path in tile["beside"])
        found.append((tile["name"], text, remark))
    return found


def _by_path(summary: dict[str, Any], path: str) -> str:
    """A figure with the unit that its name ends with."""
    unit = next((unit for end, unit in (("_node_h", "node-h"), ("_s", "s")) if path.endswith(end)), "")
    return figure_texts([at(summary, path)], unit)[0]


def figure_texts(values: Sequence[float | None], unit: str) -> list[str]:
    """A figure of several runs with its unit, all with the same decimals."""
    match unit:
        case "s":
            return [duration(value) for value in values]
        case "h":
            return [duration(None if value is None else value * _S_PER_H) for value in values]
        case "share":
            return [percent(value) for value in values]
    texts = [number(values[0])] if len(values) == 1 else numbers(values)
    suffix = "" if unit in ("count", "") else f" {unit}"
    return [text if value is None else f"{text}{suffix}" for text, value in zip(texts, values, strict=True)]
