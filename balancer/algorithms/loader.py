"""Finds algorithms by entry point (`balancer.algorithms`) and sets them up with checked parameters."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from balancer.algorithms.interface import Algorithm

GROUP = "balancer.algorithms"


class BadAlgorithm(Exception):
    """No such algorithm, one that cannot be loaded, or a wrong parameter; says which and what to do."""


def algorithm_names() -> tuple[str, ...]:
    """The installed algorithms."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_algorithm(name: str, parameters: Mapping[str, object] | None = None) -> Algorithm:
    """The algorithm of this name with these parameters. Raises BadAlgorithm."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise BadAlgorithm(f"there is no algorithm {name!r}{_instead(name, found)}")
    try:
        factory = found[name].load()
    except Exception as error:
        raise BadAlgorithm(f"algorithm {name} ({found[name].value}) cannot be loaded: {error}") from error
    return make_algorithm(name, factory, parameters or {})


def make_algorithm(name: str, factory: Any, parameters: Mapping[str, object]) -> Algorithm:
    """Call the class with the parameters, each one converted to its annotated type. Raises BadAlgorithm."""
    try:
        known = inspect.signature(factory).parameters
    except (TypeError, ValueError) as error:
        raise BadAlgorithm(f"algorithm {name} is not a class with named parameters: {error}") from error
    unknown = next((parameter for parameter in parameters if parameter not in known), None)
    if unknown is not None:
        raise BadAlgorithm(f"algorithm {name} has no parameter {unknown!r}{_instead(unknown, known)}")
    missing = [key for key, spec in known.items() if spec.default is spec.empty and key not in parameters]
    if missing:
        raise BadAlgorithm(f"algorithm {name} needs the parameter {missing[0]!r}")
    types = get_type_hints(factory.__init__) if inspect.isclass(factory) else get_type_hints(factory)
    values = {}
    for key, value in parameters.items():
        try:
            values[key] = TypeAdapter(types.get(key, Any)).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise BadAlgorithm(f"algorithm {name}, parameter {key} = {value!r}: {reason}") from error
    try:
        algorithm = factory(**values)
    except ValueError as error:
        raise BadAlgorithm(f"algorithm {name}: {error}") from error
    if not callable(getattr(algorithm, "plan", None)):
        raise BadAlgorithm(f"algorithm {name} has no method plan(view)")
    return cast("Algorithm", algorithm)


def _instead(name: str, known: Iterable[str]) -> str:
    """What was probably meant, or all there is."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(names)}" if names else "; it has none"
