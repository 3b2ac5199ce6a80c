"""Pictures of a workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from balancer.clock import US
from emulator.text.number_text import number_of
from emulator.workload.files import write_whole
from emulator.workload.info import daily_load

if TYPE_CHECKING:
    from emulator.workload.workload import Workload

FORMATS = (".png", ".svg")
_DAY_US = 86_400 * US
_BINS = 60
_INK = "#27567b"


def plot_workload(workload: Workload, path: Path) -> None:
    """Arrivals a day, sizes, run times and load over time, as PNG or SVG by the name's end.

    Equal workloads give equal bytes. Raises ValueError for another end of the name.
    """
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: a plot's name ends in {' or '.join(FORMATS)}")
    jobs = workload.jobs
    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(
        f"{Path(workload.source).name}: {number_of(len(jobs), 'job')}, {number_of(workload.nodes, 'node')}"
    )
    (arrivals, load), (sizes, runs) = figure.subplots(2, 2)

    a_day = np.bincount(jobs.submit_us // _DAY_US)
    arrivals.bar(np.arange(len(a_day)) + 0.5, a_day, width=1.0, color=_INK)
    arrivals.set(title="Arrivals", xlabel="day", ylabel="jobs a day")

    a_day_load = daily_load(workload)
    load.bar(
        np.arange(len(a_day_load)) + 0.5, a_day_load, width=1.0, color=_INK, alpha=0.45, label="each day"
    )
    if len(a_day_load) > 7:  # noqa: PLR2004 - a week
        week = np.convolve(a_day_load, np.ones(7) / 7, mode="valid")
        load.plot(np.arange(len(week)) + 3.5, week, color=_INK, label="mean of 7 days")
        load.legend()
    load.axhline(1, color="black", linewidth=0.8, linestyle=":")
    load.set(title="Load", xlabel="day", ylabel="submitted / available node-time")

    widest = max(2, int(jobs.nodes.max()))
    size_bins = np.unique(np.rint(np.geomspace(1, widest + 1, _BINS)))
    sizes.hist(jobs.nodes, bins=size_bins.tolist(), color=_INK)
    sizes.set(title="Sizes", xlabel="nodes", ylabel="jobs", xscale="log")

    run_bins = np.geomspace(1, max(2.0, float(jobs.run_us.max()) / US * 1.01), _BINS)
    runs.hist(jobs.run_us / US, bins=run_bins.tolist(), color=_INK)
    runs.set(title="Run times", xlabel="seconds", ylabel="jobs", xscale="log")

    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "workload"}), write_whole(path) as stream:
        figure.savefig(stream, format=kind, metadata=metadata)
