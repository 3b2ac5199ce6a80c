"""A module is called by a noun: what it holds, not what was done to something."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
IRREGULAR = {"bound", "held", "kept", "known", "lost", "made", "own", "said", "shown", "told", "written"}
TERMS = {"compiled", "recency_weighted", "backfill_on_held", "malloc_tuning"}
"""Compiled code, a weighted mean, backfilling on held nodes: the field calls them so."""


def is_participle(name: str) -> bool:
    last = name.rsplit("_", 1)[-1]
    return name not in TERMS and (last in IRREGULAR or re.fullmatch(r"\w{3,}(?<!e)ed", last) is not None)


def test_no_module_is_named_by_a_past_participle() -> None:
    modules = [each for package in ("balancer", "emulator") for each in (ROOT / package).rglob("*.py")]
    assert sorted(str(each.relative_to(ROOT)) for each in modules if is_participle(each.stem)) == []


def test_a_participle_is_found_and_a_noun_is_not() -> None:
    names = ("published", "jobs_held", "failing_seed", "speed", "compiled", "shared_clock")
    assert [each for each in names if is_participle(each)] == ["published", "jobs_held"]


def shared_names(*folders: Path) -> dict[str, int]:
    """Names of modules that more than one folder has."""
    counted = Counter(path.stem for folder in folders for path in folder.glob("*.py"))
    return {name: count for name, count in counted.items() if count > 1}


def test_modules_that_are_imported_by_their_name_alone_have_each_its_own(tmp_path: Path) -> None:
    """One that a test loads would be found in place of another."""
    folders = [ROOT / "tests", ROOT / "docs" / "site", ROOT / "benchmarks"]
    assert shared_names(*folders) == {}
    (tmp_path / "slurm_releases.py").touch()
    assert shared_names(*folders, tmp_path) == {"slurm_releases": 2}


def test_no_module_of_the_emulator_is_loose_at_its_top() -> None:
    assert sorted(each.name for each in (ROOT / "emulator").glob("*.py")) == [
        "__init__.py",
        "api.py",
        "cli.py",
    ]
