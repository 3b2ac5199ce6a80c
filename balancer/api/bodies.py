"""What a call says is read in one way only: JSON by its content type, and no key twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from balancer.api.problems import INVALID, UNSUPPORTED, Problem

if TYPE_CHECKING:
    from balancer.api.call import Call


_JSON = "application/json"
_CHARSETS = ("", "utf-8", "utf8", "us-ascii", "utf-16", "utf-32")
"""What a content type may say, besides nothing: the encodings that `read` tells apart by itself."""


def read(text: str | bytes) -> Any:
    """A JSON document. Raises Problem for a key that is given twice, nesting beyond the parser, and other text."""
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _DECODER.decode(text)
    except RecursionError as error:
        raise Problem(400, INVALID, "the body is nested too deeply") from error
    except ValueError as error:
        raise Problem(400, INVALID, "the body cannot be read as JSON") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Problem(400, INVALID, f"{twice}: the key is given twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def check(call: Call) -> None:
    """After the caller is known, before the body is read. Raises Problem."""
    for name, values in call.parameters.items():
        if len(values) > 1:
            raise Problem(400, INVALID, f"{name}: the parameter is given twice")
    coding = (call.header("Content-Encoding") or "identity").strip().lower()
    if coding != "identity":
        raise Problem(
            415,
            UNSUPPORTED,
            f"Content-Encoding: {coding} is not taken: send the body as it is",
            headers={"Accept-Encoding": "identity"},
        )
    if call.method != "POST":
        return
    # A web page can post text or a form to any address without asking; JSON it cannot.
    media_type = call.request.mimetype
    if call.route is not None and media_type != _JSON:
        raise Problem(
            415,
            UNSUPPORTED,
            f"send JSON: `Content-Type: {_JSON}`, not {media_type or 'none'}",
            headers={"Accept": _JSON},
        )
    charset = call.request.mimetype_params.get("charset", "").lower()
    if charset not in _CHARSETS:
        raise Problem(415, UNSUPPORTED, f"charset={charset} is not taken: send JSON as UTF-8")
