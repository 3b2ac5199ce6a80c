"""What a call says is read in one way only: JSON by its content type, and no key twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from flask import request
from flask.json.provider import DefaultJSONProvider

from balancer.api.problems import INVALID, UNSUPPORTED, Problem

if TYPE_CHECKING:
    from flask import Flask


class StrictJson(DefaultJSONProvider):
    """Refuses a key that is given twice, and nesting beyond what the parser can follow."""

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        try:
            return json.loads(s, object_pairs_hook=_object, **kwargs)
        except RecursionError as error:
            raise Problem(400, INVALID, "the body is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Problem(400, INVALID, f"{twice}: the key is given twice")
    return found


def install(app: Flask) -> None:
    """Runs after the caller is known, before the body is read."""
    app.json = StrictJson(app)

    @app.before_request
    def check() -> None:
        for name, values in request.args.lists():
            if len(values) > 1:
                raise Problem(400, INVALID, f"{name}: the parameter is given twice")
        # A web page can post text or a form to any address without asking; JSON it cannot.
        if (
            request.method == "POST"
            and request.url_rule is not None
            and request.mimetype != "application/json"
        ):
            raise Problem(
                415,
                UNSUPPORTED,
                f"send JSON: `Content-Type: application/json`, not {request.mimetype or 'none'}",
                headers={"Accept": "application/json"},
            )
