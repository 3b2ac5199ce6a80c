"""Files of every known form with lines, or entries, that were cut, doubled, swapped, re-encoded or made up anew."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Maker = Any
_ODD = (
    b"", b" ", b"\t", b"\x00", b"\xff\xfe", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8", b"#", b";", b'"', b"'",
    b"|||||", b":::", b"{", b"[]", b"null",
    b"-1", b"1e400", b"nan", b"99999999999999999999", b"NaN", b"Infinity", b"\xd9\xa3", b"\xc2\xb2",
    b"2026-13-45T99:99:99",
)  # fmt: skip
"""What takes the place of a piece of a line: also digits of other scripts, and separators of lines that are none."""
_VALUES = (
    b"null", b"true", b"[]", b"{}", b'""', b'"x"', b"-1", b"0", b"1.5", b"1e308", b"1e400", b"NaN", b"9" * 25,
    b'{"set": true, "infinite": false, "number": "x"}', b'{"number": 1e400, "set": 1}', b"[null]", b'"\\ud800"',
)  # fmt: skip
_ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "cp1252", "utf-8-sig", "utf-7")


def fuzzed(make: Maker, name: str, seed: int) -> bytes:
    """A file of this maker (`log_files.MAKERS`) with one to four changes; the same for the same seed."""
    rng = random.Random(f"{name} {seed}")
    text, _ = make(rng, rng.randrange(2, 12))
    content = str(text).encode()
    for _ in range(rng.randrange(1, 5)):
        mark = b"\n" if content.count(b"\n") > 1 else b"},"
        content = rng.choice(_CHANGES)(rng, content, mark)
    return content


def _cut(rng: random.Random, content: bytes, _: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _doubled(rng: random.Random, content: bytes, mark: bytes) -> bytes:
    parts = content.split(mark)
    at = rng.randrange(len(parts))
    return mark.join([*parts[:at], parts[at], *parts[at:]])


def _swapped(rng: random.Random, content: bytes, mark: bytes) -> bytes:
    parts = content.split(mark)
    one, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    return mark.join(parts)


def _re_encoded(rng: random.Random, content: bytes, mark: bytes) -> bytes:
    parts = content.split(mark)
    at = rng.randrange(len(parts))
    parts[at] = parts[at].decode("utf-8", "replace").encode(rng.choice(_ENCODINGS), "replace")
    return mark.join(parts)


def _replaced(rng: random.Random, content: bytes, _: bytes) -> bytes:
    """A word or a number, or a piece of any kind, is something odd."""
    begin = rng.randrange(len(content) + 1)
    end = min(len(content), begin + rng.choice((0, 1, 2, 5, 10)))
    if rng.random() < 0.5:
        while begin > 0 and content[begin - 1 : begin].isalnum():
            begin -= 1
        while end < len(content) and content[end : end + 1].isalnum():
            end += 1
    return content[:begin] + rng.choice(_ODD) + content[end:]


def _other_value(rng: random.Random, content: bytes, _: bytes) -> bytes:
    """A value of a JSON document is another one that JSON has."""
    values = list(re.finditer(rb"(?<=: )[^,:{}\[\]]+", content))
    if not values:
        return content
    chosen = rng.choice(values)
    return content[: chosen.start()] + rng.choice(_VALUES) + content[chosen.end() :]


def _line_ends(rng: random.Random, content: bytes, _: bytes) -> bytes:
    return content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\n \n")))


_CHANGES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    _cut, _doubled, _swapped, _re_encoded, _replaced, _replaced, _other_value, _other_value, _line_ends,
)  # fmt: skip
