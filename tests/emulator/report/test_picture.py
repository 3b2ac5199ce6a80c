"""The picture of the README is that of the run that the README's first command makes."""

from __future__ import annotations

from pathlib import Path

import emulator
from emulator.report.picture import picture

ROOT = Path(__file__).parents[3]
SHOWN = ROOT / "docs" / "images" / "default-day.svg"


def drawn(folder, **changes):
    emulator.run(ROOT / "scenarios" / "default.yaml", changes=changes, out=folder)
    return picture(folder)


def test_the_picture_of_the_readme_is_made_by_its_command(tmp_path):
    assert "runs this day live" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert drawn(tmp_path / "run") == SHOWN.read_text(encoding="utf-8"), (
        "draw it anew: scripts/readme-picture"
    )


def test_the_same_day_by_another_rule_is_another_picture(tmp_path):
    found = drawn(tmp_path / "run", **{"mechanism.balancer.reserve_rule": "refilled"})
    assert found != SHOWN.read_text(encoding="utf-8")
