"""What keeps other people's web pages from using a browser that can reach the service."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import request

from balancer.api.problems import FOREIGN_HOST, FOREIGN_ORIGIN, Problem

if TYPE_CHECKING:
    from collections.abc import Collection

    from flask import Flask, Response

_SAFE = ("GET", "HEAD", "OPTIONS")
_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def install(app: Flask, hosts: Collection[str] | None) -> None:
    """`hosts`: names that callers may use in the header Host, addresses aside; None: any name.

    A page whose name was pointed at this service (DNS rebinding) shows its own name there.
    """

    @app.before_request
    def check() -> None:
        name = _name(request.host)
        if hosts is not None and name not in hosts and not _is_address(name):
            raise Problem(
                403, FOREIGN_HOST, f"Host: the service is not called {name!r}; add it to allowed_hosts"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same(origin, request.host):
            raise Problem(403, FOREIGN_ORIGIN, f"Origin: pages of {origin} may not call this service")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if request.method not in _SAFE and site not in ("none", "same-origin"):
            raise Problem(403, FOREIGN_ORIGIN, f"Sec-Fetch-Site: a {site} page may not call this service")

    @app.after_request
    def protect(response: Response) -> Response:
        headers = response.headers
        headers.extend(_HEADERS)
        headers["Content-Security-Policy"] = _PAGE
        headers.setdefault("Cache-Control", "no-store")
        return response


def _name(host: str) -> str:
    """Without the port: `[::1]:80`, `n1:80`, `n1`."""
    return (urlsplit(f"//{host}").hostname or "").rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_same(origin: str, host: str) -> bool:
    """The scheme does not count: a proxy may have taken off the encryption."""
    parts = urlsplit(origin)
    default = {"http": ":80", "https": ":443"}.get(parts.scheme)
    return default is not None and parts.netloc.lower().removesuffix(default) == host.lower().removesuffix(
        default
    )
