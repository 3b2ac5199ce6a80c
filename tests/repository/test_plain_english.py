"""Sentences that readers had to read twice do not come back, and pages keep to sentences of a readable length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(path for folder in ("balancer", "emulator") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
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
    "watched, hurt and removed": "given faults",
    "stays HELD": "stays QUARANTINED",
    "set it held": "quarantine it",
    "whoever wants it otherwise": "extending",
    "leave it its job": "rollback to busy",
    "One heart, two clocks": "Architecture overview",
    "See that it is so": "Verify it",
    "What stays as it is": "API stability",
    "What dies comes back": "Crash recovery",
}
"""What stood there, and what says the same plainly."""
TERMS = {
    "deed": "action",
    "happening": "external event",
    "speechless": "unresponsive",
    "obituary": "exit summary",
    "node_not_held": "node_not_quarantined",
    "BalancerNodesHeld": "BalancerNodesQuarantined",
    "NodeState.HELD": "NodeState.QUARANTINED",
}
"""A word that names had, also as a part of a name, and the term that stands for it."""
WITH_OLD_TERMS = {
    "emulator/mechanisms/balancer/cloud.py",
    "emulator/mechanisms/balancer/mechanism.py",
    "emulator/mechanisms/hybrid/few_jobs.py",
    "tests/emulator/mechanisms/hybrid/test_whole.py",
}
"""Modules whose names are still old: none may be added."""
MOST_WORDS = 25
"""A page's sentences have so many words on average, at most."""


def phrases_in(text: str) -> list[str]:
    flat = re.sub(r"\s+", " ", text)
    return [phrase for phrase in BETTER if phrase in flat]


def terms_in(text: str) -> list[str]:
    return [term for term in TERMS if re.search(rf"(?<![a-z]){re.escape(term)}s?(?![a-z])", text)]


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


def test_names_are_the_terms_of_the_field():
    found = {
        path.relative_to(ROOT).as_posix() for path in (*SOURCES, *TESTS) if terms_in(path.read_text("utf-8"))
    }
    assert found - WITH_OLD_TERMS == set()


def test_an_old_term_is_found_as_a_part_of_a_name_and_not_within_a_word():
    assert terms_in("self._deeds = make_happenings()") == ["deed", "happening"]
    assert terms_in("indeed") == []


def test_what_is_hard_to_read_is_found():
    assert phrases_in("It is so, and nobody\nlends anything.") == ["nobody lends"]
    assert sentences_of("# A title\n\nThree short words. And these are five.\n\n| a | table |\n") == [3, 4]
