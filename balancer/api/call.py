"""One call: the framework's request, with what the Balancer knows and notes of it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from flask import Request, request

from balancer.auth.identity import NOBODY, Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from balancer.api.service import Service

CLIENT_IS_GONE = "balancer.client_is_gone"
"""The front end puts a function without arguments into the environment here: whether the caller has hung up."""

_SAFE = "!$'()*,/:;?@"
"""What may stand in a query as it is (RFC 3986)."""


class Call:
    """Made before the framework looks at the call, and there until the answer has been sent."""

    def __init__(self, environ: dict[str, Any], service: Service, start_us: int) -> None:
        self.environ = environ
        self.service = service
        self.start_us = start_us
        self.method: str = environ["REQUEST_METHOD"]
        self.identity: Identity = NOBODY
        self.request_id = ""
        self.version = (1, 0)
        self.problem_code: str | None = None
        self.on_close: list[Callable[[], None]] = []
        """Called when the answer has been sent."""

    @property
    def request(self) -> Request:
        return request

    @property
    def path(self) -> str:
        return self.request.path

    @property
    def route(self) -> str | None:
        """With names for what differs, `/v1/nodes/<name>`; None: there is no such route."""
        rule = self.request.url_rule
        return None if rule is None else rule.rule

    def header(self, name: str) -> str | None:
        value: str | None = self.environ.get(f"HTTP_{name.upper().replace('-', '_')}")
        return value

    @property
    def address(self) -> str:
        address: str = self.environ.get("REMOTE_ADDR", "")
        return address

    @property
    def length(self) -> int | None:
        """Of the body, as the caller says it."""
        text: str = self.environ.get("CONTENT_LENGTH") or ""
        has_length = text.isascii() and text.isdigit() and "HTTP_TRANSFER_ENCODING" not in self.environ
        return int(text) if has_length else None

    def body(self) -> bytes:
        """All of it; may be asked for again."""
        return self.request.get_data()

    def prefers(self, content_type: str) -> bool:
        """Whether Accept names this type before JSON, which is what it gets who does not care."""
        accepted = self.request.accept_mimetypes
        return accepted.best_match(["application/json", content_type]) == content_type

    def is_client_gone(self) -> bool:
        """Whether whoever made this call has closed the connection; never blocks, from any thread.

        False where the front end cannot tell (a test client), and for a caller that vanished without a word.
        """
        ask = self.environ.get(CLIENT_IS_GONE)
        return ask is not None and bool(ask())

    @property
    def parameters(self) -> Mapping[str, list[str]]:
        """Of the query."""
        return dict(self.request.args.lists())


def address_of(path: str, **query: object) -> str:
    """The path with what is not None as its query."""
    parameters = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(parameters, safe=_SAFE)}" if parameters else path


serving: ContextVar[Call] = ContextVar("call")
"""The call that this thread answers."""


def current() -> Call:
    return serving.get()
