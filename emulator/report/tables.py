"""The files of a results folder as Arrow tables, and back. `docs/results.md` defines each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from balancer.clock import US
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.kernel.lists import gather
from emulator.metrics.runs import last_run_of_job
from emulator.record.lease_table import LeaseTable
from emulator.record.moves import POOLS, MoveTable
from emulator.record.run_record import Mark, NodePool, RunTable
from emulator.report import columns
from emulator.report.columns import numbers, or_null
from emulator.report.sheets import MOST_ROWS, Sheet
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord


KINDS = tuple(kind.name.lower() for kind in Kind)
_STATES = tuple(state.name.lower() for state in JobState)
_LATE_NAMES = ("suspended", "suspend")
"""Only in files that need them, so that others stay what they were."""
_UNKNOWN = ("queue", "user", "group", "status")
_EXTRA = "extra."

# Events in the order in which they happen at one time (design, section 4): ends, failures and repairs,
# requests and the moves and answers they cause, submits, then the starts of the scheduling pass.
_ENDS = {
    RunOutcome.FINISHED: "end",
    RunOutcome.KILLED: "kill",
    RunOutcome.REQUEUED: "requeue",
    RunOutcome.RESIZED: "resize",
    RunOutcome.PREEMPTED: "preempt",
    RunOutcome.SUSPENDED: "suspend",
}
_EVENTS = (
    "end",
    "kill",
    "requeue",
    "cancel",
    "resize",
    "preempt",
    "failure",
    "lease_end",
    "lease_request",
    "move",
    "lease_grant",
    "lease_reject",
    "lease_start",
    "submit",
    "start",
    "mark",
    "suspend",
)
_EVENT = {name: code for code, name in enumerate(_EVENTS)}
_RANK = np.array([0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 0], np.int8)
_RANK_BITS = 4
_BEHIND_TEXT = 6
"""Where the column of nodes is."""


def _names(codes: NDArray[Any], names: tuple[str, ...]) -> pa.DictionaryArray:
    return columns.named(codes, _in_use(names, codes))


def _in_use(names: tuple[str, ...], *codes: NDArray[Any]) -> tuple[str, ...]:
    """The names without the late one where none of these is it."""
    is_needed = names[-1] not in _LATE_NAMES or any((each == len(names) - 1).any() for each in codes)
    return names if is_needed else names[:-1]


def _codes(column: pa.ChunkedArray, names: tuple[str, ...]) -> NDArray[np.int8]:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to load, and only to read

    codes = pc.index_in(column.cast(pa.string()), value_set=pa.array(names))
    if codes.null_count:
        raise ValueError(f"column has a value other than {', '.join(names)}")
    return np.asarray(codes.to_numpy(), np.int8)


def _or_minus_one(column: pa.ChunkedArray, dtype: type[np.generic]) -> NDArray[Any]:
    import pyarrow.compute as pc  # noqa: PLC0415

    return np.asarray(pc.fill_null(column, -1).to_numpy(), dtype)


def jobs_table(record: RunRecord) -> Sheet:
    """`jobs.parquet`: one row a job or lease, sorted by (submit, number)."""
    jobs, start_us, end_us = record.jobs, record.start_us, record.end_us
    has_run = (start_us >= 0) & (end_us >= 0)
    last = last_run_of_job(record)
    found: dict[str, pa.Array] = {
        "job": numbers(jobs.number),
        "kind": _names(jobs.kind, KINDS),
        "state": _names(record.state, _STATES),
        "submit_us": numbers(jobs.submit_us),
        "start_us": or_null(start_us),
        "end_us": or_null(end_us),
        "wait_us": numbers(start_us - jobs.submit_us, start_us >= 0),
        "response_us": numbers(end_us - jobs.submit_us, has_run),
        "run_us": numbers(jobs.run_us),
        "estimate_us": numbers(jobs.estimate_us),
        "nodes": numbers(jobs.nodes),
        "runs": numbers(np.bincount(record.runs.job, minlength=len(jobs)).astype(np.int32)),
        **{name: or_null(getattr(jobs, name)) for name in _UNKNOWN},
        **{f"{_EXTRA}{name}": or_null(values) for name, values in jobs.extra.items()},
    }
    begin, width = node_places(record, last)
    place = list(found).index("runs") + 1
    table = pa.table(found)
    return Sheet(
        len(jobs),
        lambda rows: table.slice(rows.start, rows.stop - rows.start),
        "node_list",
        place,
        np.maximum(width, 0),
        lambda rows: columns.lists(record.runs.node, begin[rows], width[rows]),
    )


def node_places(record: RunRecord, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the nodes of these runs begin and how many they are; -1 for no run."""
    first = record.runs.first
    if len(first) == 1:
        return np.zeros_like(rows), np.full_like(rows, -1)
    at = np.maximum(rows, 0)
    return first[at], np.where(rows >= 0, first[at + 1] - first[at], -1)


def jobs_from(table: pa.Table) -> tuple[JobTable, NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]]:
    """The job table, states, starts and ends of `jobs.parquet`."""
    jobs = JobTable(
        number=table["job"].to_numpy(),
        submit_us=table["submit_us"].to_numpy(),
        run_us=table["run_us"].to_numpy(),
        estimate_us=table["estimate_us"].to_numpy(),
        nodes=table["nodes"].to_numpy(),
        kind=_codes(table["kind"], KINDS),
        **{name: _or_minus_one(table[name], np.int32) for name in _UNKNOWN},
        extra={
            name.removeprefix(_EXTRA): _or_minus_one(table[name], np.int64)
            for name in table.column_names
            if name.startswith(_EXTRA)
        },
    )
    return (
        jobs,
        _codes(table["state"], _STATES),
        _or_minus_one(table["start_us"], np.int64),
        _or_minus_one(table["end_us"], np.int64),
    )


def events_table(record: RunRecord) -> Sheet:
    """`events.parquet`: everything that happened, in order.

    `run` joins the start of a run with its end; `nodes` are indices into the node table; `text` is the reason
    of a rejection or the text of a mark; `done_node_us` and `lost_node_us` are the work of a run, at its start, where
    something was done to running jobs.
    """
    return _sheet(
        [*_job_events(record), *_lease_events(record), *_move_events(record), *_mark_events(record)]
    )


def plain_events(
    submitted: JobTable,
    *,
    ends: tuple[NDArray[np.int64], ...],
    starts: tuple[NDArray[np.int64], ...],
    nodes: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> Sheet:
    """The events of a part of a run without leases, moves and marks, in which every run comes to its end.

    `ends`, `starts`: (when, job number, run) of each, in order of run; `nodes`: as a run table has those of the starts.
    """

    def part(event: str, what: tuple[NDArray[np.int64], ...], **more: Any) -> _Part:
        time_us, number, run = what
        return _part(event, time_us, job=number, run=run, **more)

    return _sheet(
        [
            part("end", ends),
            _part("submit", submitted.submit_us, job=submitted.number),
            part("start", starts, nodes=nodes),
        ]
    )


def _sheet(parts: list[_Part]) -> Sheet:
    """Events in order. What they are is looked up block by block: in one piece it would be twice the record."""
    behind = np.cumsum([0, *map(len, parts)])
    order = _order(parts)
    texts = list(dict.fromkeys(text for part in parts for text in part.texts))
    place = {text: code for code, text in enumerate(texts)}
    for part in parts:
        if part.texts:
            part.columns["text"] = np.array([place[text] for text in part.texts], np.int64)
    event_names = _in_use(_EVENTS, *(part.columns["code"] for part in parts))
    node = _one_pool(parts)

    def column(rows: slice, *names: str) -> list[NDArray[np.int64]]:
        """These columns of these rows; -1 where an event has none."""
        ids = order[rows]
        found = [np.full(len(ids), -1, np.int64) for _ in names]
        for part, first, end in zip(parts, behind, behind[1:], strict=False):
            matches = np.flatnonzero((ids >= first) & (ids < end))
            for values, name in zip(found, names, strict=True):
                if (has := part.columns.get(name)) is not None:
                    values[matches] = has[ids[matches] - first]
        return found

    def table(rows: slice) -> pa.Table:
        names = ("time_us", "code", "job", "run", "pool", "text", "done_node_us", "lost_node_us", "has_work")
        time_us, code, job, run, pool, text, done, lost, has_work = column(rows, *names)
        return pa.table(
            {
                "time_us": numbers(time_us),
                "event": columns.named(code, event_names),
                "job": or_null(job),
                "run": or_null(run),
                "pool": columns.chosen(pool, tuple(pool.value for pool in NodePool)),
                "text": columns.chosen(text, texts),
                "done_node_us": numbers(done, has_work > 0),
                "lost_node_us": numbers(lost, has_work > 0),
            }
        )

    def nodes(rows: slice) -> pa.Array:
        return columns.lists(node, *column(rows, "begin", "width"))

    widths = np.zeros(len(order), np.int32)
    for begin in range(0, len(order), MOST_ROWS):
        rows = slice(begin, begin + MOST_ROWS)
        widths[rows] = np.maximum(column(rows, "width")[0], 0)
    return Sheet(len(order), table, "nodes", _BEHIND_TEXT, widths, nodes)


def _order(parts: list[_Part]) -> NDArray[np.integer[Any]]:
    """The events as they happened: each by its place among those of all parts behind each other."""
    time_us, code = (np.concatenate([part.columns[name] for part in parts]) for name in ("time_us", "code"))
    rank = _rank(time_us, code)
    time_us <<= _RANK_BITS  # one number to sort by: a microsecond in 16 parts, for 18,000 years
    time_us |= rank
    order = np.argsort(time_us, kind="stable")
    return order.astype(np.int32) if len(order) <= np.iinfo(np.int32).max else order


def _one_pool(parts: list[_Part]) -> NDArray[np.int32]:
    """All nodes behind each other, where `begin` says; no copy where one part has all, which may be a gigabyte."""
    full = [part for part in parts if len(part.node)]
    if len(full) == 1:
        return full[0].node
    before = 0
    for part in full:
        part.columns["begin"] = part.columns["begin"] + before
        before += len(part.node)
    return np.concatenate([np.empty(0, np.int32), *(part.node for part in full)])


def _rank(time_us: NDArray[np.int64], code: NDArray[np.int8]) -> NDArray[np.int8]:
    """Place of each event among those of its time; moves stay in the record's order among themselves.

    A failure comes before the moves that requests cause, unless the record has it after one of the same time.
    """
    rank = _RANK[code]
    moves = np.flatnonzero((code == _EVENT["move"]) | (code == _EVENT["failure"]))
    moves = moves[np.argsort(time_us[moves], kind="stable")]
    group = np.cumsum(np.diff(time_us[moves], prepend=-1) != 0) * len(_EVENTS)
    rank[moves] = np.maximum.accumulate(rank[moves] + group) - group
    return np.asarray(rank)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some events: one array a column (-1: none), or nothing for a column that they do not have.

    Nodes of an event are `node[begin:begin + width]`.
    """

    columns: dict[str, NDArray[Any]]
    texts: Sequence[str]
    node: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.columns["time_us"])


def _part(
    event: str | NDArray[np.integer[Any]],
    time_us: NDArray[np.int64] | list[int],
    *,
    texts: Sequence[str] = (),
    nodes: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
    work: RunTable | None = None,
    **found: NDArray[Any],
) -> _Part:
    """`nodes`: where those of each event begin (one more than events), and all of them."""
    count = len(time_us)
    code = np.full(count, _EVENT[event], np.int8) if isinstance(event, str) else event.astype(np.int8)
    node = np.empty(0, np.int32)
    if nodes is not None:
        first, node = nodes
        found["begin"], found["width"] = first[:-1], np.diff(first)
    if work is not None and work.has_work:
        found["done_node_us"], found["lost_node_us"] = work.done_node_us, work.lost_node_us
        found["has_work"] = np.ones(count, np.bool_)
    found["code"], found["time_us"] = code, np.asarray(time_us, np.int64)
    return _Part(found, texts, node)


def _rows(mask: NDArray[np.bool_]) -> slice | NDArray[np.int64]:
    """Which rows; mostly all, of which no column is copied."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _job_events(record: RunRecord) -> list[_Part]:
    jobs, runs = record.jobs, record.runs
    number, is_lease = jobs.number[runs.job], jobs.kind[runs.job] == Kind.ON_DEMAND
    rows = np.arange(len(runs.job))
    over, came = _rows(runs.outcome != RunOutcome.RUNNING), _rows(record.state != JobState.FUTURE)
    names = np.array([_EVENT[_ENDS.get(outcome, "cancel")] for outcome in RunOutcome], np.int8)
    ends = np.where(
        is_lease & (runs.outcome == RunOutcome.FINISHED), _EVENT["lease_end"], names[runs.outcome]
    ).astype(np.int8)
    starts = np.where(is_lease, _EVENT["lease_start"], _EVENT["start"]).astype(np.int8)
    submits = np.where(jobs.kind == Kind.ON_DEMAND, _EVENT["lease_request"], _EVENT["submit"]).astype(np.int8)
    return [
        _part(ends[over], runs.end_us[over], job=number[over], run=rows[over]),
        _part(submits[came], jobs.submit_us[came], job=jobs.number[came]),
        _part(
            starts,
            runs.start_us,
            job=number,
            run=rows,
            nodes=(runs.first, runs.node),
            work=runs,
        ),
    ]


def _lease_events(record: RunRecord) -> list[_Part]:
    if not record.leases:
        return []
    leases = LeaseTable.of(record.leases)
    code = np.where(leases.granted, _EVENT["lease_grant"], _EVENT["lease_reject"])
    return [
        _part(
            code.astype(np.int8),
            leases.decided_us,
            job=record.jobs.number[leases.job],
            texts=leases.reasons,
        )
    ]


def _move_events(record: RunRecord) -> list[_Part]:
    if not record.moves:
        return []
    moves = MoveTable.of(record.moves)
    first = np.concatenate(([0], np.cumsum(moves.many)))
    node = np.empty(int(first[-1]), np.int32)
    gather(moves.node, moves.first, moves.many, node)
    codes = np.where(moves.are_failures(), _EVENT["failure"], _EVENT["move"]).astype(np.int8)
    return [_part(codes, moves.at_us, pool=moves.pool, nodes=(first, node))]


def _mark_events(record: RunRecord) -> list[_Part]:
    marks = record.marks
    return (
        [_part("mark", [mark.at_us for mark in marks], texts=[mark.text for mark in marks])] if marks else []
    )


def events_from(table: pa.Table, jobs: JobTable) -> tuple[RunTable, MoveTable, LeaseTable, tuple[Mark, ...]]:
    """Runs, moves, lease outcomes and marks of `events.parquet`."""
    code = _codes(table["event"], _EVENTS)

    def of(*names: str) -> pa.Table:
        return table.filter(pa.array(np.isin(code, [_EVENT[name] for name in names])))

    moves = _moves_from(of("move", "failure"))
    decided = of("lease_grant", "lease_reject")
    rows = _row_of_job(decided["job"].to_numpy(), jobs)
    texts = tuple(text or "" for text in decided["text"].to_pylist())
    leases = LeaseTable(
        job=rows.astype(np.int64),
        granted=_codes(decided["event"], _EVENTS) == _EVENT["lease_grant"],
        decided_us=decided["time_us"].to_numpy(),
        reason=texts if any(texts) else (),
    )
    marks = tuple(Mark(row["time_us"], row["text"]) for row in of("mark").to_pylist())
    ends = of("end", "kill", "requeue", "cancel", "resize", "preempt", "suspend", "lease_end")
    return _runs_from(of("start", "lease_start"), ends, jobs), moves, leases, marks


def _moves_from(table: pa.Table) -> MoveTable:
    first, node = _nodes_of(table)
    return MoveTable(
        at_us=table["time_us"].to_numpy(),
        pool=_codes(table["pool"], tuple(pool.value for pool in POOLS)).astype(np.int64),
        first=first[:-1],
        many=np.diff(first),
        node=node,
    )


def _nodes_of(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """As a run table has them: where each event's begin, one more than events, and all of them."""
    import pyarrow.compute as pc  # noqa: PLC0415

    nodes = table["nodes"].combine_chunks()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(nodes), 0).to_numpy(zero_copy_only=False))
    node = np.asarray(nodes.flatten().to_numpy(zero_copy_only=False), np.int32)
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), node


def _runs_from(starts: pa.Table, ends: pa.Table, jobs: JobTable) -> RunTable:
    starts = starts.take(pa.array(np.argsort(starts["run"].to_numpy())))
    count = len(starts)
    end_us, outcome = np.full(count, -1, np.int64), np.full(count, RunOutcome.RUNNING, np.int8)
    run = ends["run"].to_numpy()
    end_us[run] = ends["time_us"].to_numpy()
    names = {"lease_end": RunOutcome.FINISHED, "cancel": RunOutcome.CANCELLED}
    names |= {name: kind for kind, name in _ENDS.items()}
    by_code = np.array([names.get(name, RunOutcome.RUNNING) for name in _EVENTS], np.int8)
    outcome[run] = by_code[_codes(ends["event"], _EVENTS)]
    first, node = _nodes_of(starts)
    return RunTable(
        job=_row_of_job(starts["job"].to_numpy(), jobs).astype(np.int32),
        start_us=starts["time_us"].to_numpy(),
        end_us=end_us,
        outcome=outcome,
        first=first,
        node=node,
        **_work_from(starts),
    )


def _work_from(starts: pa.Table) -> dict[str, NDArray[np.int64]]:
    columns = [name for name in ("done_node_us", "lost_node_us") if name in starts.column_names]
    return {name: starts[name].to_numpy() for name in columns if not starts[name].null_count}


def _row_of_job(number: NDArray[np.int64], jobs: JobTable) -> NDArray[np.intp]:
    order = np.argsort(jobs.number, kind="stable")
    place = np.minimum(np.searchsorted(jobs.number, number, sorter=order), max(len(order) - 1, 0))
    rows = order[place] if len(order) else np.empty(0, np.intp)
    if len(rows) != len(number) or (jobs.number[rows] != number).any():
        raise ValueError("an event names a job that the job table does not have")
    return np.asarray(rows)


def pace_from(pace: dict[str, float]) -> dict[str, float]:
    """The pace figures of a summary (seconds) as a record has them (microseconds)."""
    return {
        f"{name.removesuffix('_s')}_us" if name.endswith("_s") else name: (
            value * US if name.endswith("_s") else value
        )
        for name, value in pace.items()
    }
