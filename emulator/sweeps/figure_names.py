"""The names of figures that a run of a sweep can have, before there is one: a slip is told before all runs are over."""

from __future__ import annotations

from functools import cache

from balancer.plugins import nearest
from emulator.runs.scenario import ScenarioError

_PARTS = ("energy", "shared_nodes", "moldable", "placement", "mechanism", "pace", "job_classes", "window")
"""Figures of what some runs have: `PART.NAME`. Which names there are only the runs tell."""
_OF_SOME = ("jobs_suspended", "suspensions")


@cache
def figure_names() -> frozenset[str]:
    """Of figures outside of these parts: those of a run of one job and one lease, which has all but a few."""
    from emulator.metrics.summary import figures  # noqa: PLC0415 - slow imports only when they are needed
    from emulator.schedulers.config import SchedulerConfig  # noqa: PLC0415
    from emulator.simulation.run import simulate  # noqa: PLC0415
    from emulator.sweeps.execute import LEFT_OUT, flat  # noqa: PLC0415
    from emulator.workload.table import JobTable, Kind  # noqa: PLC0415

    jobs = JobTable.build(submit_us=[0, 0], run_us=[1, 1], nodes=[1, 1], kind=[Kind.BATCH, Kind.ON_DEMAND])
    every = figures(simulate(jobs, 2, SchedulerConfig()))
    return frozenset(flat({name: value for name, value in every.items() if name not in LEFT_OUT})).union(
        _OF_SOME
    )


def check_figure(name: str) -> None:
    """Raises ScenarioError for a figure that no run can have, as far as that is known without runs."""
    part, dot, _ = name.partition(".")
    known = figure_names()
    if name not in known and not (dot and part in _PARTS):
        meant = [each for each in known if name in each] or known
        raise ScenarioError(f"--rank {name}: no run has such a figure{nearest(name, meant)}")
