"""The run that a run is held against: the same without its mechanism, or first come first served with EASY.

It is made where it is cheap: its time grows with the number of jobs, and `MOST_JOBS` take about a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.report.baseline import Baseline
from emulator.report.wording import FIGURES
from emulator.text.number_text import number

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario

MOST_JOBS = 100_000
_PLAIN = "fcfs+easy"
_OF_THE_MACHINE = frozenset({"wall_s", "jobs_per_s", "seed", "nodes", "bounded_slowdown_threshold_s"})
_KEPT = tuple(figure.key for figure in FIGURES if figure.key not in _OF_THE_MACHINE)


def plain_scenario(scenario: Scenario) -> tuple[Scenario, str] | None:
    """The scenario of the baseline and its name; None: the run is as plain as that, or has no plain counterpart."""
    if scenario.mechanism is not None:
        return scenario.model_copy(update={"mechanism": None}), "without the mechanism"
    config = scenario.scheduler_config
    is_order = config.decide is None and scenario.moldable is None
    if not is_order or config == type(config).parse(_PLAIN):
        return None
    return scenario.model_copy(update={"scheduler": _PLAIN}), "with FCFS and EASY"


def why_not(jobs: int) -> str:
    """Why no baseline is made unless somebody asks for it; "": it is cheap."""
    if jobs <= MOST_JOBS:
        return ""
    return f"{number(jobs)} jobs are more than {number(MOST_JOBS)}; --baseline makes it all the same"


def run_baseline(scenario: Scenario, prepared: Prepared, go_on: Callable[[], bool]) -> Baseline | None:
    """Run it; None: there is none, or `go_on` said no. Raises ScenarioError where the plain run is not possible."""
    from emulator.metrics.summary import summarize  # noqa: PLC0415 - slow imports only when they are needed
    from emulator.runs.runner import run_virtual  # noqa: PLC0415

    found = plain_scenario(scenario)
    if found is None:
        return None
    plain, name = found
    record = run_virtual(plain, prepared, lambda *_: go_on())
    if record.interrupted:
        return None
    summary = summarize(record, bounded_slowdown_threshold_s=scenario.results.bounded_slowdown_threshold_s)
    return Baseline(name, {key: summary[key] for key in _KEPT if key in summary})
