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

# OpenStack's SDK warns of its own calls, and of those that it has no better ones for yet. Named in `pyproject.toml` its
# classes would be imported by each run, which takes longer than many a test.
SDK_WARNINGS = [
    pytest.mark.filterwarnings(f"ignore::openstack.warnings.{name}")
    for name in ("RemovedInSDK50Warning", "RemovedInSDK60Warning", "LegacyAPIWarning")
]


def pytest_configure(config):
    parts.install(config)
    config.pluginmanager.register(LeaksPlugin(), "leaks")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    leave_out(items)  # before `-m` selects
    without_nightly(config, items)
    for item in items:
        if item.get_closest_marker("live"):
            for mark in SDK_WARNINGS:
                item.add_marker(mark)
    yield
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = slow_first(items, workers)
