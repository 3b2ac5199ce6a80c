"""Who decides when jobs run: what the batch server asks of it. One without a mechanism is here.

With a mechanism it is in `mechanism_scheduler.py`.
Jobs are rows of the scheduler's job table, nodes are indices, times are us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from balancer.clock import micros
from emulator.clock.event_priority import EventPriority
from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.torque import errors
from emulator.live.torque.jobs import trace_numbers
from emulator.plugins.failure import plugin_error
from emulator.simulation.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from emulator.events.node_outages import NodeOutages
    from emulator.live.torque.config import ServerConfig
    from emulator.live.torque.jobs import JobRequest
    from emulator.simulation.executor_live import LiveExecutor


class Scheduler(Protocol):
    """The batch server's other half."""

    iteration_us: int
    """After so long there is a pass even if nothing has happened; NEVER_US: there is not."""

    @property
    def is_over(self) -> bool:
        """Nothing runs, and nothing will happen by itself."""

    def nodes_are_up(self, now_us: int) -> None:
        """All nodes are there: the run may begin, if it has not."""

    def row_of(self, request: JobRequest, number: int, now_us: int) -> int:
        """The row of a submission. Raises PbsError for one that is not taken."""

    def submit(self, row: int, now_us: int, *, held: bool) -> None:
        """The job comes into the queue, or an on-demand job arrives."""

    def hold(self, row: int, now_us: int, *, held: bool) -> None:
        """A job that waits is held, or is not."""

    def notice(self, number: int, now_us: int) -> None:
        """An on-demand job is announced. Raises PbsError for a number that is not known."""

    def schedule_pass(self, now_us: int) -> Sequence[int]:
        """Start what can be started; the rows, in order."""

    def pass_over(self, now_us: int) -> None:
        """Those of the last pass have begun."""

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> bool:
        """The job's node says that it is over. Whether it is: a machine that keeps the time says so itself."""

    def run_lost(self, row: int, now_us: int) -> None:
        """A run broke off without the scheduler's wish; the job waits again."""

    def node_gone(self, node: int, now_us: int, *, died: bool) -> bool:
        """A node's agent is lost for good, or (not `died`) an operator wants the node for himself. Whether it goes."""

    def node_back(self, node: int, now_us: int) -> None: ...

    def nodes_of(self, row: int) -> Sequence[int]:
        """The nodes of a running job."""

    def slots_of(self, row: int) -> Mapping[int, tuple[int, ...]]:
        """The slots of a running job on each of its nodes, where jobs share nodes; else empty."""

    def cores_of(self, row: int) -> list[int]:
        """The cores of a running job, counted over all nodes, where jobs share cores; else empty."""

    def phase(self, row: int) -> dict[str, Any] | None:
        """How a running job computes from now on (`emulator.live.real_jobs.Phase`); None: nobody knows."""

    def export(self, exit_status: Mapping[int, int | None]) -> dict[str, Any]:
        """The run so far, for `collect`; `exit_status`: of the last run of each row."""


class WholeNodes:
    """What can be seen of jobs that have whole nodes."""

    cluster: Cluster

    def nodes_of(self, row: int) -> Sequence[int]:
        nodes: list[int] = self.cluster.nodes_of(row).tolist()
        return nodes

    def slots_of(self, row: int) -> Mapping[int, tuple[int, ...]]:  # noqa: ARG002 - it has whole nodes
        return {}

    def cores_of(self, row: int) -> list[int]:  # noqa: ARG002 - as above
        return []


class QueueScheduler(WholeNodes):
    """A queue and its passes; users and their jobs say what happens."""

    def __init__(self, config: ServerConfig, executor: LiveExecutor) -> None:
        self.iteration_us = micros(config.scheduler_iteration_s)
        self.is_over = False
        self._queues = config.queues
        self._executor = executor
        self.cluster = Cluster(len(config.nodes), config.scheduler, simulated=False)
        self.cluster.take_offline(range(len(config.nodes)), 0)
        self._users: dict[str, int] = {}
        self._pool: set[int] = set()
        self._is_in_use = False
        """A job has started, or all nodes have been there: from now on a node that comes back is used first."""

    def nodes_are_up(self, now_us: int) -> None:
        """It takes each node when it comes; before they are used, the order in which they came is forgotten."""
        if not self._is_in_use:
            self._is_in_use = True
            self.cluster.take_offline(sorted(self._pool), now_us)
            # The first node is used first, as in virtual time.
            self.cluster.bring_online(sorted(self._pool, reverse=True), now_us)

    def row_of(self, request: JobRequest, number: int, now_us: int) -> int:
        queue, user, group = trace_numbers(dict(request.variables)) or (
            self._queues.index(request.queue),
            self._users.setdefault(request.user, len(self._users)),
            -1,
        )
        try:
            return self.cluster.add(
                number=number,
                submit_us=now_us,
                estimate_us=request.walltime_us,
                nodes=request.nodes,
                queue=queue,
                user=user,
                group=group,
            )
        except Exception as error:
            order = f"queue order {self.cluster.scheduler.order_name}"
            raise plugin_error(order, f"its key of job {number}", now_us, error) from error

    def submit(self, row: int, now_us: int, *, held: bool) -> None:
        self.cluster.submit(row, now_us)
        if held:
            self.cluster.hold(row)
        else:
            self._executor.ask_for_pass(now_us)

    def hold(self, row: int, now_us: int, *, held: bool) -> None:
        is_held = self.cluster.state[row] == JobState.HELD
        if held and not is_held:
            self.cluster.hold(row)
        elif is_held and not held:
            self.cluster.release_hold(row)
            self._executor.ask_for_pass(now_us)

    def cancel(self, row: int, now_us: int) -> None:
        """A user deletes a job that waits."""
        self.cluster.cancel(row, now_us)

    def notice(self, number: int, now_us: int) -> None:  # noqa: ARG002 - nobody listens
        raise errors.not_in_workload("this server has no mechanism that listens to announcements")

    def schedule_pass(self, now_us: int) -> Sequence[int]:
        rows: list[int] = self.cluster.schedule_pass(now_us).tolist()
        self._is_in_use |= bool(rows)
        return rows

    def pass_over(self, now_us: int) -> None:
        """Nobody waits for that."""

    def run_ended(self, row: int, outcome: RunOutcome, now_us: int) -> bool:
        self.cluster.end(row, now_us, outcome)
        return True

    def run_lost(self, row: int, now_us: int) -> None:
        self.cluster.requeue(row, now_us)

    def node_gone(self, node: int, now_us: int, *, died: bool) -> bool:  # noqa: ARG002 - as Torque: jobs stay R
        self._pool.discard(node)
        self.cluster.take_offline([node], now_us)
        return True

    def node_back(self, node: int, now_us: int) -> None:
        self._pool.add(node)
        self.cluster.bring_online([node], now_us)

    def phase(self, row: int) -> None:  # noqa: ARG002 - its script knows
        return None

    def export(self, exit_status: Mapping[int, int | None]) -> dict[str, Any]:
        return {"jobs": _export_jobs(self.cluster, exit_status)}


def _export_jobs(cluster: Cluster, exit_status: Mapping[int, int | None]) -> list[dict[str, Any]]:
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


class FailingServer(Protocol):
    """A batch server some of whose nodes fail."""

    scheduler: Scheduler

    def fail_node(self, index: int, now_us: int, *, lost: bool) -> None: ...
    def repair_node(self, index: int, now_us: int) -> None: ...


class FailingNodes:
    """`node_outages.Nodes` on a batch server: each outage at its time, after the job ends of that time."""

    def __init__(self, outages: NodeOutages, batch: FailingServer, executor: LiveExecutor) -> None:
        self.now_us = 0
        self._outages = outages
        self._batch = batch
        self._executor = executor
        assert isinstance(batch.scheduler, QueueScheduler)  # noqa: S101 - a mechanism knows itself what a failure means
        self._progress = Progress(batch.scheduler.cluster)
        self._plan()

    def _plan(self) -> None:
        at_us = self._outages.next_us(goes_on=True, waiting=0)
        self._executor.at(at_us, self._due, EventPriority.CHECKPOINT, order=-1)

    def _due(self, now_us: int) -> None:
        self.now_us = now_us
        self._outages.at(self)
        self._progress.event(self._outages.cause)
        self._plan()

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        return self._fail(nodes, lost=False)

    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]:
        return self._fail(nodes, lost=True)

    def _fail(self, nodes: Iterable[int], *, lost: bool) -> list[int]:
        for node in nodes:
            self._batch.fail_node(node, self.now_us, lost=lost)
        return []  # jobs that depend on others are for virtual time

    def repair(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self._batch.repair_node(node, self.now_us)
