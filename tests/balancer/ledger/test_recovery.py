"""A restart is quick however long the history (the figures: docs/benchmarks.md)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "ledger_recovery.py"


def test_ten_thousand_nodes_and_a_hundred_thousand_events_are_restored_within_two_seconds():
    spec = importlib.util.spec_from_file_location("ledger_recovery", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    assert benchmark.run(10_000, 100_000, repeats=3)["recovery_s"] < 2
