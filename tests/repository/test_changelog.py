"""The CHANGELOG has the release that the package is, with its date, below what is not released yet."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADS = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_what_is_not_released_stands_first_and_the_release_of_the_package_next_with_its_date():
    assert HEADS[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", HEADS[1])


def test_all_files_that_name_the_release_name_this_one():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [VERSION]
    assert re.findall(r"^date-released: (.*)$", citation, re.MULTILINE) == [HEADS[1].split()[1].strip("()")]
    for name in ("docker-compose.yml", "deploy/swarm.yml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert set(re.findall(r"FLEET_VERSION:-([^}]*)\}", text)) == {VERSION}, name
