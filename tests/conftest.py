"""For all tests: what a machine that is busy with something else must not change."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Hypothesis times examples by the wall clock, and fails those that waited for a processor.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
