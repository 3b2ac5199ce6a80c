"""Why a run of a log waits far longer, or far shorter, than its jobs did: what `emulator trace check` says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cluster.slurm_scheduler import slurm_in
from emulator.metrics.wait_comparison import LIKELY, RECORDED, SIMULATED, is_far
from emulator.workload.check import check
from emulator.workload.formats import find_format
from emulator.workload.local_times import in_zone
from emulator.workload.rules import to_jobs
from emulator.workload.usage_columns import usage_in

if TYPE_CHECKING:
    from typing import Any

    from emulator.runs.scenario import Scenario


_NOTHING_WRONG = "`emulator trace check` finds nothing wrong with the log"


def with_doubts(found: dict[str, Any], scenario: Scenario, nodes: int) -> dict[str, Any]:
    """Recorded and simulated waits with what is likely wrong, where they are far apart; the log is read once more.

    Raises the reader's TraceError.
    """
    if not is_far(found):
        return found
    twin = slurm_in(scenario.scheduler_config)
    shares = scenario.shared_nodes is not None or (twin is not None and twin.select is not None)
    doubts = [] if shares else _doubts(scenario, nodes)  # `check` does not know jobs that share nodes
    if not doubts:
        if found[SIMULATED] <= found[RECORDED]:
            why = (
                "nodes may have been down or reserved, or the site's priorities and limits kept jobs waiting"
            )
        elif shares:
            why = "there may have been more nodes, or jobs on nodes that others do not get"
        else:
            why = "there may have been more nodes, jobs that share nodes, or jobs on nodes that others do not get"
        doubts = [f"{why[0].upper()}{why[1:]}." if shares else f"{_NOTHING_WRONG}; {why}."]
    return found | {LIKELY: doubts}


def _doubts(scenario: Scenario, nodes: int) -> list[str]:
    """What looks wrong with the log of a scenario."""
    part = scenario.workload
    if part.trace is None:
        return []
    with scenario.plugged_in():
        reader = find_format(part.trace)
        with usage_in(part.trace, part.usage_column), in_zone(part.time_zone):
            log = reader.read(part.trace, lenient=part.lenient)
        work = to_jobs(
            log,
            nodes=nodes,
            procs_per_node=part.procs_per_node,
            overrun=part.overrun,
            size=part.size,
            origin_s=part.origin_s,
            zero_run=part.zero_run,
            no_estimate=part.no_estimate,
            queue_field=part.queue_field,
        )
        return list(check(log, work, format_name=reader.name, is_size_known=True).doubts)
