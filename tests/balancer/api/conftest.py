"""A service as its API shows it."""

from __future__ import annotations

import pytest

from balancer.http.app import create_app


@pytest.fixture
def api(world):
    """`api(nodes=..., ...)` -> (world, HTTP client) with every node known and settled."""

    def make(**options):
        w = world(**options)
        w.settled()
        return w, create_app(w.engine, max_waiting=2).test_client()

    return make
