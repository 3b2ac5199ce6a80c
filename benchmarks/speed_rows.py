"""Rows that a benchmark prints with `--json`, for the results file: `docs/site/measurements.py speed` keeps them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def row(what: str, figures: Mapping[str, float]) -> dict[str, Any]:
    """What was measured, and the figures by names that end with their unit. The command is the one that runs."""
    program, *options = sys.argv
    words = ("python", f"benchmarks/{Path(program).name}", *(each for each in options if each != "--json"))
    return {
        "benchmark": Path(program).stem,
        "what": what,
        "command": shlex.join(words),
        "figures": dict(figures),
    }


def print_rows(rows: Iterable[dict[str, Any]]) -> None:
    print(json.dumps(list(rows), indent=1))
