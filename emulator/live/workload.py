"""The workload that a live mechanism has: which submission is which job, and what the run is told as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.clock.event_priority import EventPriority
    from emulator.machine.account import Account
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable


class NotInWorkloadError(ValueError):
    """A submission that is none of the workload's jobs, or was there before."""


def phase_in(account: Account, rank: EventPriority) -> dict[str, Any]:
    """What an agent and its job are told of an account (`emulator.live.runs.Phase`)."""
    return {
        "since_us": account.since_us,
        "end_us": account.end_us,
        "num": account.num,
        "den": account.den,
        "interval_us": account.interval_us,
        "cost_us": account.cost_us,
        "suspended": account.suspended,
        "begun": account.done,
        "rank": int(rank),
    }


class Workload:
    """Which submission is which job of the workload."""

    def __init__(self, jobs: JobTable) -> None:
        self.kind = jobs.kind
        self.nodes = jobs.nodes
        self._rows = {int(number): row for row, number in enumerate(jobs.number)}
        self.missing = set(range(len(jobs)))
        """Rows that were not submitted yet."""

    def submitted(self, number: int) -> int:
        """The row of the job with this number, which is submitted now. Raises NotInWorkloadError."""
        row = self._rows.get(number)
        if row is None or row not in self.missing:
            raise NotInWorkloadError(number)
        self.missing.discard(row)
        return row

    def row_of(self, number: int) -> int | None:
        """None: the workload has no such job."""
        return self._rows.get(number)


def as_json(record: RunRecord, contradictions: Sequence[str]) -> dict[str, Any]:
    """The run so far without its input; times in us, jobs are rows, nodes places in the list of nodes."""
    runs = record.runs
    return {
        "node_names": list(record.node_names),
        "submit_us": record.jobs.submit_us.tolist(),
        "nodes": record.jobs.nodes.tolist(),
        "extra": {name: column.tolist() for name, column in record.jobs.extra.items()},
        "state": record.state.tolist(),
        "start_us": record.start_us.tolist(),
        "end_us": record.end_us.tolist(),
        "runs": {name: getattr(runs, name).tolist() for name in runs.__slots__},
        "moves": [[move.at_us, list(move.nodes), move.pool.value] for move in record.moves],
        "leases": [[each.job, each.granted, each.decided_us, each.reason] for each in record.leases],
        "figures": record.figures,
        "contradictions": list(contradictions),
        "interrupted": record.interrupted,
        "traceback": record.traceback,
        "horizon_us": record.horizon_us,
    }
