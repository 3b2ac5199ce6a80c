"""What only the night runs, the night runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARKED = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "tests").rglob("test_*.py")
    if re.search(r"\bpytest\.mark\.nightly\b", path.read_text())
)


def paths_of(script):
    """Files and folders that the night's lines of `scripts/test` name."""
    lines = re.findall(r"^scripts/test (.*?) \|\|", script, re.MULTILINE)
    return {Path(word) for line in lines for word in line.split() if word.startswith("tests/")}


@pytest.mark.parametrize("path", MARKED, ids=str)
def test_a_module_with_a_nightly_test_is_in_the_nights_list(path):
    assert paths_of((ROOT / "scripts/nightly").read_text()) & {path, *path.parents}


def test_a_module_that_the_night_forgets_would_be_found():
    assert len(MARKED) >= 5
    assert paths_of("scripts/test --timeout 0 tests/a tests/b.py || failed=1\n") == {
        Path("tests/a"),
        Path("tests/b.py"),
    }
