"""What of a long list of cases the quick gate runs; `scripts/test --all` runs every one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def spread(cases: Iterable[Any], quick: int) -> list[Any]:
    """The cases as parameters: `quick` of them, evenly spread from the first to the last, and the others marked slow.

    A tuple is a case of several parameters, anything else of one.
    """
    found = [case if isinstance(case, tuple) else (case,) for case in cases]
    kept = {round(at * (len(found) - 1) / max(quick - 1, 1)) for at in range(quick)}
    return [
        pytest.param(*case, marks=[] if at in kept else pytest.mark.slow) for at, case in enumerate(found)
    ]
