"""A streamed run: a log of any length under a plain scheduler, in virtual time, in memory that hardly grows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import NEVER_US, seconds, wall_us
from emulator.config.node_names import default_node_names
from emulator.record.run_record import RunRecord, RunTable
from emulator.report import files
from emulator.runs.scenario import ScenarioError
from emulator.stream.blocks import LogBlocks
from emulator.stream.figures import Figures
from emulator.stream.results import Streamed
from emulator.stream.window import Window
from emulator.workload.rules import in_order
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from emulator.runs.scenario import Scenario


def check(scenario: Scenario) -> None:
    """Raises ScenarioError for what a streamed run cannot do: whatever needs all jobs, or single nodes, at once."""
    part, scheduler = scenario.workload, scenario.scheduler_config
    for what, is_there in (
        ("workload without a trace", part.trace is None),
        ("workload.generate", bool(part.generate)),
        ("workload.transforms", bool(part.transforms)),
        ("workload.dependencies", part.dependencies is not None),
        ("workload.cancelled: at_time", part.cancelled == "at_time"),
        ("a mechanism", scenario.mechanism is not None),
        ("failures and maintenance", bool(scenario.failures or scenario.maintenance)),
        ("limits", bool(scenario.limits)),
        ("qos", scenario.qos is not None),
        ("reservations", bool(scenario.reservations)),
        ("partitions", bool(scenario.partitions)),
        ("features", bool(scenario.features)),
        ("shared_nodes", scenario.shared_nodes is not None),
        ("placement", scenario.placement is not None),
        ("moldable", scenario.moldable is not None),
        ("energy", scenario.energy is not None),
        ("scheduler.cycle_s", bool(scheduler.cycle_s)),
        ("scheduler.start_delay_s", bool(scheduler.start_delay_s)),
        ("scheduler.head_waits", scheduler.head_waits),
        ("scheduler.pass: event", scheduler.pass_ == "event"),  # noqa: S105 - a scheduling pass
        ("a scheduler of its own", scheduler.is_plain),
        ("scheduler.predict", scheduler.predict is not None),
        (f"the queue order {scheduler.order_name}", not callable(scheduler.make_order())),
    ):
        if is_there:
            raise ScenarioError(f"--stream: {what} needs all jobs at once; run it without --stream")
    if part.time_zone is not None:
        raise ScenarioError("workload.time_zone: --stream reads SWF, whose times have no zone; leave it out")


def stream(scenario: Scenario, out_dir: Path, *, go_on: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """Run a scenario and write its results into `out_dir`, but for the report. Returns the summary.

    Every file is, byte for byte, what a run at once writes. `go_on` is asked at each block;
    False raises KeyboardInterrupt, and nothing is left. Raises ScenarioError, TraceError, ResultsError.
    """
    check(scenario)
    assert scenario.workload.trace is not None  # noqa: S101 - checked
    began_us = wall_us()
    with files.folder_for(out_dir) as partial, ExitStack() as open_files:
        figures = Figures(partial.parent)
        log = LogBlocks(scenario.workload.trace, scenario.workload, scenario.nodes, figures.add_recorded)
        open_files.callback(figures.close)
        window: Window | None = None
        streamed: Streamed | None = None
        blocks = iter(log)
        jobs: JobTable | None = next(blocks)
        while jobs is not None:
            following = next(blocks, None)
            if window is None or streamed is None:
                assert log.nodes is not None  # noqa: S101 - known from the first block on
                window = Window(log.nodes, scenario.scheduler_config)
                streamed = Streamed(partial, _nothing(scenario, log, 0), figures)
                open_files.callback(streamed.close)
            window.feed(jobs)
            before_us = NEVER_US if following is None else int(following.submit_us[0])
            streamed.add(jobs, window.go_on(before_us))
            if not go_on():
                raise KeyboardInterrupt
            jobs = following
        assert streamed is not None  # noqa: S101 - there is at least one block
        record = replace(_nothing(scenario, log, figures.horizon_us), recorded=figures.beside_recorded())
        streamed.end(record)
        summary = figures.summary(
            record,
            threshold_s=scenario.results.bounded_slowdown_threshold_s,
            wall_s=seconds(wall_us() - began_us),
        )
        (partial / files.SUMMARY).write_text(files.to_json(summary), encoding="utf-8")
    return summary


def _nothing(scenario: Scenario, log: LogBlocks, horizon_us: int) -> RunRecord:
    """The record of the run, but for its jobs and runs."""
    assert log.nodes is not None  # noqa: S101 - known from the first block on
    none = np.empty(0, np.int64)
    return RunRecord(
        jobs=JobTable.empty(),
        node_names=default_node_names(log.nodes),
        state=none.astype(np.int8),
        start_us=none,
        end_us=none,
        runs=RunTable(
            job=none.astype(np.int32),
            start_us=none,
            end_us=none,
            outcome=none.astype(np.int8),
            first=np.zeros(1, np.int64),
            node=none.astype(np.int32),
        ),
        begin_us=0,
        horizon_us=horizon_us,
        left_out=in_order(log.left_out),
        counted=in_order(log.counted),
        scenario=scenario.as_json(),
        seed=scenario.seed,
    )
