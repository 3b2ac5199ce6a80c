"""For all tests: what a busy machine must not change, what the quick gate leaves out, what a test needs and leaves."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

import parts
from leaks import LeaksPlugin
from order import slow_first
from quick import leave_out, without_nightly

# Hypothesis times examples by the wall clock, and fails those that waited for a processor.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure(config):
    parts.install(config)
    config.pluginmanager.register(LeaksPlugin(), "leaks")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    leave_out(items)  # before `-m` selects
    without_nightly(config, items)
    yield
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = slow_first(items, workers)
