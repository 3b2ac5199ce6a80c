"""Tiles and picture that a run's mechanism declares (`emulator/simulation/tiles.py`), found by its name."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from emulator.plugins import PluginError, find_plugin
from emulator.simulation.mechanism import GROUP, ability, plugin_name
from emulator.simulation.tiles import MOST_TILES, HasPicture, HasTiles, Picture, Tile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.record.run_record import RunRecord


def tiles_of(record: RunRecord, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Declarations of the tiles whose figures the summary has, as they are kept in it."""
    declares = ability(_mechanism(record), HasTiles)  # type: ignore[type-abstract]
    if declares is None:
        return []
    there = [tile for tile in declares.tiles if at(summary, tile.figure) is not None]
    return [_as_json(tile, summary) for tile in there[:MOST_TILES]]


def picture_of(record: RunRecord) -> Picture | None:
    """The mechanism's picture of a run; None without one, or where the mechanism is not installed here."""
    shows = ability(_mechanism(record), HasPicture)  # type: ignore[type-abstract]
    found = None if shows is None else shows.picture(record)
    if found is not None and not isinstance(found, Picture):
        raise TypeError(f"picture returned {found!r}; return a Picture (emulator.simulation.tiles), or None")
    return found


def at(summary: Mapping[str, Any], path: str) -> Any:
    """The figure at a path such as `mechanism.preemptions`; None where there is none."""
    found: Any = summary
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _as_json(tile: Tile, summary: Mapping[str, Any]) -> dict[str, Any]:
    """With those further figures alone that there are."""
    beside = [list(each) for each in tile.beside if at(summary, each[1]) is not None]
    return asdict(tile) | {"of": "" if at(summary, tile.of) is None else tile.of, "beside": beside}


def _mechanism(record: RunRecord) -> object:
    """The class, function or object behind the scenario's mechanism; None without one that is known here."""
    item = record.scenario.get("mechanism")
    if item is None:
        return None
    try:
        return find_plugin(GROUP, plugin_name(item))
    except PluginError:
        return None
