"""A checkout is whole: no file of it names a path beside it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ("tests/recorded/", "tests/balancer/drivers/recordings/", "traces/aps/", "traces/lcrc/")
"""Kept as they were recorded or published: their paths are those of other machines."""
UP, PARENTS = "../", "parents"
_UP = re.compile(r"""(?<![\w./])(?:\.\./)+[\w.-][^\s"'`)>\]]*""")
_ROOT_PARENT = re.compile(r"\bROOT\.parent\b")
_PARENTS = re.compile(r"parents\[(\d+)\]((?:\.parent)*)")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and not name.startswith(DATA)]


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        try:
            found.append((path, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:  # a compressed log, a picture
            continue
    return found


def beside(path: Path, text: str) -> list[str]:
    """What `text`, which stands in `path`, names outside of the checkout."""
    found = _ROOT_PARENT.findall(text)
    for name in _UP.findall(text):
        inside = name.split("#")[0]
        # Relative to the file (a link) or, in a script or test, to some folder below the root.
        if not (path.parent / inside).resolve().is_relative_to(ROOT):
            found.append(name)
    depth = len(path.relative_to(ROOT).parts) - 1
    for number, more in _PARENTS.findall(text):
        if path.suffix == ".py" and int(number) + more.count(".parent") > depth:
            found.append(f"parents[{number}]{more}")
    return found


@pytest.mark.needs("git")
def test_no_file_names_a_path_beside_the_checkout():
    assert {
        str(path.relative_to(ROOT)): names for path, text in texts() if (names := beside(path, text))
    } == {}


@pytest.mark.needs("git")
def test_no_link_leads_out_of_the_checkout():
    links = [path for path in tracked() if path.is_symlink()]
    assert [path for path in links if not path.resolve().is_relative_to(ROOT)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Path(__file__).{PARENTS}[2].parent / 'x'", [f"{PARENTS}[2].parent"]),
        (f"Path(__file__).{PARENTS}[3]", [f"{PARENTS}[3]"]),
        (f"Path(__file__).{PARENTS}[2]", []),
        (f"ROOT{'.parent'} / 'x'", [f"ROOT{'.parent'}"]),
        ("see " + UP * 3 + "other/README.md", [UP * 3 + "other/README.md"]),
        ("see " + UP * 2 + "docs/testing.md", []),
    ],
)
def test_what_leads_out_is_noticed(text, found):
    assert beside(Path(__file__), text) == found
