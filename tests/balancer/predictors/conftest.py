"""A service on loopback with a clock that the test moves."""

from __future__ import annotations

import threading

import pytest
from werkzeug.serving import make_server

from balancer.client import Balancer
from balancer.http.app import create_app


@pytest.fixture
def service(world):
    """(world, client) of a running service with eight idle nodes."""
    world = world(nodes=8)
    world.settled()
    server = make_server("127.0.0.1", 0, create_app(world.engine, max_waiting=2), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with Balancer(f"http://127.0.0.1:{server.server_port}", patience_s=0) as client:
        yield world, client
    server.shutdown()
    thread.join()
    server.server_close()
