"""Leases that failed nodes changed, by the Balancer's ledger: which nodes each had when, and whether it was cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US
from balancer.lifecycle.records import RequestStatus
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.record.run_record import NodePool, PoolMove

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from balancer.lifecycle.records import RequestRecord
    from emulator.live.replay_log import LeaseResult
    from emulator.workload.table import JobTable


_US_PER_H = 3_600_000_000


def _outages(down: Sequence[tuple[int, int, bool]]) -> dict[int, list[tuple[int, int]]]:
    """Node -> (begin, end) of each time that it was down."""
    since_us: dict[int, int] = {}
    found: dict[int, list[tuple[int, int]]] = {}
    for at_us, node, is_down in down:
        if is_down:
            since_us[node] = at_us
        else:
            found.setdefault(node, []).append((since_us.pop(node), at_us))
    for node, at_us in since_us.items():
        found.setdefault(node, []).append((at_us, NEVER_US))
    return found


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """`rows`: (begin, end or -1, outcome, nodes) in us and places of nodes; `moves`: of nodes to and from the lease."""

    state: JobState
    rows: list[tuple[int, int, RunOutcome, tuple[int, ...]]]
    moves: list[PoolMove]


class LeaseHistories:
    """`requests`: all of a ledger. What `of` has told is counted for `figures`."""

    def __init__(self, requests: Sequence[RequestRecord], names: Sequence[str]) -> None:
        self._gone = self._come = 0
        self._names = {name: place for place, name in enumerate(names)}
        self._by_id = {each.request_id: each for each in requests}
        self._grants = {
            (each.decided_us, tuple(sorted(each.nodes))): each
            for each in requests
            if each.status is RequestStatus.GRANTED and not each.replaces
        }

    def of(self, lease: LeaseResult, nodes: Iterable[str]) -> LeaseHistory | None:
        """None: it had all its nodes from its begin to its end, if it has ended."""
        grant = self._grants.get((lease.decided_us, tuple(sorted(nodes))))
        if grant is None:
            return None
        changes = sorted(self._changes(grant), key=lambda each: each[0])
        end_us = lease.ended_us
        cut_us = self._cut_us(grant, changes)
        is_cut = cut_us is not None and (end_us is None or cut_us < end_us)
        if is_cut:
            end_us = cut_us
        if not (changes or is_cut):
            return None
        return self._history(grant, changes, end_us, is_cut=is_cut)

    def _changes(self, record: RequestRecord) -> Iterator[tuple[int, list[str], list[str]]]:
        """(time, nodes that leave, nodes that come), replacements of replacements included."""
        gone: dict[str, list[str]] = {}
        for lost in record.lost:
            gone.setdefault(lost.replaced_by, []).append(lost.node)
        for key, nodes in gone.items():
            by = self._by_id[key]
            yield by.arrived_us, nodes, []
            if by.status is RequestStatus.GRANTED and by.decided_us is not None:
                yield by.decided_us, [], list(by.nodes)
                yield from self._changes(by)

    def _cut_us(
        self, grant: RequestRecord, changes: Sequence[tuple[int, list[str], list[str]]]
    ) -> int | None:
        """When it had no node left, or gave them back; None: it still has some."""
        held = set(grant.nodes)
        times = sorted({at_us for at_us, _, _ in changes})
        for at_us in times:
            for _, gone, come in (each for each in changes if each[0] == at_us):
                held = (held - set(gone)) | set(come)
            if not held:
                return at_us
        ends = [grant.ended_us] + [
            self._by_id[lost.replaced_by].ended_us
            for lost in grant.lost
            if self._by_id[lost.replaced_by].status is RequestStatus.GRANTED
        ]
        known = [end_us for end_us in ends if end_us is not None]
        return max(known) if len(known) == len(ends) else None

    def _history(
        self,
        grant: RequestRecord,
        changes: Sequence[tuple[int, list[str], list[str]]],
        end_us: int | None,
        *,
        is_cut: bool,
    ) -> LeaseHistory:
        assert grant.decided_us is not None  # noqa: S101 - it was granted
        rows: list[tuple[int, int, RunOutcome, tuple[int, ...]]] = []
        moves = [PoolMove(grant.decided_us, self._places(grant.nodes), NodePool.OD_ALLOC)]
        held, since_us = list(grant.nodes), grant.decided_us
        times = sorted({each[0] for each in changes if end_us is None or each[0] < end_us})
        for at_us in times:
            now = [each for each in changes if each[0] == at_us]
            gone = [node for each in now for node in each[1]]
            come = [node for each in now for node in each[2]]
            rows.append((since_us, at_us, RunOutcome.RESIZED, self._places(held)))
            held, since_us = [node for node in held if node not in gone] + come, at_us
            self._count(gone, come)
            moves.append(PoolMove(at_us, self._places(gone), NodePool.OD_RESERVE))
            moves.append(PoolMove(at_us, self._places(come), NodePool.OD_ALLOC))
        if is_cut:  # without any node left, or by its user
            self._count([node for at_us, gone, _ in changes if at_us == end_us for node in gone], [])
        outcome = RunOutcome.CANCELLED if is_cut else RunOutcome.FINISHED
        state = JobState.CANCELLED if is_cut else JobState.ENDED
        if end_us is None:
            outcome, state = RunOutcome.RUNNING, JobState.RUNNING
        rows.append((since_us, -1 if end_us is None else end_us, outcome, self._places(held)))
        if end_us is not None:
            moves.append(PoolMove(end_us, self._places(held), NodePool.OD_RESERVE))
        return LeaseHistory(state, rows, [move for move in moves if move.nodes])

    def _count(self, gone: Sequence[str], come: Sequence[str]) -> None:
        self._gone += len(gone)
        self._come += len(come)

    def figures(
        self,
        jobs: JobTable,
        runs: Iterable[tuple[int, int, int, int, list[int]]],
        down: Sequence[tuple[int, int, bool]],
        horizon_us: int,
    ) -> dict[str, Any]:
        """As `mechanisms.lease_failures.LeaseAccount.figures`.

        `runs`: (start, job, end or -1, outcome, nodes) of each time that a lease had nodes, in order of start.
        """
        outages = _outages(down)
        hit: set[int] = set()
        cut: set[int] = set()
        begin_us: dict[int, int] = {}
        until_us: dict[int, int] = {}
        had_us: dict[int, int] = {}
        for start_us, row, over_us, outcome, nodes in runs:
            end_us = horizon_us if over_us < 0 else over_us
            begin_us.setdefault(row, start_us)
            until_us[row] = begin_us[row] + int(jobs.run_us[row]) if over_us >= 0 else horizon_us
            for node in nodes:
                spans = [
                    (max(begin, start_us), min(end, end_us))
                    for begin, end in outages.get(node, ())
                    if begin < end_us and end > start_us
                ]
                hit |= {row} if spans else set()
                had_us[row] = (
                    had_us.get(row, 0) + end_us - start_us - sum(end - begin for begin, end in spans)
                )
            cut |= {row} if outcome == RunOutcome.CANCELLED else set()
        asked_us = sum(int(jobs.nodes[row]) * (until_us[row] - begin_us[row]) for row in begin_us)
        return {
            "leases_hit": len(hit),
            "leases_cut": len(cut),
            "nodes_replaced": self._come,
            "nodes_not_replaced": self._gone - self._come,
            "lost_lease_node_h": (asked_us - sum(had_us.values())) / _US_PER_H,
        }

    def _places(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self._names[name] for name in names)
