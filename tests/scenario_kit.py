"""Small scenarios and tables of jobs, and what a run that cannot be says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.runs.scenario import Scenario


def a_day(**keys: object) -> Scenario:
    """Forty jobs in a day on 16 nodes."""
    work = {"generate": [{"daily_batch": {"days": 1, "jobs": 40}}]}
    return from_mapping({"nodes": 16, "workload": work, **keys})


def assert_refused(scenario: Scenario, said: str) -> None:
    """It cannot be run, and this text is among what says so."""
    with pytest.raises(ScenarioError, match=re.escape(said)):
        run_virtual(scenario, prepare(scenario))


def jobs_in_s(rows: Sequence[Sequence[float]], *columns: str, **more: Any) -> JobTable:
    """Rows with these columns of a job table; times (`..._us`) are seconds in the rows. `more`: whole columns."""
    found: dict[str, Any] = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    for name in columns:
        if name.endswith("_us"):
            found[name] = [int(each * US) for each in found[name]]
    return JobTable.build(**found, **more)
