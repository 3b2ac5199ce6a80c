"""What on-demand asks for, as the record it becomes; what makes no sense is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from balancer.lifecycle.errors import Refused
from balancer.lifecycle.records import RequestRecord, ReserveRecord
from balancer.lifecycle.recurrence import Recurrence

if TYPE_CHECKING:
    from balancer.lifecycle.events import NodesRequested, ReserveAdded
    from balancer.policy_settings import Settings


def request_of(event: NodesRequested, settings: Settings, *, now_us: int, order: int) -> RequestRecord:
    """Raises Refused."""
    wait_us = settings.wait_us if event.wait_us is None else event.wait_us
    lease_us = settings.lease_us if event.lease_us is None else event.lease_us
    if event.count < 1:
        raise Refused(Refused.BAD_COUNT, f"a request is for at least 1 node, not for {event.count}")
    if wait_us < 0:
        raise Refused(Refused.BAD_TIME, f"a request cannot wait for {wait_us} us")
    if lease_us is not None and lease_us < 0:
        raise Refused(Refused.BAD_TIME, f"a lease cannot last {lease_us} us")
    return RequestRecord(
        request_id=event.request_id,
        count=event.count,
        arrived_us=now_us,
        deadline_us=now_us + (wait_us or settings.at_once_us),
        order=order,
        owner=event.owner,
        at_once=wait_us == 0,
        candidates=event.candidates,
        exclude=event.exclude,
        lease_us=lease_us,
        replace=event.replace,
    )


def reserve_of(
    event: ReserveAdded, settings: Settings, *, nodes: int, now_us: int, order: int
) -> ReserveRecord:
    """`nodes`: how many there are. Raises Refused."""
    if not 1 <= event.count <= nodes:
        raise Refused(Refused.BAD_COUNT, f"a reserve of {event.count} nodes cannot be made of {nodes} nodes")
    if event.by_us < 0:
        raise Refused(Refused.BAD_TIME, f"{event.by_us} us is before the beginning of time")
    keep_us = settings.idle_reserve_us if event.keep_us is None else event.keep_us
    if keep_us < 0:
        raise Refused(Refused.BAD_TIME, f"a reserve cannot be kept for {keep_us} us")
    if event.lead_us < 0:
        raise Refused(Refused.BAD_TIME, f"nodes cannot be collected {event.lead_us} us ahead")
    by_us = max(event.by_us, now_us)
    record = ReserveRecord(
        reserve_id=event.reserve_id,
        count=event.count,
        by_us=by_us,
        ends_us=by_us + keep_us,
        added_us=now_us,
        order=order,
        owner=event.owner,
        every=event.every,
        lead_us=event.lead_us,
    )
    if not event.every:
        return record
    first = following(record, now_us)
    if first is None:
        raise Refused(Refused.BAD_TIME, "every: no window begins within five years")
    return first


def following(record: ReserveRecord, now_us: int) -> ReserveRecord | None:
    """A reserve that comes again, in the first window of its rule that ends later than now; None: in none.

    Raises Refused for a rule that cannot be read.
    """
    try:
        window = Recurrence.of(record.every).window(record.added_us, now_us)
    except ValueError as error:
        raise Refused(Refused.BAD_TIME, str(error)) from error
    return None if window is None else replace(record, by_us=window[0], ends_us=window[1], used=0)
