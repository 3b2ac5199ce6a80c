"""What a paper leaves open, as options with names: each can be tried, and none is chosen in silence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from balancer.plugins import nearest
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from emulator.experiments.paper import Options


@dataclass(frozen=True, slots=True)
class Reading:
    """One open point. `values`: what it may mean, the default first."""

    name: str
    values: tuple[str, ...]
    about: str

    @property
    def default(self) -> str:
        return self.values[0]


@runtime_checkable
class HasReadings(Protocol):
    """The ability of a paper to be read in other ways: its runs follow `Options.readings`."""

    def readings(self) -> Sequence[Reading]:
        """The open points."""


def value_of(options: Options, reading: Reading) -> str:
    """How a point is to be read: as the world says, else as the user does."""
    if reading.name in options.world:
        return str(options.world[reading.name])
    return options.readings.get(reading.name, reading.default)


def parse(items: Sequence[str], known: Sequence[Reading]) -> dict[str, str]:
    """`NAME=VALUE`, each of them known. Raises ScenarioError with the nearest right name."""
    found: dict[str, str] = {}
    by_name = {reading.name: reading for reading in known}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise ScenarioError(f"--read {item}: expected NAME=VALUE")
        if name not in by_name:
            raise ScenarioError(f"--read {item}: there is no reading {name!r}{nearest(name, by_name)}")
        if value not in by_name[name].values:
            raise ScenarioError(
                f"--read {item}: {name} is not {value!r}{nearest(value, by_name[name].values)}"
            )
        if name in found:
            raise ScenarioError(f"--read {item}: {name} is given twice")
        found[name] = value
    return found


def combinations(known: Sequence[Reading], pinned: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Every way to read the points that are not pinned, the defaults first."""
    values = [(pinned[each.name],) if each.name in pinned else each.values for each in known]
    for chosen in product(*values):
        yield {reading.name: value for reading, value in zip(known, chosen, strict=True)}
