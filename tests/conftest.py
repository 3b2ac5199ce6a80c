"""For all tests: what a busy machine must not change, and what the quick gate leaves out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from quick import leave_out

# Hypothesis times examples by the wall clock, and fails those that waited for a processor.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    leave_out(items)
