"""The service kit, as fixtures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_NAME = "balancer_service_kit"


def _kit():
    if _NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(_NAME, Path(__file__).parents[1] / "service_kit.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[_NAME]


@pytest.fixture
def kit():
    return _kit()


@pytest.fixture
def world(tmp_path, kit):
    """`world(nodes=6, reserve=2, ...)`: a running service, stopped after the test."""
    made = []

    def make(**options):
        made.append(kit.World(options.pop("folder", tmp_path), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
