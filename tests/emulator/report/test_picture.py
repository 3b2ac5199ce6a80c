"""The picture of the README is that of the run that the README's first command makes."""

from __future__ import annotations

from pathlib import Path

import pytest

import emulator
from command_line import emulate
from emulator.report.picture import picture, picture_of_page

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


def test_a_plot_of_a_page_is_a_picture_of_its_own(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<style>:root { --ink: #101010; } @media dark { --ink: #f0f0f0; }</style><div class="wide" id="one">'
        '<svg viewBox="0 0 10 5" aria-label="A line"><path style="stroke:var(--ink)"/></svg></div>'
    )
    found = picture_of_page(page, "one")
    assert (found.count("#101010"), "var(" in found, 'aria-label="A line"' in found) == (1, False, True)
    assert 'viewBox="0 0 10 5"' in found
    assert 'translate(0 0)"' in found
    page.write_text(page.read_text().replace("0 0 10 5", "0 -12 10 17"))
    found = picture_of_page(page, "one")  # its legend has two lines
    assert 'viewBox="0 0 10 17"' in found
    assert 'translate(0 12)"' in found
    with pytest.raises(ValueError, match="has no plot two; there are: one"):
        picture_of_page(page, "two")


@pytest.mark.slow
def test_the_picture_of_the_sweeps_is_that_of_the_lab(tmp_path):
    done = emulate("sweep", ROOT / "scenarios/sweeps/lab.yaml", "--quiet", "--out", tmp_path / "lab")
    assert done.exit_code == 0, done.output
    shown = (ROOT / "docs" / "images" / "lab-settings.svg").read_text(encoding="utf-8")
    assert picture_of_page(tmp_path / "lab" / "report.html", "pareto") == shown, (
        "draw it anew: scripts/readme-picture"
    )
