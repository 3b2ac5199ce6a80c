"""Which tests run first: the slow ones, so that no worker is alone with one of them at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

_ONE_AT_A_TIME = "alone"
"""Tests with this fixture wait for each other: two workers that have some of them are one."""


@dataclass(slots=True)
class _Share:
    """What a worker begins with. `weight` is about the seconds that its slow tests take."""

    items: list[pytest.Item] = field(default_factory=list)
    weight: float = 0.0


def slow_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in an order in which each of the workers begins with slow ones and ends with quick ones.

    `--dist worksteal` gives each worker a part of the list, all parts of the same length, and whoever is done
    takes half of what the longest part still has, from its end. Modules with a slow test are dealt to the heads of the
    parts, the heaviest first, and stay whole, for the sake of their fixtures; the others fill the parts up. Tests of
    whole systems of others mostly wait: containers are one worker's, Slurm and Nova another's, beside whom the others
    use the processors.
    """
    modules = [list(group) for _, group in groupby(items, key=lambda item: item.path)]
    slow = sorted((each for each in modules if _weight(each)), key=_weight, reverse=True)
    alone = [item for module in slow if _waits(module) == _Waits.EACH_OTHER for item in module]
    waiting = [item for module in slow if _waits(module) == _Waits.A_SYSTEM for item in module]
    shares = [_Share() for _ in range(workers)]
    for module in [alone, waiting, *(each for each in slow if not _waits(each))]:
        share = min(shares, key=lambda share: share.weight)
        share.items += module
        share.weight += _weight(module)
    quick = iter([item for module in modules if not _weight(module) for item in module])
    found: list[pytest.Item] = []
    for number, share in enumerate(shares):
        found += share.items
        size = (len(items) - len(found) + len(share.items)) // (workers - number)
        found += islice(quick, max(0, size - len(share.items)))
    return [*found, *quick]


class _Waits(IntEnum):
    """For what a module mostly waits."""

    NOTHING = 0
    A_SYSTEM = 1
    """The processes of somebody else's system."""
    EACH_OTHER = 2
    """Another such test, and containers."""


def _waits(module: Iterable[pytest.Item]) -> _Waits:
    items = list(module)
    if any(_ONE_AT_A_TIME in item.fixturenames for item in items):
        return _Waits.EACH_OTHER
    return _Waits(any(_has(item, "live") and _has(item, "timeout") for item in items))


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _weight(module: Iterable[pytest.Item]) -> float:
    return sum(_seconds(item) for item in module)


def _seconds(item: pytest.Item) -> float:
    """A guess: 0 of a quick one, more of one that has a time limit of its own."""
    if not _has(item, "slow"):
        return 0.0
    if _has(item, "sample"):
        return 1.0
    if _ONE_AT_A_TIME in item.fixturenames:
        return 90.0
    return 20.0 if _has(item, "timeout") else 4.0
