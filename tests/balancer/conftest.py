"""The service kit, as fixtures."""

from __future__ import annotations

import pytest

import service_kit


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
