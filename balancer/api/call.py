"""One call as all of the API's code sees it, whoever took it from the network: a framework, or `operations.py`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from werkzeug.wrappers import Request
from werkzeug.wsgi import get_host

from balancer.auth.identity import NOBODY, Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from balancer.api.context import Service

_SAFE = "!$'()*,/:;?@"
"""What may stand in a query as it is (RFC 3986)."""


class Call:
    """Read from a WSGI environment; the costly and seldom asked parts only when they are asked for."""

    __slots__ = (
        "_body",
        "_request",
        "environ",
        "identity",
        "method",
        "on_close",
        "path",
        "problem_code",
        "request_id",
        "route",
        "service",
        "start_us",
        "version",
    )

    def __init__(self, environ: dict[str, Any], service: Service, start_us: int) -> None:
        self.environ = environ
        self.service = service
        self.start_us = start_us
        self.method: str = environ["REQUEST_METHOD"]
        self.path = path_of(environ)
        self.route: str | None = None
        """With names for what differs, `/v1/nodes/<name>`; None: there is no such route."""
        self.identity: Identity = NOBODY
        self.request_id = ""
        self.version = (1, 0)
        self.problem_code: str | None = None
        self.on_close: list[Callable[[], None]] = []
        """Called when the answer has been sent."""
        self._request: Request | None = None
        self._body: bytes | None = None

    @property
    def request(self) -> Request:
        if self._request is None:
            self._request = Request(self.environ)
            self._request.max_content_length = self.service.max_body_bytes
        return self._request

    def use(self, request: Request) -> None:
        """The framework's own: a body can be read once."""
        self._request = request

    def header(self, name: str) -> str | None:
        value: str | None = self.environ.get(f"HTTP_{name.upper().replace('-', '_')}")
        return value

    @property
    def address(self) -> str:
        address: str = self.environ.get("REMOTE_ADDR", "")
        return address

    @property
    def host(self) -> str:
        return get_host(self.environ)

    @property
    def length(self) -> int | None:
        """Of the body, as the caller says it."""
        text: str = self.environ.get("CONTENT_LENGTH") or ""
        is_told = text.isascii() and text.isdigit() and "HTTP_TRANSFER_ENCODING" not in self.environ
        return int(text) if is_told else None

    @property
    def media_type(self) -> str:
        """The content type without parameters."""
        given: str = self.environ.get("CONTENT_TYPE", "")
        return given if given == "application/json" else self.request.mimetype

    def body(self) -> bytes:
        """All of it; may be asked for again."""
        if self._body is None:
            length = self.length
            if self._request is None and length is not None and length <= self.service.max_body_bytes:
                self._body = self.environ["wsgi.input"].read(length)
            else:
                self._body = self.request.get_data()
        return self._body

    def prefers(self, wanted: str, otherwise: str) -> bool:
        """Whether Accept names `wanted` before `otherwise`, which is what it gets who does not care."""
        return self.request.accept_mimetypes.best_match([otherwise, wanted]) == wanted

    @property
    def parameters(self) -> Mapping[str, list[str]]:
        """Of the query."""
        return dict(self.request.args.lists()) if self.environ.get("QUERY_STRING") else {}


def path_of(environ: Mapping[str, Any]) -> str:
    """WSGI gives the bytes of a path as if they were Latin-1; it begins with one slash."""
    path: str = environ["PATH_INFO"]
    if not path.isascii():
        path = path.encode("latin-1").decode(errors="replace")
    return f"/{path.lstrip('/')}"


def address_of(path: str, **query: object) -> str:
    """The path with what is not None as its query."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, safe=_SAFE)}" if given else path


serving: ContextVar[Call] = ContextVar("call")
"""The call that this thread answers."""


def current() -> Call:
    return serving.get()
