"""The jobs and runs of a batch server, exactly, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.kernel.job_states import JobState, RunOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.cluster.cluster import Cluster


def export_jobs(cluster: Cluster, exit_status: Mapping[int, int | None]) -> list[dict[str, Any]]:
    """Every job with its runs, in the order of their rows; times in us of cluster time, -1: not yet.

    `exit_status`: of the last run of each row.
    """
    table, runs = cluster.job_table(), cluster.run_table()
    found: list[dict[str, Any]] = [
        {
            "number": int(table.number[row]),
            "submit_us": int(table.submit_us[row]),
            "estimate_us": int(table.estimate_us[row]),
            "nodes": int(table.nodes[row]),
            "state": JobState(int(cluster.state[row])).name,
            "exit_status": exit_status[row],
            "runs": [],
        }
        for row in range(len(table))
    ]
    for run, row in enumerate(runs.job):
        found[row]["runs"].append(
            {
                "start_us": int(runs.start_us[run]),
                "end_us": int(runs.end_us[run]),
                "outcome": RunOutcome(int(runs.outcome[run])).name,
                "nodes": runs.node[runs.first[run] : runs.first[run + 1]].tolist(),
            }
        )
    return found
