"""Where the data of tests lies: answers of real services as they were recorded, and logs of real machines."""

from __future__ import annotations

from pathlib import Path

RECORDED = Path(__file__).with_name("recorded")
TRACES = Path(__file__).parents[1] / "traces"
