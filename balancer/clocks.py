"""The clock that the service goes by: `wall`, or one that another package brings (entry point `balancer.clocks`)."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from balancer.clock import Clock

GROUP = "balancer.clocks"


def make_clock(item: object) -> Clock:
    """The clock written as `name` or `{name: {parameter: value}}`, also as text. Raises ValueError."""
    if isinstance(item, str) and item.startswith("{"):
        item = yaml.safe_load(item)
    values: dict[str, object] = {}
    match item:
        case str():
            name = item
        case dict() if len(item) == 1 and all(isinstance(each, dict) for each in item.values()):
            ((name, values),) = item.items()
        case _:
            raise ValueError(
                f"a clock is written as `name` or `{{name: {{parameter: value}}}}`, not {item!r}"
            )
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise ValueError(f"there is no clock {name!r}; installed are {', '.join(sorted(found))}")
    try:
        clock: Clock = found[name].load()(**values)
    except TypeError as error:
        raise ValueError(f"clock {name}: {error}") from error
    return clock
