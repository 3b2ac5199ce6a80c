"""Definitions of every figure, computed from a run record and from nothing else."""

from __future__ import annotations

from emulator.metrics.summary import summarize
from emulator.metrics.timeline import Timeline, timeline

__all__ = ["Timeline", "summarize", "timeline"]
