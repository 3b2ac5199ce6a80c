"""What keeps other people's web pages from using a browser that can reach the service."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from balancer.api.problems import FOREIGN_HOST, FOREIGN_ORIGIN, Problem

if TYPE_CHECKING:
    from balancer.api.call import Call

_SAFE = ("GET", "HEAD", "OPTIONS")
_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": _PAGE,
}
"""What every answer has."""


def check(call: Call) -> None:
    """Raises Problem for a name that this service does not have, and for other pages.

    A page whose name was pointed at this service (DNS rebinding) shows its own name there.
    """
    host, hosts = call.request.host, call.service.hosts
    if hosts is not None and not _is_ours(host, hosts):
        raise Problem(
            403,
            FOREIGN_HOST,
            f"Host: the service is not called {_name(host)!r}; add it to allowed_hosts",
        )
    origin = call.header("Origin")
    if origin is not None and not _is_same(origin, host):
        raise Problem(403, FOREIGN_ORIGIN, f"Origin: pages of {origin} may not call this service")
    site = call.header("Sec-Fetch-Site")
    if site is not None and call.method not in _SAFE and site not in ("none", "same-origin"):
        raise Problem(403, FOREIGN_ORIGIN, f"Sec-Fetch-Site: a {site} page may not call this service")


@lru_cache(maxsize=256)
def _is_ours(host: str, hosts: frozenset[str]) -> bool:
    name = _name(host)
    return name in hosts or _is_address(name)


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
