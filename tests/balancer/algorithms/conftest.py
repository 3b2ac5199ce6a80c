"""Views without a life cycle: an algorithm is tested with plain values."""

from __future__ import annotations

import pytest

from balancer.algorithms.interface import ReserveWish, View, Waiting
from balancer.lifecycle.nodes import NodeIndex
from balancer.policy_settings import Settings


def candidates(nodes):
    index = NodeIndex()
    for node, since_us in nodes.items():
        index.add(node, since_us)
    return index


@pytest.fixture
def view():
    """`view(idle={"n1": 0}, requests=[("r", 2)])`: node -> since_us; (id, short[, count, due])."""

    def make(*, free=None, coming=None, idle=None, requests=(), hints=(), now_us=0, granted=0, **settings):
        waiting = []
        for key, short, *rest in requests:
            count, due = (*rest, *(short, False)[len(rest) :])
            waiting.append(Waiting(key, count, short, 0, now_us, due))
        wishes = [
            ReserveWish(f"h{n}", count, by, by + 100, used) for n, (count, by, used) in enumerate(hints)
        ]
        return View(
            now_us=now_us,
            settings=Settings(**settings),
            requests=tuple(waiting),
            hints=tuple(wishes),
            free=candidates(free or {}),
            coming=candidates(coming or {}),
            idle=candidates(idle or {}),
            busy=0,
            granted=granted,
        )

    return make
