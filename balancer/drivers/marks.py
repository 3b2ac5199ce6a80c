"""The note on a node that was lent: who set the mark, and what the ledger knew then.

    TEXT (ledger 5f3a9c01, event 3401-9ab3f2c4)
    what an operator had noted | TEXT (ledger 5f3a9c01, event 3401-9ab3f2c4)

It is ours in exactly these forms; whatever else is there is somebody else's, also when our text is somewhere in it.
What an operator had noted stays in front, and stays when the node goes back. Notes of older releases, which named an
epoch, are ours as well: they say nothing about the ledger.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BETWEEN = " | "
_STAMP = r"\(ledger (?P<ledger>[0-9a-f]{8}), event (?P<seq>\d{1,18})-(?P<digest>[0-9a-f]{8})\)"
_OLD = r"\((?:epoch \d+)(?:, \S+)?\)"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The ledger that wanted a mark, the newest event stored in it then, and the first digits of its digest."""

    ledger_id: str
    seq: int
    digest: str

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}, event {self.seq}-{self.digest}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A note of ours. `operator_note`: what somebody had noted before; `stamp`: None where it has none."""

    operator_note: str
    stamp: Stamp | None


def mark_text(note: str, why: str, operator_note: str = "") -> str:
    """The text of a mark: `why` is a stamp; `operator_note` is the note that was on the node."""
    ours = f"{note} ({why})" if note and why else note
    return f"{operator_note}{_BETWEEN}{ours}" if operator_note and ours else ours


def parse(text: str, note: str) -> Mark | None:
    """What a note says if it is one of ours, whose text is `note`; else None."""
    if not note or note not in text:
        return None
    match = re.fullmatch(rf"(?:(?P<kept>.*) \| )?{re.escape(note)}(?: (?:{_STAMP}|{_OLD}))?", text, re.DOTALL)
    if match is None:
        return None
    stamp = None
    if match["ledger"] is not None:
        stamp = Stamp(match["ledger"], int(match["seq"]), match["digest"])
    return Mark(match["kept"] or "", stamp)


def operator_note_of(text: str, note: str) -> str:
    """What of a node's note is not ours."""
    mark = parse(text, note)
    return text if mark is None else mark.operator_note
