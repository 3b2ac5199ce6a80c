"""The runs of a merger study: every setting on every pair of weeks, as a sweep."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from emulator.study.logs import WEEK_S, batch_of, history_of, leases_of, week_name
from emulator.sweeps.grid import LABEL, Sweep, make_run
from emulator.workload import store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from emulator.study.logs import Logs, Pair
    from emulator.study.settings import Setting
    from emulator.workload.table import JobTable

WEEK, ON_DEMAND_WEEK, PAIRING = "week", "on_demand_week", "pairing"
NOTHING: Mapping[str, Any] = MappingProxyType({})


def plan(
    logs: Logs,
    pairs: Sequence[Pair],
    settings: Sequence[Setting],
    *,
    ondemand_nodes: int,
    scheduler: Any,
    seed: int,
    folder: Path,
    more: Mapping[str, Mapping[int, JobTable]] = NOTHING,
    varied: Mapping[str, Any] = NOTHING,
) -> Sweep:
    """Stores the weeks' jobs in `folder` and gives the runs that use them. Raises ScenarioError.

    `more`: by `batch` and `on-demand`, what is added to each week (`growth.py`). `varied`: further columns of the rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    every = sorted({pair.batch for pair in pairs} | {pair.leases for pair in pairs})
    files: dict[int, tuple[Path, Path]] = {}
    for week in every:
        name = week_name(logs, week).replace(" ", "-")
        files[week] = (folder / f"batch-{name}.npz", folder / f"on-demand-{name}.npz")
        store.save(batch_of(logs, week, more.get("batch", {}).get(week)), files[week][0])
        store.save(leases_of(logs, week, more.get("on-demand", {}).get(week)), files[week][1])
    histories = {week: history_of(logs, week) for week in every}
    begin_s = logs.warm_up_us // 1_000_000
    runs = []
    for pair in pairs:
        sources = (files[pair.batch][0], files[pair.leases][1])
        for setting in settings:
            document: dict[str, Any] = {
                "name": setting.label,
                "seed": seed,
                "nodes": logs.batch_nodes + ondemand_nodes,
                "workload": {
                    "generate": [{"stored_jobs": {"trace": str(path.absolute())}} for path in sources]
                },
                "scheduler": scheduler,
                "mechanism": setting.mechanism(ondemand_nodes, histories[pair.leases]),
                "results": {
                    "window_s": [begin_s, begin_s + WEEK_S],
                    "window_without_queue": logs.shared_queue,
                },
            }
            columns = {
                LABEL: setting.label,
                WEEK: week_name(logs, pair.batch),
                ON_DEMAND_WEEK: week_name(logs, pair.leases),
                PAIRING: pair.pairing,
                **varied,
            }
            runs.append(make_run(document, columns, where=f"{setting.label}, {columns[WEEK]}"))
    return Sweep("merge", tuple(runs))
