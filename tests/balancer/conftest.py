"""The service kit, as fixtures."""

from __future__ import annotations

import pytest
import structlog

import service_kit


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
