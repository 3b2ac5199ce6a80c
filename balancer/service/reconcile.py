"""The ledger against what batch system and cloud report: pure; `reconcile_table` has the action for each pair."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.drivers.base import UNKNOWN, NodeStatus
from balancer.lifecycle.conflict import is_anothers_mark
from balancer.lifecycle.nodes import MAY_BE_CONTESTED
from balancer.lifecycle.states import NodeState
from balancer.service.reconcile_table import TABLE, Action, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from balancer.drivers.cloud import CloudStatus
    from balancer.lifecycle.records import NodeRecord

_OBSERVED = {
    Action.SEE_IDLE: "idle",
    Action.SEE_BUSY: "busy",
    Action.SEE_DOWN: "down",
    Action.QUARANTINE_IN_BATCH: "down",
    Action.ABANDON: "down",
}

_LISTED = {Action.MARK: "unmarked", Action.ADOPT: "in_cloud", Action.RELEASE: "not_in_cloud"}

Agreed = dict[str, "tuple[NodeRecord, NodeStatus | None]"]
"""Node -> the record and the status of which there was nothing to tell."""

_FOREIGN = (Seen.FOREIGN, Seen.FOREIGN_BUSY)
_HAS_SERVER = "a server runs on it"
"""The one reason that only the cloud can take back."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a reading tells that the ledger does not say."""

    observed: dict[str, str] = field(default_factory=dict)
    """Node -> `idle`, `busy` or `down`, where that is news."""
    jobs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Busy nodes -> the jobs that the batch system lists there, where that is news."""
    unmarked: tuple[str, ...] = ()
    """Lent nodes that the batch system could use."""
    left_marked: tuple[str, ...] = ()
    """Batch nodes that still carry an offline mark of ours."""
    by_hand: tuple[str, ...] = ()
    """Batch nodes that somebody else took offline."""
    contested: dict[str, str] = field(default_factory=dict)
    """Lent nodes that are not as they should be, and what was seen, where that is news."""
    cleared: tuple[str, ...] = ()
    """Contested nodes that are as they should be."""
    unread: tuple[str, ...] = ()
    """Lent nodes that have changed since the reading began, and granted ones that it did not find handed over."""
    reclaim: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    """Nodes on their way whose command nobody has in hand."""
    in_cloud: tuple[str, ...] = ()
    not_in_cloud: tuple[str, ...] = ()
    """QUARANTINED nodes of which the cloud says whose they are."""


def observation(batch: NodeStatus | None, cloud: CloudStatus | None = None) -> Seen:  # noqa: PLR0911 - a row each
    """The row of the table. `batch` None: it answered and does not list the node; `cloud` None: not asked."""
    if batch is None:
        return Seen.ABSENT
    if batch.is_foreign and batch.state in ("offline", "down"):
        return Seen.FOREIGN_BUSY if batch.jobs else Seen.FOREIGN
    if batch.state in ("idle", "busy"):
        if cloud is not None and cloud.enabled:
            return Seen.BOTH_ENABLED
        if cloud is not None and cloud.vms and batch.state == "idle":
            return Seen.CLOUD_VM
        return Seen.BATCH_IDLE if batch.state == "idle" else Seen.BATCH_BUSY
    if batch.state == "offline":
        if batch.jobs:
            return Seen.DRAINED_BUSY
        if cloud is None:
            return Seen.DRAINED_IDLE
        if cloud.enabled:
            return Seen.CLOUD_ENABLED
        return Seen.CLOUD_VM if cloud.vms else Seen.CLOUD_EMPTY
    return Seen.UNREACHABLE


def compare(
    records: Iterable[NodeRecord],
    states: Mapping[str, NodeStatus],
    *,
    is_news: Callable[[str], bool],
    last_jobs: Mapping[str, str],
    in_hand: Collection[str] = (),
    cloud: Mapping[str, CloudStatus] | None = None,
    is_cloud_silent: bool = False,
    now_us: int = 0,
    quarantine_us: int = 0,
    agreed: Agreed | None = None,
) -> Difference:
    """`is_news`: the node has not changed since the reading began. `last_jobs`: node -> job that ended there.

    While a job's epilogue runs (it has been reported as ended) the batch system still shows the job: no news.
    `in_hand`: nodes with a command that waits or has no outcome yet. `is_cloud_silent`: there is one and it did not
    answer, so nobody knows whether a node that is down has a VM on it: it stays down. `quarantine_us`: a node in
    quarantine without a server goes back to batch after this time, not before. `agreed` is kept up for the next time:
    of the very same record and status there is nothing to tell then either, whatever the other arguments are.
    """
    observed: dict[str, str] = {}
    lists: dict[str, list[str]] = defaultdict(list)
    contested: dict[str, str] = {}
    jobs: dict[str, tuple[str, ...]] = {}
    # The cloud may have something to tell of any node.
    known: Agreed = agreed if agreed is not None and cloud is None else {}
    for record, status in _to_compare(records, states, is_news, known, unread=lists["unread"]):
        name = record.name
        found = observation(status, (cloud or {}).get(name))
        action = _action(record, found, is_cloud_silent=is_cloud_silent)
        why = _news(record, status, found, is_cloud_asked=cloud is not None)
        is_unseen = _is_unseen(record, status, action)
        if why:
            contested[name] = why
        elif why is not None or is_unseen:
            lists["unread" if why is None else "cleared"].append(name)
        if action is Action.QUARANTINE_IN_BATCH or found in _FOREIGN:
            # One that failed while it was granted may come back with a server on it: batch must not have it then.
            is_doubtful = is_cloud_silent and record.state is NodeState.DOWN and (status or UNKNOWN).is_ours
            if not is_doubtful:
                lists["left_marked" if (status or UNKNOWN).is_ours else "by_hand"].append(name)
        if record.state in (NodeState.RECLAIMING, NodeState.RESTORING):
            # Its command sees to it, and looks more often than we do.
            if name not in in_hand:
                lists["reclaim" if record.state is NodeState.RECLAIMING else "restore"].append(name)
            continue
        if action in _LISTED and (action is not Action.RELEASE or now_us - record.since_us >= quarantine_us):
            lists[_LISTED[action]].append(name)
        state = _observed(record, status, action, last_jobs.get(name))
        is_in_doubt = is_cloud_silent and action is Action.SEE_IDLE and record.state is NodeState.DOWN
        if state is not None and not is_in_doubt:
            observed[name] = state
        if found is Seen.BATCH_BUSY and (record.state is NodeState.OA_BUSY or observed.get(name) == "busy"):
            jobs |= _other_jobs(record, status)
        if action is Action.NOTHING and why is None and not is_unseen and name not in jobs:
            known[name] = record, status
    return Difference(
        observed, jobs, contested=contested, **{name: tuple(nodes) for name, nodes in lists.items()}
    )


def _action(record: NodeRecord, found: Seen, *, is_cloud_silent: bool) -> Action:
    """The cell of the table; but without the mark of another ledger a node that is quarantined for it alone is batch's.

    To mark it again would take from another Balancer what it has given back.
    """
    is_free = found in (Seen.BATCH_IDLE, Seen.BATCH_BUSY)
    if (
        record.state is not NodeState.QUARANTINED
        or not is_free
        or not is_anothers_mark(record.doubt, record.reserved_for)
    ):
        return TABLE[record.state][found]
    if is_cloud_silent:
        return Action.KEEP
    return Action.SEE_IDLE if found is Seen.BATCH_IDLE else Action.SEE_BUSY


def _observed(
    record: NodeRecord, status: NodeStatus | None, action: Action, last_job: str | None
) -> str | None:
    """`idle`, `busy` or `down`, where that is news of a node."""
    state = _OBSERVED.get(action)
    is_known = state == "down" and record.state is NodeState.DOWN
    is_epilogue = (
        status is not None and status.jobs == (last_job,) and record.state is NodeState.OA_IDLE
    ) and state == "busy"
    return None if is_known or is_epilogue else state


def _to_compare(
    records: Iterable[NodeRecord],
    states: Mapping[str, NodeStatus],
    is_news: Callable[[str], bool],
    known: Agreed,
    *,
    unread: list[str],
) -> Iterator[tuple[NodeRecord, NodeStatus | None]]:
    """What may have something to tell; the nodes that are no news and might be granted are added to `unread`."""
    for record in records:
        name = record.name
        if not is_news(name):
            if record.state in MAY_BE_CONTESTED:
                unread.append(name)
            continue
        status, pair = states.get(name), known.get(name)
        if pair is None or pair[0] is not record or pair[1] is not status:
            yield record, status


def _news(record: NodeRecord, status: NodeStatus | None, found: Seen, *, is_cloud_asked: bool) -> str | None:
    """What speaks against granting a lent node; "": nothing does any more; None: that is known."""
    if record.state not in MAY_BE_CONTESTED:
        return None
    if record.state is not NodeState.RECLAIMING and TABLE[record.state][found] in (
        Action.FLAG_CONFLICT,
        Action.MARK,
    ):
        why = _why(status, found)
        return why if why != record.contested else None
    is_clear = (status or UNKNOWN).is_handed_over and (is_cloud_asked or record.contested != _HAS_SERVER)
    return "" if record.contested and is_clear else None


def _other_jobs(record: NodeRecord, status: NodeStatus | None) -> dict[str, tuple[str, ...]]:
    """What the batch system lists on a busy node, where that is news."""
    listed = (status or UNKNOWN).jobs
    return {record.name: listed} if listed and {*listed} != {*record.jobs} else {}


def _is_unseen(record: NodeRecord, status: NodeStatus | None, action: Action) -> bool:
    """Its owner keeps it; but whoever is to have it next needs a look that finds it as it should be."""
    is_well = action not in (Action.NOTHING, Action.FAIL) or (status or UNKNOWN).is_handed_over
    return record.state in MAY_BE_CONTESTED and not is_well


def _why(status: NodeStatus | None, found: Seen) -> str:
    """What speaks against giving the node to anybody, in words."""
    if status is None:
        return "the batch system does not list it"
    if found is Seen.CLOUD_VM:
        return _HAS_SERVER
    if found in _FOREIGN:
        return f"taken offline by others: {status.note}"
    if status.jobs:
        return f"runs {', '.join(status.jobs)}"
    if status.state in ("idle", "busy"):
        return "its offline mark was lost"
    return "it is down" if status.state == "down" else "what the batch system says of it cannot be read"
