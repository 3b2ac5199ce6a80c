"""A service on loopback with a clock that the test moves."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from balancer.app import create_app
from balancer.client import Balancer

_NAME = "balancer_service_kit"


def _kit():
    if _NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(_NAME, Path(__file__).parents[1] / "service_kit.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[_NAME]


@pytest.fixture
def service(tmp_path):
    """(world, client) of a running service with eight idle nodes."""
    world = _kit().World(tmp_path, nodes=8)
    world.settled()
    server = make_server("127.0.0.1", 0, create_app(world.engine, max_waiting=2), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with Balancer(f"http://127.0.0.1:{server.server_port}", retries=0) as client:
        yield world, client
    server.shutdown()
    thread.join()
    server.server_close()
    world.close()
