"""What a paper leaves open as parameters with ranges, and what it prints about its inputs as constraints.

Both are data: one YAML file a paper. A *world* is a value for each parameter and a seed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, runtime_checkable

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from balancer.wrong_values import not_yaml, sentences
from balancer.yaml_text import read_yaml
from emulator.runs.scenario import ScenarioError
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path

    from emulator.experiments.paper import Options
    from emulator.sweeps.grid import Run

Value: TypeAlias = float | int | str


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Parameter(_Entry):
    """An input that the paper does not publish: a range from `low` to `high`, or a list of `values`."""

    name: str
    about: str
    source: str
    """Where the range is from: other logs of the machine, logs of its kind, the paper's words."""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False
    """Of a range: whole numbers alone."""
    values: tuple[int | float | str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.values:
            if self.low is not None or self.high is not None:
                raise ValueError(f"{self.name}: give either `values` or `low` and `high`")
            if len(set(self.values)) != len(self.values) or len(self.values) == 1:
                raise ValueError(f"{self.name}: `values` are two or more different ones")
        elif self.low is None or self.high is None or not self.low < self.high:
            raise ValueError(f"{self.name}: `low` below `high` is needed, or `values`")
        elif self.scale == "log" and self.low <= 0:
            raise ValueError(f"{self.name}: a logarithmic range begins above 0, not at {self.low:g}")
        return self

    @property
    def is_ordered(self) -> bool:
        """Whether its values have an order, so that a rule may say "below"."""
        return not any(isinstance(value, str) for value in self.values)

    def value(self, place: float) -> Value:
        """The value at this place of the range, 0 to 1 (without 1); all values are equally likely."""
        if self.values:
            return self.values[min(int(place * len(self.values)), len(self.values) - 1)]
        low, high = self._ends
        is_log = self.scale == "log"
        found = low * math.exp(place * math.log(high / low)) if is_log else low + place * (high - low)
        return round(found) if self.whole else _digits(found)

    def text(self, value: Value) -> str:
        """A value with its unit."""
        shown = value if isinstance(value, str) else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"  # noqa: PLR2004
        return f"{shown} {self.unit}".strip()

    @property
    def _ends(self) -> tuple[float, float]:
        assert self.low is not None  # noqa: S101 - `_check` says so
        assert self.high is not None  # noqa: S101
        return self.low, self.high


class Constraint(_Entry):
    """A figure that the paper prints: a `value` with its `tolerance`, or a range from `low` to `high`.

    `of`: figures of the `inputs` are looked up in the generated workload, those of the `baseline` in a run without
    a mechanism. The latter never decide about claims on the baseline.
    """

    figure: str
    of: Literal["inputs", "baseline"]
    says: str
    """The paper's words."""
    where: str
    value: float | None = None
    tolerance: float | None = Field(default=None, gt=0)
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        by_value = self.value is not None and self.tolerance is not None
        by_range = self.low is not None and self.high is not None and self.low < self.high
        if by_value == by_range or (by_value and (self.low, self.high) != (None, None)):
            raise ValueError(f"{self.figure}: give either `value` and `tolerance`, or `low` below `high`")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest figure that agrees with the paper."""
        if self.value is not None and self.tolerance is not None:
            return self.value - self.tolerance, self.value + self.tolerance
        assert self.low is not None  # noqa: S101 - `_check` says so
        assert self.high is not None  # noqa: S101
        return self.low, self.high

    def distance(self, figure: float) -> float:
        """How far a figure is from the middle, in half ranges: at most 1 where it agrees with the paper."""
        low, high = self.ends
        return abs(figure - (low + high) / 2) / ((high - low) / 2)


class Drawn(_Entry):
    """A figure of the workload that chance decides rather than a parameter: a rule may name it."""

    name: str
    about: str
    unit: str = ""

    def parameter(self, figures: Sequence[float]) -> Parameter:
        """The same as a parameter, which has these figures in the worlds."""
        low, high = min(figures), max(figures)
        return Parameter(
            name=self.name,
            about=self.about,
            unit=self.unit,
            source="drawn",
            low=low,
            high=max(high, math.nextafter(low, math.inf)),
        )


class Unused(_Entry):
    """A printed figure that is no constraint, and why."""

    figure: str
    where: str
    why: str


class Prior(_Entry):
    """The YAML file of a paper."""

    parameters: tuple[Parameter, ...] = Field(min_length=1)
    constraints: tuple[Constraint, ...] = ()
    unused: tuple[Unused, ...] = ()
    drawn: tuple[Drawn, ...] = ()
    not_judged: dict[str, str] = Field(default_factory=dict)
    """Claims that the atlas does not judge, and why: those about the baseline, because its outcomes are constraints."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for names in (
            [*(each.name for each in self.parameters), *(each.name for each in self.drawn)],
            [each.figure for each in self.constraints],
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{twice} is there twice")
        return self

    def without(self, names: Container[str]) -> Prior:
        """The same without these parameters: they have fixed values. Raises ScenarioError if none is left."""
        left = tuple(each for each in self.parameters if each.name not in names)
        if not left:
            raise ScenarioError("--atlas: --read fixes every parameter, so nothing is left to draw")
        return self.model_copy(update={"parameters": left})

    def values(self, place: tuple[float, ...]) -> dict[str, Value]:
        """The parameters at this place of the unit cube, by name."""
        return {each.name: each.value(at) for each, at in zip(self.parameters, place, strict=True)}

    def distance(self, of: str, figures: Mapping[str, float]) -> float:
        """The largest distance of the constraints on `inputs` or `baseline`; 0 without any.

        Raises KeyError for a figure that `figures` does not have.
        """
        return max(
            (each.distance(figures[each.figure]) for each in self.constraints if each.of == of), default=0.0
        )


def load_prior(path: Path) -> Prior:
    """Read the file of a paper. Raises ScenarioError that names file and field."""
    try:
        return Prior.model_validate(read_yaml(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ScenarioError(f"{path}: {refusal(error)}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}{not_yaml(error)}") from error
    except ValidationError as error:
        raise ScenarioError(f"{path}: {sentences(error)[0]}") from error


def _digits(value: float) -> float:
    """Six digits, so that a world can be told in writing."""
    return float(f"{value:.6g}")


@runtime_checkable
class HasAtlas(Protocol):
    """The ability of a paper to be run in other worlds (`Options.world`, with the first seed)."""

    def prior(self) -> Prior:
        """What the paper leaves open, and what it prints about its inputs. Raises ScenarioError."""

    def inputs(self, options: Options) -> dict[str, float]:
        """The figures of this world's workload that constraints are on. Raises ScenarioError if none can be made."""

    def baseline(self, options: Options) -> Run:
        """The run without a mechanism: its row has the figures that constraints on the baseline name."""
