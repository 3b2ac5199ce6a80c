"""Which parameters decide whether a claim holds: a tree of one or two levels, and rank differences one at a time.

What a tree explains is told for worlds that it was not grown from (cross-validation), so that chance explains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from emulator.experiments.atlas.prior import Parameter, Value

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

_DEPTHS = (1, 2)
_FOLDS = 5
_LEAST_SHARE, _LEAST_WORLDS = 0.08, 3
"""A leaf has so many of the worlds, and so many at least."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Column:
    """A parameter's values in all worlds: numbers, or (of names) which of its values it is."""

    parameter: Parameter
    codes: Floats
    """(n)"""

    @classmethod
    def of(cls, parameter: Parameter, values: Sequence[Value]) -> Column:
        if parameter.is_ordered:
            return cls(parameter, np.asarray(values, np.float64))
        return cls(parameter, np.array([parameter.values.index(value) for value in values], np.float64))


@dataclass(frozen=True, slots=True)
class Split:
    """Where a parameter parts the worlds: below `at`, or (of names) the value with the code `at`."""

    column: int
    at: float

    def sides(self, columns: Sequence[Column]) -> Bools:
        """Which worlds are on the first side, (n)."""
        column = columns[self.column]
        return column.codes < self.at if column.parameter.is_ordered else column.codes == self.at

    def text(self, columns: Sequence[Column], *, is_first: bool) -> str:
        """What is true on the first or on the second side."""
        parameter = columns[self.column].parameter
        if parameter.is_ordered:
            return f"{parameter.name} {'<' if is_first else '>='} {parameter.text(self.at)}"
        return f"{parameter.name} is {'' if is_first else 'not '}{parameter.values[int(self.at)]}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """Worlds that a tree puts together: `conditions` in words, how many there are, and in how many it holds."""

    conditions: tuple[str, ...]
    worlds: int
    held: int

    @property
    def holds(self) -> bool:
        return self.held > _HALF * self.worlds

    def text(self) -> str:
        return f"{' and '.join(self.conditions)}: holds in {self.held} of {self.worlds}"


@dataclass(frozen=True, slots=True)
class Rule:
    """The tree of a claim. `explained`: the share of the variance that it explains in worlds it has not seen."""

    leaves: tuple[Leaf, ...]
    explained: float
    parameters: tuple[str, ...]
    """The parameters of its splits, the first one first."""

    def text(self) -> str:
        """Where the claim holds, in one sentence."""
        where = [" and ".join(leaf.conditions) for leaf in self.leaves if leaf.holds]
        if not where or len(where) == len(self.leaves):
            return "; ".join(leaf.text() for leaf in self.leaves)
        return f"holds where {', or where '.join(where)}; fails otherwise"


@dataclass(frozen=True, slots=True)
class _Node:
    """A tree: the share of worlds in which it holds, and how they are parted further."""

    share: float
    split: Split | None = None
    first: _Node | None = None
    second: _Node | None = None

    def predict(self, columns: Sequence[Column]) -> Floats:
        if self.split is None or self.first is None or self.second is None:
            return np.full(len(columns[0].codes), self.share)
        sides = self.split.sides(columns)
        return np.where(sides, self.first.predict(columns), self.second.predict(columns))


def rule(columns: Sequence[Column], held: Bools) -> Rule | None:
    """The tree that tells best in which worlds a claim holds; None if no parting tells anything.

    It has two levels only where these explain more than one, in worlds that the trees were not grown from.
    """
    explained = {depth: _explained(columns, held, depth) for depth in _DEPTHS}
    depth = max(_DEPTHS, key=lambda each: (explained[each], -each))
    tree = _grown(columns, held, depth)
    if tree.split is None:
        return None
    parameters = [columns[split.column].parameter.name for split in _splits(tree)]
    leaves = _merged(columns, tree, held)
    return Rule(leaves, explained[depth], tuple(dict.fromkeys(parameters)))


def rank_differences(columns: Sequence[Column], held: Bools) -> dict[str, float]:
    """For each parameter how far its ranks differ between worlds with and without the claim, 0 to 1.

    Of two worlds, one of each kind, it is how much more often than not the first has the larger value (Cliff's
    delta); of a parameter with names, the largest difference of the shares of a name.
    """
    found = {}
    for column in columns:
        holding, failing = column.codes[held], column.codes[~held]
        if not (len(holding) and len(failing)):
            found[column.parameter.name] = 0.0
        elif column.parameter.is_ordered:
            found[column.parameter.name] = float(abs(np.sign(holding[:, None] - failing[None, :]).mean()))
        else:
            codes = np.unique(column.codes)
            found[column.parameter.name] = max(
                float(abs((holding == code).mean() - (failing == code).mean())) for code in codes
            )
    return found


def _grown(columns: Sequence[Column], held: Bools, depth: int) -> _Node:
    share = float(held.mean()) if len(held) else _HALF
    split = _best(columns, held) if depth else None
    if split is None:
        return _Node(share)
    sides = split.sides(columns)
    grown = [_grown(_some(columns, side), held[side], depth - 1) for side in (sides, ~sides)]
    return _Node(share, split, *grown)


def _best(columns: Sequence[Column], held: Bools) -> Split | None:
    """The parting that leaves least variance within its sides; None if none leaves less."""
    least_worlds = max(_LEAST_WORLDS, int(_LEAST_SHARE * len(held)))
    n, total = len(held), float(held.sum())
    if n < 2 * least_worlds or total in {0.0, float(n)}:
        return None
    best, split = 1e-9 * n, None
    for number, column in enumerate(columns):
        for at, count, inside in _partings(column, held):
            if not least_worlds <= count <= n - least_worlds:
                continue
            gain = inside**2 / count + (total - inside) ** 2 / (n - count) - total**2 / n
            if gain > best:
                best, split = gain, Split(number, at)
    return split


def _partings(column: Column, held: Bools) -> list[tuple[float, int, float]]:
    """Each way to part the worlds by a parameter: where, how many are on the first side, and in how many it holds."""
    codes, index = np.unique(column.codes, return_inverse=True)
    counts = np.bincount(index, minlength=len(codes))
    inside = np.bincount(index, weights=held, minlength=len(codes))
    if not column.parameter.is_ordered:
        return [(float(c), int(n), float(k)) for c, n, k in zip(codes, counts, inside, strict=True)]
    middles = (codes[:-1] + codes[1:]) / 2
    return [
        (float(c), int(n), float(k))
        for c, n, k in zip(middles, np.cumsum(counts)[:-1], np.cumsum(inside)[:-1], strict=True)
    ]


def _some(columns: Sequence[Column], which: Bools) -> list[Column]:
    return [Column(column.parameter, column.codes[which]) for column in columns]


def _explained(columns: Sequence[Column], held: Bools, depth: int) -> float:
    """One minus the squared errors over those of the mean alone; each world is told by a tree without it."""
    fold = np.arange(len(held)) % _FOLDS
    errors = plain = 0.0
    for number in range(_FOLDS):
        test = fold == number
        if not test.any() or test.all():
            continue
        tree = _grown(_some(columns, ~test), held[~test], depth)
        errors += float(((tree.predict(_some(columns, test)) - held[test]) ** 2).sum())
        plain += float(((held[~test].mean() - held[test]) ** 2).sum())
    return 1 - errors / plain if plain else 0.0


def _splits(tree: _Node) -> list[Split]:
    parts: list[Split] = [] if tree.split is None else [tree.split]
    for node in (tree.first, tree.second):
        parts += [] if node is None else _splits(node)
    return parts


def _merged(columns: Sequence[Column], tree: _Node, held: Bools) -> tuple[Leaf, ...]:
    """The leaves; two of one parting that say the same are one."""

    def leaves(node: _Node, conditions: tuple[str, ...], which: Bools) -> list[Leaf]:
        whole = Leaf(conditions, int(which.sum()), int(held[which].sum()))
        if node.split is None or node.first is None or node.second is None:
            return [whole]
        sides = node.split.sides(columns)
        part: Callable[[bool], tuple[str, ...]] = lambda is_first: (  # noqa: E731
            *conditions, node.split.text(columns, is_first=is_first) if node.split else "",
        )  # fmt: skip
        found = [
            *leaves(node.first, part(True), which & sides),
            *leaves(node.second, part(False), which & ~sides),
        ]
        if conditions and len({leaf.holds for leaf in found}) == 1:
            return [whole]
        return found

    return tuple(leaves(tree, (), np.ones(len(held), bool)))
