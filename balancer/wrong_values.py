"""What is wrong with a value of a file, a body or a command, in plain words: `nodes: must be at least 1, not -4`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError

_LONGEST = 60
"""Of a value that is shown."""
_WORDS = (
    ("Input is not a valid path for <class 'pathlib.Path'>", "must be the name of a file"),
    ("Input should be ", "must be "),
    ("String should ", "must "),
    ("List should ", "must "),
    ("Tuple should ", "must "),
    ("Dictionary should ", "must "),
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
    place = ".".join(str(part) for part in wrong["loc"])
    text = reason(wrong, with_value=with_value)
    return f"{place}: {text}" if place else text


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
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    value = repr(wrong.get("input"))
    return f"{text}, not {value}" if with_value and len(value) <= _LONGEST else text


def not_yaml(error: Exception, *, with_line: bool = True) -> str:
    """`, line 3: not valid YAML: mapping values are not allowed here`, to follow the name of the file."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = "" if mark is None or not with_line else f", line {mark.line + 1}"
    return f"{line}: not valid YAML: {problem or ' '.join(str(error).split())}"
