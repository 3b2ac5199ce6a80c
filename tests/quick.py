"""What the quick gate runs of long lists of cases, and what a change runs at all; the night runs every test."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from gates import IS_CHANGE

if TYPE_CHECKING:
    from collections.abc import Iterable


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Mark slow all cases of a test marked `sample(n)` but n, evenly spread from the first to the last."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        (count,) = found[0].get_closest_marker("sample").args
        kept = {round(at * (len(found) - 1) / max(count - 1, 1)) for at in range(count)}
        for at, item in enumerate(found):
            if at not in kept:
                item.add_marker(pytest.mark.slow)


def without_nightly(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `nightly` are not a change's: others do nearly the same, in less time."""
    left = [item for item in items if item.get_closest_marker("nightly")]
    if left and IS_CHANGE:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
