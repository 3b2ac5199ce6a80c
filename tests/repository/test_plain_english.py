"""Sentences that readers had to read twice do not come back, and pages keep to sentences of a readable length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(path for folder in ("balancer", "emulator") for path in (ROOT / folder).rglob("*.py"))
BETTER = {
    "keeps to your wish": "met your limits",
    "in a replay without chance": "(deterministic run)",
    "Read otherwise": "Under reading X",
    "stands for: not even": "more than",
    "cannot show more than that": "could still see (95 % bound)",
    "where you think of nodes": "if the log counts cores",
    "is no result:": "is not evidence",
    "nobody lends": "cannot borrow from each other",
    "known to nobody": "not stored",
    "when all else fails": "emergency use",
    "all else fails": "emergency use",
    "looked at, followed and hurt": "inspected, followed and given faults",
    "whoever wants it otherwise": "extending",
    "leave it its job": "rollback to busy",
    "One heart, two clocks": "Architecture overview",
    "See that it is so": "Verify it",
    "What stays as it is": "API stability",
    "What dies comes back": "Crash recovery",
}
"""What stood there, and what says the same plainly."""
MOST_WORDS = 25
"""A page's sentences have so many words on average, at most."""


def phrases_in(text: str) -> list[str]:
    flat = re.sub(r"\s+", " ", text)
    return [phrase for phrase in BETTER if phrase in flat]


def sentences_of(page: str) -> list[int]:
    """Words of each sentence of running text: no code, tables, headings or links' targets."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("    ", "|", "#", "<", "!["))]
    text = re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))
    parts = re.split(r"(?<=[.!?:])\s+|\n\n|\n\* ", text)
    return [words for part in parts if (words := len(part.split())) > 2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_says_it_plainly(page):
    text = page.read_text(encoding="utf-8")
    found = sentences_of(text)
    assert phrases_in(text) == []
    assert not found or sum(found) / len(found) <= MOST_WORDS


def test_messages_and_docstrings_say_it_plainly():
    found = {path.relative_to(ROOT).as_posix(): phrases_in(path.read_text("utf-8")) for path in SOURCES}
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_what_is_hard_to_read_is_found():
    assert phrases_in("It is so, and nobody\nlends anything.") == ["nobody lends"]
    assert sentences_of("# A title\n\nThree short words. And these are five.\n\n| a | table |\n") == [3, 4]
