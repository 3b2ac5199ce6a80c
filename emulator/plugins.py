"""Plug-ins by entry point, made from what a scenario file says about them."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from math import isfinite
from typing import Any


def plugin_names(group: str) -> list[str]:
    """The names that installed packages declare in this entry point group, sorted."""
    return sorted({entry.name for entry in entry_points(group=group)})


@cache
def find_plugin(group: str, name: str) -> Any:
    """The class behind a name. Raises ValueError with the nearest right name for an unknown one.

    Looking through what is installed takes longer than a small run, and nothing is installed while one goes on.
    """
    for entry in entry_points(group=group, name=name):
        return entry.load()
    raise ValueError(f"there is no {_noun(group)} {name!r}{_hint(name, plugin_names(group))}")


def make_plugin(group: str, item: object) -> Any:
    """The plug-in that an item of a scenario's list asks for.

    An item is a name (`daily_batch`), a name with parameters (`window: {begin_s: 0, end_s: 3600}`), or, for a
    class with exactly one parameter, a name with its value (`limit: 1000`). Raises ValueError.
    """
    name, params = _name_and_params(group, item)
    cls = find_plugin(group, name)
    if not isinstance(cls, type) or not is_dataclass(cls):
        raise TypeError(f"the {_noun(group)} {name!r} is not a dataclass: {cls!r}")
    known = [field.name for field in fields(cls) if field.init]
    if params is None:
        params = {}
    if not isinstance(params, dict):
        if len(known) != 1:
            raise ValueError(f"{name} takes parameters by name ({', '.join(known)}), not {params!r}")
        params = {known[0]: params}
    for key in params:
        if key not in known:
            raise ValueError(f"{name} has no parameter {key!r}{_hint(str(key), known)}")
    missing = [
        field.name
        for field in fields(cls)
        if field.init
        and field.name not in params
        and field.default is MISSING
        and field.default_factory is MISSING
    ]
    if missing:
        raise ValueError(f"{name} needs the parameter {missing[0]!r}")
    return cls(**params)


def check_number(
    owner: str,
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
) -> None:
    """Raise ValueError unless the parameter is a finite number within its bounds."""
    kind = "a whole number" if whole else "a number"
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{owner}: {name} must be {kind}, not {value!r}")
    if above is not None and not value > above:  # type: ignore[operator]
        raise ValueError(f"{owner}: {name} must be more than {above:g}, not {value!r}")
    if at_least is not None and not value >= at_least:  # type: ignore[operator]
        raise ValueError(f"{owner}: {name} must be at least {at_least:g}, not {value!r}")
    if at_most is not None and not value <= at_most:  # type: ignore[operator]
        raise ValueError(f"{owner}: {name} must be at most {at_most:g}, not {value!r}")


def _name_and_params(group: str, item: object) -> tuple[str, Any]:
    if isinstance(item, str):
        return item, None
    if isinstance(item, dict) and len(item) == 1:
        ((name, params),) = item.items()
        return str(name), params
    raise ValueError(f"a {_noun(group)} is written as `name: parameters`, not {item!r}")


def _noun(group: str) -> str:
    noun = group.rpartition(".")[2].replace("_", " ")
    return f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")


def _hint(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known) or 'none'}"
