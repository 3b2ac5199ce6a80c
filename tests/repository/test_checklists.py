"""The boxes of docs/checklists.md hold for everything that is there already, and name files that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from balancer.plugins import BATCH_DRIVERS, plugin_names
from emulator.live.names import ROLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/checklists.md").read_text(encoding="utf-8")
BOX = re.compile(r"^- \[ \] (.*)$", re.MULTILINE)
HAS = re.compile(r"`([^`]+)` has `([^`]+)`")
FILE = re.compile(r"`((?:balancer|emulator|docs|tests|deploy)/[\w./-]*|[\w-]+\.(?:toml|yml))`")

ONLY_READ = {"/healthcheck", "/healthz", "/livez", "/readyz", "/metrics"}
"""For monitors, not for clients."""


def calls():
    paths = json.loads((ROOT / "docs/balancer/openapi.json").read_text(encoding="utf-8"))["paths"]
    old = {path for path, item in paths.items() if all(each.get("deprecated") for each in item.values())}
    return sorted(paths.keys() - ONLY_READ - old)


EXISTING = {
    "A new call": calls(),
    "A new driver": sorted(plugin_names(BATCH_DRIVERS)),
    "A new mechanism": sorted(plugin_names("emulator.mechanisms")),
    "A new role": sorted(ROLES),
}


def boxes(heading):
    (part,) = (
        each for each in re.split(r"^## ", PAGE, flags=re.MULTILINE) if each.startswith(f"{heading}\n")
    )
    return BOX.findall(part)


def plain(text):
    """Paths are written with `<request_id>`, `{request_id}` or `{id}`, by where they stand."""
    return re.sub(r"[<{][\w.]+[>}]", "{}", text)


def lacking(heading):
    """(box's file, name) of each existing thing that a box does not hold for."""
    checked = [found for box in boxes(heading) for found in HAS.findall(box)]
    assert checked, heading
    for file, word in checked:
        text = plain((ROOT / file).read_text(encoding="utf-8"))
        for name in EXISTING[heading]:
            if plain(word.replace("{name}", name)) not in text:
                yield file, name


def test_each_list_has_boxes_and_nothing_else_is_a_list():
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == [*EXISTING]
    assert all(len(boxes(heading)) > 5 for heading in EXISTING)


@pytest.mark.parametrize("heading", EXISTING)
def test_each_box_holds_for_what_is_there_already(heading):
    assert list(lacking(heading)) == []


def test_every_file_that_a_box_names_exists():
    named = {file for box in BOX.findall(PAGE) for file in FILE.findall(box)}
    assert len(named) > 20
    assert [file for file in sorted(named) if not (ROOT / file).exists()] == []


def test_a_box_that_does_not_hold_is_found(monkeypatch):
    monkeypatch.setitem(EXISTING, "A new role", ["bystander"])
    assert ("docker-compose.yml", "bystander") in list(lacking("A new role"))


def test_each_decision_has_its_page_with_its_parts_and_its_line():
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    listed = re.findall(
        r"\(decisions/([\w-]+)\.md\)", (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    )
    assert sorted(listed) == [page.stem for page in pages]
    assert len(pages) >= 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == [
            "Decision",
            "Else",
            "Why",
            "Price",
            "Anew",
        ]
        assert len(text.splitlines()) <= 25, f"{page.name}: half a screen"


def test_the_pre_commit_file_has_the_checks_of_scripts_test():
    script = (ROOT / "scripts/test").read_text(encoding="utf-8")
    checks = re.findall(r"^    (\.venv/bin/(?:ruff|mypy|lint-imports)\b.*)$", script, re.MULTILINE)
    hooks = re.findall(
        r"^ +entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert hooks == checks
