"""The service stands alone: it needs nothing of the emulator, and nothing in it is there for the emulator only."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import balancer

ROOT = Path(balancer.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
# The emulator's order of events, its clock and itself; `balancer-emulator` is what the installed package is called.
_ITS_WORDS = re.compile(
    r"(?i)(?<![a-z])(ranks?|testbeds?|virtual.time|shared.?clock|(?<!balancer-)emulators?)(?![a-z])"
)


def _imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_balancer_imports_the_emulator(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [name for name in _imported(tree) if name.partition(".")[0] == "emulator"] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_balancer_speaks_of_the_emulator(path):
    assert _ITS_WORDS.findall(path.read_text(encoding="utf-8")) == []


def _of_the_api(path):
    """The modules of the API that this one names, for types alone as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "balancer.api":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("balancer.api."):
            yield (node.module or "").removeprefix("balancer.api.")


def test_the_modules_of_the_api_import_each_other_without_a_circle():
    named = {path.stem: {*_of_the_api(path)} for path in sorted((ROOT / "api").glob("*.py"))}
    assert [*TopologicalSorter(named).static_order()]


def test_the_words_are_found():
    found = _ITS_WORDS.findall(
        "alarm(rank), shared_clock SharedClock, Virtual time, an emulator, balancer-emulator, frank"
    )
    assert [word.lower() for word in found] == [
        "rank",
        "shared_clock",
        "sharedclock",
        "virtual time",
        "emulator",
    ]
