"""The testbed: replays workloads against the Balancer and other mechanisms, in virtual time and live.

What programs and notebooks may use is named here (docs/python.md); it is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from emulator.api import SweepResult, compare, load, run, sweep
    from emulator.kernel.job_states import JobState
    from emulator.machine.running import Save
    from emulator.plugins.failure import PluginError
    from emulator.report.compare import Comparison
    from emulator.report.files import ResultsError
    from emulator.report.result import Result
    from emulator.runs.scenario import Scenario, ScenarioError
    from emulator.schedulers.plain import Job, Reservation, View, compiled
    from emulator.workload.files import TraceError
    from emulator.workload.table import JobTable, Kind

__all__ = [
    "Comparison",
    "Job",
    "JobState",
    "JobTable",
    "Kind",
    "PluginError",
    "Reservation",
    "Result",
    "ResultsError",
    "Save",
    "Scenario",
    "ScenarioError",
    "SweepResult",
    "TraceError",
    "View",
    "compare",
    "compiled",
    "load",
    "run",
    "sweep",
]

_PLACES = {
    "Comparison": "emulator.report.compare",
    "Job": "emulator.schedulers.plain",
    "JobState": "emulator.kernel.job_states",
    "JobTable": "emulator.workload.table",
    "Kind": "emulator.workload.table",
    "PluginError": "emulator.plugins.failure",
    "Reservation": "emulator.schedulers.plain",
    "Result": "emulator.report.result",
    "ResultsError": "emulator.report.files",
    "Save": "emulator.machine.running",
    "Scenario": "emulator.runs.scenario",
    "ScenarioError": "emulator.runs.scenario",
    "SweepResult": "emulator.api",
    "TraceError": "emulator.workload.files",
    "View": "emulator.schedulers.plain",
    "compare": "emulator.api",
    "compiled": "emulator.schedulers.plain",
    "load": "emulator.api",
    "run": "emulator.api",
    "sweep": "emulator.api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("balancer.version").VERSION
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
