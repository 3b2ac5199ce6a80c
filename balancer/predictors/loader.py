"""Finds predictors by entry point (`balancer.predictors`) and sets them up with checked parameters."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from balancer.predictors.interface import Predictor

GROUP = "balancer.predictors"


class BadPredictor(ValueError):
    """No such predictor, or a wrong parameter; says which and what to do."""


@dataclass(frozen=True, slots=True)
class Named:
    """A predictor and what it is called."""

    name: str
    predictor: Predictor


def predictor_names() -> tuple[str, ...]:
    """The installed predictors."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_predictor(name: str, parameters: Mapping[str, object] | None = None) -> Predictor:
    """The predictor of this name with these parameters. Raises BadPredictor."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        close = get_close_matches(name, found, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(found)) or 'none'}"
        raise BadPredictor(f"there is no predictor {name!r}; {hint}")
    return make_predictor(name, found[name].load(), parameters or {})


def make_predictor(name: str, factory: Any, parameters: Mapping[str, object]) -> Predictor:
    """A dataclass with these parameters, converted to their types. Raises BadPredictor."""
    known = TypeAdapter(factory).core_schema and sorted(factory.__dataclass_fields__)
    for key in parameters:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known) or 'none'}"
            raise BadPredictor(f"predictor {name} has no parameter {key!r}; {hint}")
    try:
        return cast("Predictor", TypeAdapter(factory).validate_python(dict(parameters)))
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f" {part}:" for part in first["loc"])
        raise BadPredictor(
            f"predictor {name}:{place} {first['msg'].removeprefix('Value error, ')}"
        ) from error


def parse_predictor(item: object) -> Predictor:
    """From configuration: a name, or `{name: NAME, PARAMETER: VALUE, ...}`. Raises BadPredictor."""
    if isinstance(item, str):
        return load_predictor(item)
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise BadPredictor(f"a predictor is written as its name or as {{name: NAME, ...}}, not {item!r}")
    return load_predictor(item["name"], {str(key): value for key, value in item.items() if key != "name"})
