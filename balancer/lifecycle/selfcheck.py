"""Every index of a life cycle against every other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.nodes import GRANTED, NodeTable
from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from balancer.lifecycle.leases import LeaseBook
    from balancer.lifecycle.requests import HintBook, RequestQueue
    from balancer.policy_settings import Settings


def check(
    nodes: NodeTable,
    requests: RequestQueue,
    leases: LeaseBook,
    hints: HintBook,
    *,
    settings: Settings,
    now_us: int,
) -> None:
    """Raises AssertionError: a bug of ours."""
    nodes.check()
    leases.check()
    hints.check()
    for request in requests:
        request_id = request.record.request_id
        reserved = {
            node.name: node for node in nodes if node.reserved_for == request_id and node.state not in GRANTED
        }
        assert reserved.keys() == request.reserved.keys(), (request_id, reserved, request.reserved)  # noqa: S101
        assert request.record.status is RequestStatus.WAITING, request.record  # noqa: S101
        ready = sum(node.state is NodeState.OD_RESERVE for node in reserved.values())
        assert request.ready == ready <= request.record.count, request.record  # noqa: S101
        is_waiting = ready < request.record.count or settings.fresh_us is not None
        assert is_waiting, request.record  # noqa: S101
        assert request.short >= 0, request.record  # noqa: S101
    for node in nodes:
        if node.reserved_for is not None and node.state not in GRANTED:
            assert node.reserved_for in requests, node.record()  # noqa: S101
    orders = [request.record.order for request in requests]
    assert orders == sorted(set(orders)), orders  # noqa: S101
    for hint in hints:
        assert 0 <= hint.used <= hint.count, hint  # noqa: S101
        assert not hint.ended, hint  # noqa: S101
        assert hint.ends_us > now_us, hint  # noqa: S101
