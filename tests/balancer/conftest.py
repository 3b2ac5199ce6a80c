"""The service kit, as fixtures."""

from __future__ import annotations

from threading import Thread

import pytest
import structlog
from werkzeug.serving import make_server

import service_kit
from balancer.http.app import create_app


@pytest.fixture(autouse=True, scope="session")
def _plain_tracebacks():
    """By default a logged error is drawn with the values of all its frames: more work than most tests."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    before = structlog.get_config()
    structlog.configure(processors=[*before["processors"][:-1], plain])
    yield
    structlog.configure(**before)


@pytest.fixture
def kit():
    return service_kit


@pytest.fixture
def world(tmp_path):
    """`world(nodes=6, reserve=2, ...)`: a running service, stopped after the test."""
    made = []

    def make(**options):
        made.append(service_kit.World(options.pop("folder", tmp_path), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def served(world):
    """`served(**options)`: a running service on HTTP, and its URL."""
    made = []

    def make(**options):
        w = world(**options)
        server = make_server("127.0.0.1", 0, create_app(w.engine), threaded=True)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        made.append((server, thread))
        return w, f"http://127.0.0.1:{server.server_port}"

    yield make
    for server, thread in made:
        server.shutdown()
        thread.join()
        server.server_close()
