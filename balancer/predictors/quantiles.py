"""A quantile of weighted samples: the reserve that a share of the past would not have exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def weighted_quantile(samples: Iterable[tuple[int, float]], quantile: float) -> int:
    """The least value that at least `quantile` of the weight does not exceed; 0 without samples.

    `samples` are (value, weight). This is the value with the least pinball loss on them (Koenker and
    Bassett, Econometrica 46(1), 1978).
    """
    ordered = sorted((value, weight) for value, weight in samples if weight > 0)
    target = quantile * sum(weight for _, weight in ordered) * (1 - 1e-12)
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= target:
            return value
    return ordered[-1][0] if ordered else 0


def check_quantile(quantile: float) -> None:
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie between 0 and 1, not {quantile!r}")
