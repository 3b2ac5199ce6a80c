"""What a run record says of its jobs, as plain values to hold against a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord


def schedule_of(record: RunRecord) -> dict[int, tuple[int, int]]:
    """Start and end of each job, by its number."""
    numbers = record.jobs.number.tolist()
    return dict(zip(numbers, zip(record.start_us.tolist(), record.end_us.tolist(), strict=True), strict=True))


def shared_nodes_of(record: RunRecord, cores: int | list[int]) -> dict[int, tuple[int, ...]]:
    """The nodes of each job's one run, by its number; `cores`: of each node, or the node of each core."""
    runs = record.runs
    return {
        int(record.jobs.number[job]): tuple(
            sorted(
                {
                    core // cores if isinstance(cores, int) else cores[core]
                    for core in runs.node[runs.first[row] : runs.first[row + 1]].tolist()
                }
            )
        )
        for row, job in enumerate(runs.job.tolist())
    }
