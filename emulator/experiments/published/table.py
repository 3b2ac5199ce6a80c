"""A published table as data: its source, its log, and rows of a scenario and the figures that were printed for it."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from balancer.wrong_values import sentences
from balancer.yaml_text import read_yaml
from emulator.experiments.logs import find_log
from emulator.experiments.published.units import unmet
from emulator.metrics.summary import figures
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent
UNITS_MET = "units_met"
"""The figure of a row with `units`."""
_DOUBLE_DIGITS = 12
"""Of more significant digits the last ones of a double depend on the order in which numbers were added."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figure(_Part):
    """A figure of `summary.json`, divided by `per` (60: the table has minutes)."""

    figure: str
    per: float = Field(default=1, gt=0)


class Row(_Part):
    """`scenario` goes over that of the table. `published`: by the table's names, with all printed digits.

    Where it is {} nobody has published the row: it stands beside the others. `differs`: why it is not met, as far as
    that is known.
    """

    name: str
    scenario: dict[str, Any] = Field(default_factory=dict)
    units: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    published: dict[str, str]
    differs: str = ""


class Windows(_Part):
    """Parts of the log that are run one by one, so many jobs each; a figure is the mean of theirs."""

    jobs: int = Field(ge=1)
    skip: tuple[int, ...] = Field(min_length=1)


class PublishedTable(_Part):
    """`paper`, and where the figures are printed (`figures_from`); `log`: its name, and where it is from."""

    title: str
    paper: str
    figures_from: str
    log: str
    log_from: str
    about: str = ""
    scenario: dict[str, Any]
    windows: Windows | None = None
    figures: dict[str, Figure]
    rows: tuple[Row, ...] = Field(min_length=1)


class Outcome(StrEnum):
    """How a figure stands to the printed one."""

    EXACT = "exact"
    LAST_DIGIT = "last digit"
    DIFFERS = "differs"
    BESIDE = "beside"
    """Nothing was published."""


class FigureCheck(NamedTuple):
    """A printed number beside the emulator's."""

    row: str
    figure: str
    published: str
    ours: float
    outcome: Outcome
    reason: str

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"outcome": self.outcome.value, "difference": self.difference}

    @property
    def difference(self) -> float | None:
        """As a share of the published figure; None where that is 0 or there is none."""
        printed = float(self.published or 0)
        return self.ours / printed - 1 if printed else None


def table_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read_table(path: Path) -> PublishedTable:
    """Raises ScenarioError for a file that is no table; the message names file and field."""
    try:
        table = PublishedTable.model_validate(read_yaml(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path}: {refusal(error)}") from error
    except ValidationError as error:
        raise ScenarioError(f"{path}: {sentences(error)[0]}") from error
    for row in table.rows:
        if row.units and table.windows is not None:
            raise ScenarioError(f"{path}: row {row.name}: units are run whole; leave out windows")
        for name, digits in row.published.items():
            if name not in table.figures:
                raise ScenarioError(
                    f"{path}: row {row.name}: {name} is none of figures: {', '.join(table.figures)}"
                )
            if not _is_number(digits):
                raise ScenarioError(f"{path}: row {row.name}: {name}: {digits!r} is no number")
    return table


def run_row(table: PublishedTable, row: Row, traces: Path) -> list[FigureCheck]:
    """Runs the row's scenario. Raises ScenarioError, TraceError; also where the log is not in `traces`."""
    log = find_log(traces, table.log)
    mapping = merged(
        {"name": "published", "workload": {"trace": str(log)}}, merged(table.scenario, row.scenario)
    )
    why = {Outcome.DIFFERS: row.differs}
    if row.units:
        files = [f"{name}.{number}" for name, count in row.units.items() for number in range(count)]
        wrong = unmet(log, files, mapping)
        summaries: list[dict[str, Any]] = [{UNITS_MET: len(files) - len(wrong)}]
        why = dict.fromkeys((Outcome.DIFFERS, Outcome.LAST_DIGIT), f"not met: {', '.join(wrong)}")
    else:
        summaries = [_figures(part) for part in _parts(mapping, table.windows)]
    found = []
    for name in row.published or table.figures:
        figure, printed = table.figures[name], row.published.get(name, "")
        values = [summary.get(figure.figure) for summary in summaries]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            raise ScenarioError(f"row {row.name}: the run has no figure {figure.figure}")
        ours = sum(known) / len(known) / figure.per
        outcome = judged(printed, ours)
        found.append(FigureCheck(row.name, name, printed, ours, outcome, why.get(outcome, "")))
    return found


def _figures(mapping: dict[str, Any]) -> dict[str, Any]:
    scenario = from_mapping(mapping)
    return figures(run_virtual(scenario, prepare(scenario)))


def _parts(mapping: dict[str, Any], windows: Windows | None) -> list[dict[str, Any]]:
    """A scenario for each window of the log."""
    if windows is None:
        return [mapping]
    transforms = mapping["workload"].get("transforms", [])
    limits = [{"limit": {"jobs": windows.jobs, "skip": skip}} for skip in windows.skip]
    return [merged(mapping, {"workload": {"transforms": [*transforms, limit]}}) for limit in limits]


def judged(printed: str, ours: float) -> Outcome:
    """Exact: the same to the last printed digit; `LAST_DIGIT`: one unit of it away."""
    if not printed:
        return Outcome.BESIDE
    number = Decimal(printed)
    digits = number.normalize().as_tuple()
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101 - a number, as the table was checked for
    too_many = max(len(digits.digits) - _DOUBLE_DIGITS, 0)
    unit = Decimal(1).scaleb(exponent + too_many)
    away = abs(Decimal(ours).quantize(unit) - number.quantize(unit))
    if away == 0:
        return Outcome.EXACT
    return Outcome.LAST_DIGIT if away <= unit else Outcome.DIFFERS


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` goes before `under`, mappings key by key."""
    both = dict(under)
    for key, value in over.items():
        is_nested = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if is_nested else value
    return both


def _is_number(digits: str) -> bool:
    return digits.replace(".", "", 1).isdigit()
