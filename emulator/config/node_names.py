"""Names of the nodes of a machine that gives them none."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4)
def default_node_names(count: int) -> tuple[str, ...]:
    """n001, n002, ...; as many digits as the last one needs, at least three."""
    digits = max(3, len(str(count)))
    return tuple(f"n{number:0{digits}d}" for number in range(1, count + 1))
