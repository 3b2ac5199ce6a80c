"""Lines of CSV: their fields, and the rows of a table below its heading."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from emulator.workload.rows import HEADING, Malformed, without_nuls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from emulator.workload.rows import Faults

_MOST_LINES = 50


def csv_fields(line: str, mark: str = ",", *, strict: bool = False) -> list[str]:
    """The fields of a line, which may be quoted; `strict`: quotes must be whole. Raises Malformed."""
    without_nuls(line)
    try:
        return next(csv.reader([line], delimiter=mark, strict=strict), [])
    except (csv.Error, TypeError, ValueError) as error:
        raise Malformed(f"not a line of CSV: {error}") from error


def csv_rows(
    path: Path,
    lines: Iterable[tuple[int, str]],
    mark: str,
    faults: Faults,
    *,
    heading: str,
    pass_over: Callable[[str], None],
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table below its heading, with their first lines' numbers. The heading may come again."""
    kept = [each for each in lines if each[1].strip()]
    width, at = 1 + heading.count(mark), 0
    while at < len(kept):
        number, text = kept[at]
        at += 1
        if text == heading:
            pass_over(HEADING)
            continue
        try:
            fields, more = _whole_row(kept[at - 1 : at + _MOST_LINES], mark, width)
            at += more
            yield number, fields
        except Malformed as fault:
            faults.add(path, number, fault)


def _whole_row(lines: Sequence[tuple[int, str]], mark: str, width: int) -> tuple[list[str], int]:
    """The fields of the row that begins with the first line, and how many more lines its texts take."""
    first, *others = (text for _, text in lines)
    is_open = first.count('"') % 2 == 1
    for more, text in enumerate(others if is_open else (), 1):
        if text.count('"') % 2:
            try:
                fields = csv_fields("\n".join((first, *others[:more])), mark, strict=True)
            except Malformed:
                break
            if len(fields) == width:
                return fields, more
            break
    return csv_fields(first, mark, strict=True), 0
