"""Node names from the short form that clusters use: `n[001-004,007],login1` is six names."""

from __future__ import annotations

import re
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST = 100_000
_PIECE = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_OF_FILES = {".txt", ".list", ".lst", ".conf", ".cfg", ".yaml", ".yml", ".csv", ".nodes", ".hosts"}
"""Ends of names that nodes do not have."""


class NodeListError(ValueError):
    """The text is not a list of nodes."""


def expand(text: str, *, once: bool = False) -> list[str]:
    """Names in the order they are written; `once`: a name that comes again counts once.

    Raises NodeListError for bad syntax, and for repeated names unless `once`.
    """
    found = (name for part in re.split(r",(?![^\[]*\])", text) for name in _expand_one(part.strip()))
    # No more than are refused: three ranges make as many names as nobody has room for.
    names = list(islice(found, _MOST + 1))
    return _checked(list(dict.fromkeys(names)) if once else names)


def read_nodes(source: str) -> list[str]:
    """From a pattern, or from a file: one pattern a line, `#` starts a comment. Errors name the line."""
    path = Path(source)
    if "[" in source or not path.is_file():
        if "/" in source or path.suffix.lower() in _OF_FILES:
            raise NodeListError(f"there is no node file {source}")
        return expand(source)
    names: list[str] = []
    lines: dict[str, int] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NodeListError(f"{source} cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        pattern = line.partition("#")[0].strip()
        if pattern:
            try:
                more = expand(pattern)
            except NodeListError as error:
                raise NodeListError(f"{source}, line {number}: {error}") from None
            for name in more:
                if (before := lines.setdefault(name, number)) != number:
                    raise NodeListError(
                        f"{source}, line {number}: node {name} is listed in line {before} too"
                    )
            names += more
    if not names:
        raise NodeListError(
            f"{source}: there is no node in it; write one name or pattern a line, such as n[001-064]"
        )
    return _checked(names)


def _expand_one(pattern: str) -> Iterable[str]:
    pieces = _PIECE.split(pattern)
    choices = [[piece] if at % 2 == 0 else _numbers(piece, pattern) for at, piece in enumerate(pieces)]
    for combination in product(*choices):
        name = "".join(combination)
        if not _NAME.fullmatch(name):
            raise NodeListError(f"{name or pattern!r} is not a node name")
        yield name


def _numbers(piece: str, pattern: str) -> list[str]:
    numbers: list[str] = []
    for part in piece.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise NodeListError(f"in {pattern!r}: {part!r} is neither a number nor a range like 001-064")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise NodeListError(f"in {pattern!r}: {part!r} is not a range from low to high")
        if int(last) - int(first) >= _MOST:
            raise NodeListError(f"in {pattern!r}: {part!r} is more than {_MOST} nodes")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _checked(names: list[str]) -> list[str]:
    if not names:
        raise NodeListError("there are no nodes in it")
    if len(names) > _MOST:
        raise NodeListError(f"these are more than {_MOST} nodes")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise NodeListError(f"node {name} is listed twice")
        seen.add(name)
    return names


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few of them, and how many more there are, for a sentence."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
