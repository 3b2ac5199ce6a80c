"""Numbers have one form: thin spaces between thousands, the same decimals in a column, a space before %."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.text.number_text import NO_FIGURE, number, number_of, numbers, percent

ROOT = Path(__file__).parents[2]
_OTHER_FORMS = re.compile(
    r"""\{[^{}"']*:[+]?(?:,(?:\.\d[fg])?|\.\d%)\}|\{:,?\.\d%?\}|\d,\d{3}(?: \w|["'/.])"""
)
"""Commas between thousands and percents without a space, in a format or a text."""


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ([13.8, 6], ["13.80", "6.00"]),
        ([3264.2, 482.56, None], ["3 264", "483", NO_FIGURE]),
        ([7, 10, 1234], ["7", "10", "1 234"]),
        ([0.5, 0.25, -0.0001], ["0.500", "0.250", "0.000"]),
        ([], []),
    ],
)
def test_numbers_of_a_column_have_the_same_decimals(column, texts):
    assert numbers(column) == [text.replace(" ", "\u202f") for text in texts]


def test_changes_have_signs_and_nothing_has_none():
    assert numbers([1194, -0.2, 0], signed=True) == ["+1\u202f194", "+0", "+0"]


def test_one_of_a_thing_is_not_many():
    assert [number_of(count, "week") for count in (0, 1, 2, 1000)] == [
        "0 weeks", "1 week", "2 weeks", "1\u202f000 weeks",
    ]  # fmt: skip


def test_a_number_alone_has_at_most_five_figures():
    assert [number(value) for value in (7, 28467, 0.1, 6.0, 12.345)] == [
        "7",
        "28\u202f467",
        "0.1",
        "6",
        "12.35",
    ]
    assert percent(0.6354, 2) == "63.54 %"


@pytest.mark.parametrize(
    "folder",
    [
        *(
            f"emulator/{name}"
            for name in ("commands", "experiments", "report", "runs", "study", "sweeps", "workload")
        ),
        "balancer/console",
    ],
)
def test_no_text_has_another_form(folder):
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if any(_OTHER_FORMS.search(text) for text in re.findall(r'"[^"]*"', line.partition('"""')[0]))
    ]
    assert found == []
