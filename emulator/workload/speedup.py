"""How much faster a job is on more nodes: plug-ins of the group `emulator.speedups`.

A model is a frozen dataclass with one method. `linear` is the paper's: the area of a job is constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from balancer.plugins import whose
from emulator.plugins import PluginError, check_number
from emulator.workload.plugin_errors import answer_of, named

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP = "emulator.speedups"

_FINEST = 1 << 20
"""Units of work that a job on one node does in a microsecond, where speed-ups are not whole."""
_COARSEST = 1 << 8
_MOST_WORK = 1 << 61
_ROUNDING = 1e-9


@runtime_checkable
class Speedup(Protocol):
    """How the speed of a job depends on its width."""

    def of(self, widths: NDArray[np.int64], nominal: int) -> NDArray[np.float64]:
        """Speed on so many nodes relative to one, not falling with the width; `nominal` is the width in the log."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Twice the nodes, half the time (malleable-hungershoefer-2004, section 5)."""

    def of(self, widths: NDArray[np.int64], nominal: int) -> NDArray[np.float64]:  # noqa: ARG002
        return widths.astype(np.float64)


LINEAR = Linear()


@dataclass(frozen=True, slots=True)
class Amdahl:
    """A share of the work is serial (Amdahl 1967): n / (1 + serial (n - 1)). `serial`: that share, 0 to 1."""

    serial: float

    def __post_init__(self) -> None:
        check_number("amdahl", "serial", self.serial, at_least=0, at_most=1)

    def of(self, widths: NDArray[np.int64], nominal: int) -> NDArray[np.float64]:  # noqa: ARG002
        return widths / (1 + float(self.serial) * (widths - 1))


@dataclass(frozen=True, slots=True)
class Downey:
    """Downey's model (Downey 1997, A parallel workload model and its implications for processor allocation).

    `sigma`: how much the parallelism varies, 0 for not at all. `parallelism`: its mean A, as a multiple of the job's
    width in the log (at least one node).
    """

    sigma: float
    parallelism: float = 1.0

    def __post_init__(self) -> None:
        check_number("downey", "sigma", self.sigma, at_least=0)
        check_number("downey", "parallelism", self.parallelism, above=0)

    def of(self, widths: NDArray[np.int64], nominal: int) -> NDArray[np.float64]:
        n = widths.astype(np.float64)
        a, sigma = max(1.0, self.parallelism * nominal), float(self.sigma)
        if sigma <= 1:
            few = a * n / (a + sigma / 2 * (n - 1))
            many = a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
            return np.where(n <= a, few, np.where(n <= 2 * a - 1, many, a))
        some = n * a * (sigma + 1) / (sigma * (n + a - 1) + a)
        return np.where(n < a + a * sigma - sigma, some, a)


def speeds_of(model: Speedup, widths: NDArray[np.int64], nominal: int) -> NDArray[np.float64]:
    """What the model says, as numbers. Raises PluginError where one of a user's own fails or says something else."""
    found = answer_of(GROUP, model, "of", np.ndarray, widths, nominal)
    if found.shape != widths.shape or found.dtype.kind not in "iuf":
        raise PluginError(
            f"{whose(GROUP, model)}: of must return a number for each of {len(widths)} widths, not an array of"
            f" shape {found.shape} and type {found.dtype}"
        )
    return found.astype(np.float64)


def speed_table(
    model: Speedup, nominal: NDArray[np.int32], nodes: int, longest_us: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(table, row of each job): `table[row, n]` units of work a microsecond on n nodes.

    Linear speed-up is exact: a unit is a node-microsecond. Others are rounded to 2^-20 of a node's work, or to more if
    the longest job's work would not fit 64 bits. Raises ValueError for a model that is not one, or too long jobs.
    """
    widths = np.arange(1, nodes + 1, dtype=np.int64)
    if isinstance(model, Linear):
        table = np.arange(nodes + 1, dtype=np.int64)[np.newaxis]
        if longest_us * nodes > _MOST_WORK:
            raise ValueError(f"malleable: a job of {longest_us / 1e6:g} s is too long for {nodes} nodes")
        return table, np.zeros(len(nominal), np.int64)
    kinds, row = np.unique(nominal, return_inverse=True)
    speeds = np.array([speeds_of(model, widths, int(kind)) for kind in kinds]).reshape(len(kinds), nodes)
    if not np.isfinite(speeds).all() or (speeds <= 0).any() or (np.diff(speeds, axis=1) < -_ROUNDING).any():
        raise ValueError(
            f"malleable: {named(GROUP, model)} is no speed-up: it must be above 0 and not fall with the width"
        )
    unit = _FINEST
    while unit > _COARSEST and longest_us * float(speeds.max(initial=1.0)) * unit > _MOST_WORK:
        unit >>= 1
    if longest_us * float(speeds.max(initial=1.0)) * unit > _MOST_WORK:
        raise ValueError(f"malleable: a job of {longest_us / 1e6:g} s is too long for {nodes} nodes")
    whole = np.maximum(np.rint(speeds * unit).astype(np.int64), 1)
    table = np.zeros((len(kinds), nodes + 1), np.int64)
    table[:, 1:] = np.maximum.accumulate(whole, axis=1)
    return table, row.astype(np.int64)
