"""Answers about thousands of nodes, read piece by piece: one that was there at the last look is not read again.

A cluster changes little from one look to the next, and reading ten thousand nodes anew each time would keep the
interpreter from those who wait for an answer. What a piece reads as depends on the piece alone, so nothing can be
stale; and as the same piece gives the same object, whoever compares looks sees at once what has not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from balancer.drivers.base import UnclearError

Piece = TypeVar("Piece", bound=Hashable)
Value = TypeVar("Value")


class ParseCache(Generic[Piece, Value]):
    """`read` of each piece, and what it gave at the last look at all. `read` must depend on nothing but the piece."""

    def __init__(self, read: Callable[[Piece], Value]) -> None:
        self._read = read
        self._known: dict[Piece, Value] = {}

    def of_all(self, pieces: Iterable[Piece]) -> list[Value]:
        """Remembers these and forgets all others; when `read` raises, all is as it was."""
        before, now = self._known, dict[Piece, Value]()
        values: list[Value] = []
        for piece in pieces:
            value = before.get(piece)
            if value is None:
                value = self._read(piece)
            now[piece] = value
            values.append(value)
        self._known = now
        return values

    def of_some(self, pieces: Iterable[Piece]) -> list[Value]:
        """Neither remembers nor forgets."""
        known = self._known
        return [known[piece] if piece in known else self._read(piece) for piece in pieces]


@dataclass(frozen=True, slots=True)
class Form(Generic[Value]):
    """How an answer about nodes reads: `whole`, node name -> value, or in `pieces` (one a node), `one` at a time.

    `pieces` gives None for an answer that has another form. All raise UnclearError.
    """

    whole: Callable[[str], dict[str, Value]]
    pieces: Callable[[str], Sequence[str] | None]
    parse_piece: Callable[[str], tuple[str, Value]]


def by_name(nodes: Iterable[tuple[str, Value]], command: str) -> dict[str, Value]:
    """The nodes that this command printed. Raises UnclearError for one that comes twice, and where there is none."""
    found: dict[str, Value] = {}
    for name, value in nodes:
        if name in found:
            raise UnclearError(f"{command} lists node {name} twice")
        found[name] = value
    if not found:
        raise UnclearError(f"{command} lists no node at all")
    return found


class IncrementalNodeParser(Generic[Value]):
    """Reads answers of this form; `finish` is what is made of each value, of the value alone.

    An answer that is not in pieces, or with a piece that does not read, is read as a whole: that says what is wrong.
    """

    def __init__(self, form: Form[Value], finish: Callable[[Value], Value] = lambda value: value) -> None:
        self._form = form
        self._finish = finish
        self._remembered = ParseCache[str, tuple[str, Value]](self._parse_piece)

    def _parse_piece(self, piece: str) -> tuple[str, Value]:
        name, value = self._form.parse_piece(piece)
        return name, self._finish(value)

    def read(self, text: str, *, are_all: bool = True) -> dict[str, Value]:
        """`are_all`: it is about all nodes, so that the next such answer will mostly have the same pieces."""
        each = self._remembered.of_all if are_all else self._remembered.of_some
        try:
            pieces = self._form.pieces(text) or ()
            found = dict(each(pieces))
        except UnclearError:
            found = {}
        if found and len(found) == len(pieces):
            return found
        return {name: self._finish(value) for name, value in self._form.whole(text).items()}
