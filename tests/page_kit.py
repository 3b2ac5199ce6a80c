"""Tables of a page, and the numbers in their cells as people read them."""

from __future__ import annotations

import re
from html import unescape

_SECONDS = {"d": 86_400, "h": 3600, "min": 60, "s": 1, "ms": 0.001}
_NUMBER = re.compile(r"-?\d[\d\u202f]*(?:\.\d+)?")
_TIME = re.compile(r"(-?\d[\d\u202f]*(?:\.\d+)?) (d|h|min|ms|s)\b")


def tables(page: str) -> list[list[list[str]]]:
    """The texts of all cells, a list for each row of each table; its head is its first row."""
    found = []
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        found.append(
            [[_text(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]
        )
    return found


def numbers(text: str) -> list[tuple[float, float]]:
    """Each number of a text, and half a unit of its last digit."""
    return [_with_half_a_unit(number) for number in _NUMBER.findall(text)]


def seconds(text: str) -> tuple[float, float]:
    """A duration such as `1 h 5 min`, and half of its last unit."""
    parts = [(_with_half_a_unit(number), _SECONDS[unit]) for number, unit in _TIME.findall(text)]
    return sum(value * unit for (value, _), unit in parts), parts[-1][0][1] * parts[-1][1]


def are_shown(cells: list[str], values: list[float]) -> bool:
    """Whether cells show these numbers, each rounded, in this order, and no other."""
    shown = numbers(" ".join(cells))
    return len(shown) == len(values) and all(
        abs(number - value) <= half * 1.000_001 for (number, half), value in zip(shown, values, strict=True)
    )


def _text(cell: str) -> str:
    return unescape(re.sub(r"<.*?>", "", cell)).strip()


def _with_half_a_unit(number: str) -> tuple[float, float]:
    plain = number.replace("\u202f", "")
    return float(plain), 0.5 * 10.0 ** -len(plain.partition(".")[2])
