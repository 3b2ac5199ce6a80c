"""Ten questions of a newcomer: the README answers each, or links to the heading that does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
QUESTIONS = ("install", "my log", "my policy", "my cluster", "safe", "fast", "right", "help")
"""Beside what it is and how to cite it, which have a place of their own."""


def answer_to(question):
    """The row of the README's table of questions."""
    rows = re.findall(r"^\| ([^|]+\?) \| (.+) \|$", README, re.MULTILINE)
    (found,) = (answer for asked, answer in rows if question in asked)
    return found


def anchors_of(text):
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def lost(text):
    """Links of a text of the README that lead nowhere."""
    found = []
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, anchor = target.partition("#")
        file = ROOT / name
        if not file.is_file() or (anchor and anchor not in anchors_of(file.read_text("utf-8"))):
            found.append(target)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_an_answer_with_a_link(question):
    answer = answer_to(question)
    assert "](" in answer
    assert lost(answer) == []


def test_the_first_sentence_says_what_it_is_and_the_last_ones_how_to_cite_it():
    assert "batch nodes" in README.split("\n\n")[1]
    assert "(CITATION.cff)" in README.split("## Status")[1]


def test_every_link_of_the_readme_leads_to_a_heading_and_it_stays_short():
    assert lost(README) == []
    assert len(README.splitlines()) < 120


def test_a_link_to_nowhere_is_found():
    text = "[a](README.md#status) [b](README.md#nowhere) [c](docs/absent.md) [d](https://example.org)"
    assert lost(text) == ["README.md#nowhere", "docs/absent.md"]
