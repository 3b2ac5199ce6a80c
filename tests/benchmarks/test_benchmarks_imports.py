"""What benchmarks import is there: most are too long to be run as a test."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))
OURS = ("balancer", "emulator")


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda path: path.stem)
def test_what_a_benchmark_imports_of_ours_is_there(benchmark: Path) -> None:
    imports = [
        each for each in ast.walk(ast.parse(benchmark.read_text())) if isinstance(each, ast.ImportFrom)
    ]
    ours = [each for each in imports if str(each.module).partition(".")[0] in OURS]
    missing = [
        f"line {each.lineno}: {each.module}.{name.name}"
        for each in ours
        for name in each.names
        if not hasattr(import_module(str(each.module)), name.name)
        and not _is_module(f"{each.module}.{name.name}")
    ]
    assert missing == []


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError:
        return False
    return True
