"""What the batch server and a mechanism that it hosts ask of each other. Jobs are rows of the workload, times us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from balancer.clock import NEVER_US
from emulator.live.torque import errors
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.harness.account import Account
    from emulator.harness.record import RunOutcome, RunRecord
    from emulator.live.torque.jobs import JobRequest
    from emulator.ranks import Rank
    from emulator.workload.table import JobTable

ON_DEMAND_QUEUE = "ondemand"
ROW_VARIABLE = "WORKLOAD_JOB"
"""`qsub -v WORKLOAD_JOB=17`: the job of the workload with this number."""


class Outside(Protocol):
    """What carries out actions: the batch server. Jobs are rows of the workload."""

    def run_begins(self, row: int, now_us: int) -> None:
        """The job has nodes from now on."""

    # `done`: the work that the job has done by now; what it says of itself is held against that.

    def run_leaves(self, row: int, now_us: int, *, save: bool, done: int | None = None) -> None:
        """The job has lost its nodes and waits again; `save`: it may write a checkpoint first, which takes no time."""

    def run_changes(self, row: int, now_us: int, save_us: int = NEVER_US, *, done: int | None = None) -> None:
        """Other nodes or another phase; `save_us`: when what is done by now is a whole checkpoint."""

    def job_rejected(self, row: int, reason: str, now_us: int) -> None:
        """An on-demand job gets nothing."""

    def run_is_over(self, row: int, outcome: RunOutcome, now_us: int, done: int | None = None) -> None:
        """The job has come to its end by the account of a machine that keeps the time itself."""


class Host(Protocol):
    """A mechanism in the batch server."""

    begun: bool

    @property
    def is_over(self) -> bool:
        """Nothing runs, and nothing will happen by itself."""

    def begin(self, now_us: int) -> None:
        """All nodes are there."""

    def row_of(self, request: JobRequest) -> int:
        """The row of the workload that a submission is. Raises PbsError for one that it is not."""

    def submit(self, row: int, now_us: int) -> None:
        """A batch job comes into the queue, an on-demand job arrives."""

    def notice(self, number: int, now_us: int) -> None:
        """An on-demand job is announced. Raises PbsError for a number that is not in the workload."""

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> bool:
        """The job's node says that it is over. Whether it is: a machine that keeps the time says so itself."""

    def run_lost(self, row: int, now_us: int) -> None:
        """A run broke off without anybody's wish."""

    def pass_over(self, now_us: int) -> None:
        """The scheduler has started what it could."""

    def node_gone(self, node: int, now_us: int, *, died: bool) -> bool:
        """A node's agent is lost for good, or (not `died`) an operator wants the node for himself. Whether it goes."""

    def node_back(self, node: int, now_us: int) -> None: ...

    def nodes_of(self, row: int) -> Sequence[int]:
        """The nodes of a running job."""

    def slots_of(self, row: int) -> Mapping[int, tuple[int, ...]]:
        """The slots of a running job on each of its nodes, where jobs share nodes; else empty."""

    def cores_of(self, row: int) -> list[int]:
        """The cores of a running job, counted over all nodes, where jobs share cores; else empty."""

    def phase(self, row: int) -> dict[str, Any]:
        """How a running job computes from now on (`emulator.live.runs.Phase`)."""

    def export(self) -> dict[str, Any]:
        """The run so far (`as_json`)."""


def phase_in(account: Account, rank: Rank) -> dict[str, Any]:
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
        self._nodes = jobs.nodes
        self._rows = {int(number): row for row, number in enumerate(jobs.number)}
        self.missing = set(range(len(jobs)))
        """Rows that were not submitted yet."""

    def submitted(self, request: JobRequest) -> int:
        """The row of a submission. Raises PbsError."""
        number = dict(request.variables).get(ROW_VARIABLE, "")
        row = self._rows.get(int(number)) if number.isdecimal() else None
        if row is None or row not in self.missing:
            problem = (
                f"this server replays a workload: {ROW_VARIABLE} must be a job of it that was not submitted"
            )
            raise errors.not_in_workload(problem)
        queue_is_right = (request.queue == ON_DEMAND_QUEUE) == (self.kind[row] == Kind.ON_DEMAND)
        if not queue_is_right or request.nodes != self._nodes[row]:
            raise errors.not_in_workload(f"job {number} of the workload has another queue or number of nodes")
        self.missing.discard(row)
        return row

    def announced(self, number: int) -> int:
        """The row of an on-demand job. Raises PbsError."""
        row = self._rows.get(number)
        if row is None or self.kind[row] == Kind.BATCH:
            raise errors.unknown_job(str(number))
        return row


def as_json(record: RunRecord) -> dict[str, Any]:
    """A record without its input; times in us, jobs are rows, nodes places in the list of nodes."""
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
    }
