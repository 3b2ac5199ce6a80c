"""What is wrong with a value of a file, a body or a command, in plain words: `nodes: must be at least 1, not -4`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import ValidationError

_LONGEST = 60
"""Of a value that is shown."""
_MEMBER = re.compile(r"(literal|dict|list|tuple|set)\[|constrained-|function-")
"""Of a place: pydantic's names for the forms of a key that has several."""
_INSTANCE = re.compile(r" or instance of \w+")
_WORDS = (
    (f"Input is not a valid path for {Path}", "must be the name of a file"),
    ("Input should be ", "must be "),
    ("String should ", "must "),
    ("List should ", "must "),
    ("Tuple should ", "must "),
    ("Dictionary should ", "must "),
    (" after validation, not 0", ""),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "more than"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid string", "a text"),
    ("a valid boolean", "true or false"),
    ("a valid dictionary", "keys with values"),
    ("a valid list", "a list"),
    ("a valid tuple", "a list"),
)
"""Of pydantic's texts, and ours for them; in order."""


def sentences(error: ValidationError) -> list[str]:
    """One for each wrong key."""
    return [sentence(each) for each in error.errors(include_url=False)]


def sentence(wrong: Mapping[str, Any], *, with_value: bool = True) -> str:
    """The place, what is wrong there and, unless it is long, the value that is there."""
    where, text = place(wrong), reason(wrong, with_value=with_value)
    return f"{where}: {text}" if where else text


def place(wrong: Mapping[str, Any]) -> str:
    """The key, `driver.slurm.timeout_s`; "": the whole."""
    return ".".join(str(part) for part in wrong["loc"] if not _MEMBER.match(str(part)))


def reason(wrong: Mapping[str, Any], *, with_value: bool = True) -> str:
    """What is wrong, without the place."""
    kind, text = str(wrong["type"]), str(wrong["msg"])
    if kind == "missing":
        return "is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "there is no such key"
    if kind in ("value_error", "assertion_error"):
        return text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = text.partition(", unable to ")[0].partition(", got a number")[0]
    text = _INSTANCE.sub("", text)
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    value = repr(wrong.get("input"))
    return f"{text}, not {value}" if with_value and len(value) <= _LONGEST else text


def no_truth_value(value: Any, annotation: Any) -> Any:
    """The value, of a key of this type. Raises ValueError for one of YAML's yes, no, on and off where it is a number.

    Pydantic would take them for 1 and 0.
    """
    if not isinstance(value, bool):
        return value
    types = set(_types(annotation))
    if types & {int, float} and not types & {bool, Any, object}:
        raise ValueError(f"must be a {'whole ' if int in types else ''}number, not {value}")
    return value


def _types(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from map(type, get_args(annotation))
    elif parts := get_args(annotation):
        for part in parts:
            yield from _types(part)
    else:
        yield annotation


def not_yaml(error: Exception, *, with_line: bool = True) -> str:
    """`, line 3: not valid YAML: mapping values are not allowed here`, to follow the name of the file."""
    if isinstance(error, UnicodeDecodeError):
        number, byte = error.object[: error.start].count(b"\n") + 1, error.object[error.start]
        line = f", line {number}" if with_line else ""
        return f"{line}: not valid YAML: byte 0x{byte:02x} is no UTF-8; save the file in that encoding"
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = "" if mark is None or not with_line else f", line {mark.line + 1}"
    return f"{line}: not valid YAML: {problem or ' '.join(str(error).split())}"
