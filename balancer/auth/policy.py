"""Who may call what: one row for each operation of the API. What has no row is refused to everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.auth.identity import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

_READERS = frozenset({Role.OPERATOR, Role.ON_DEMAND, Role.READ_ONLY})
_TAKERS = frozenset({Role.OPERATOR, Role.ON_DEMAND})
_REPORTERS = frozenset({Role.OPERATOR, Role.HOOK})
ANYBODY = frozenset(Role)
"""Also callers without an identity."""

POLICY: Mapping[str, frozenset[Role]] = {
    "POST /v1/request_nodes": _TAKERS,
    "POST /v1/release_nodes": _TAKERS,
    "POST /v1/add_reserve": _TAKERS,
    "POST /v1/update_nodes": _REPORTERS,
    "POST /v1/adopt": frozenset({Role.OPERATOR}),
    "POST /v1/adopt_nodes": frozenset({Role.OPERATOR}),
    "POST /v1/hold_nodes": frozenset({Role.OPERATOR}),
    "POST /v1/quarantine_nodes": frozenset({Role.OPERATOR}),
    "GET /v1/nodes": _READERS,
    "GET /v1/nodes/<name>": _READERS,
    "GET /v1/requests": _READERS,
    "GET /v1/requests/<request_id>": _READERS,
    "DELETE /v1/requests/<request_id>": _TAKERS,
    "POST /v1/requests/<request_id>/confirm": _TAKERS,
    "POST /v1/requests/<request_id>/renew": _TAKERS,
    "GET /v1/reserves": _READERS,
    "DELETE /v1/reserves/<reserve_id>": _TAKERS,
    "GET /v1/history": _READERS,
    "GET /v1/usage": _READERS,
    "GET /v1/events": _READERS,
    "GET /v1/status": _READERS,
    "GET /": _READERS,
    "GET /dashboard/now": _READERS,
    "GET /dashboard/nodes": _READERS,
    "GET /dashboard/pools": _READERS,
    "GET /metrics": _READERS,
    "GET /login": ANYBODY,
    "POST /session": ANYBODY,
    "DELETE /session": ANYBODY,
    "GET /assets/<name>": ANYBODY,
    "GET /v1/": ANYBODY,
    "GET /openapi.json": ANYBODY,
    "GET /docs": ANYBODY,
    "GET /livez": ANYBODY,
    "GET /readyz": ANYBODY,
    "GET /healthz": ANYBODY,
    "GET /healthcheck": ANYBODY,
}


def roles_for(method: str, route: str) -> frozenset[Role]:
    """The roles that may make this call; none for what is not in the table. HEAD is a GET."""
    return POLICY.get(f"{'GET' if method == 'HEAD' else method} {route}", frozenset())


def is_public(method: str, route: str) -> bool:
    """The call needs no identity. OPTIONS only tells the methods of a route."""
    return method == "OPTIONS" or roles_for(method, route) is ANYBODY
