"""Nodes from the Balancer, over its HTTP API."""

from __future__ import annotations

from threading import local
from typing import Any

import requests

from balancer.clock import micros
from emulator.live.ondemand.nodes import Answer, Granted, Refused, SourceUnreachableError, Waiting

_TIMEOUT_S = 30.0
_OK, _ACCEPTED, _CONFLICT, _NOT_FOUND, _SERVER_ERROR = 200, 202, 409, 404, 500


class BalancerError(Exception):
    """The Balancer said no to something it should have done; the text is its own."""


class BalancerSource:
    """Asks the Balancer. Safe to use from many threads; each has its own connection."""

    def __init__(self, url: str, *, token: str | None = None, wait_s: float | None = None) -> None:
        self._url = url.rstrip("/")
        self._wait_s = wait_s
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._local = local()

    def request(self, count: int, key: str) -> Answer:
        body: dict[str, Any] = {"nodes": count}
        if self._wait_s is not None:
            body["wait_s"] = self._wait_s
        headers = {"Prefer": "respond-async", "Idempotency-Key": key}
        return _answer(self._call("POST", "/v1/request_nodes", json=body, headers=headers))

    def poll(self, request_id: str, wait_s: float) -> Answer:
        response = self._call(
            "GET", f"/v1/requests/{request_id}", params={"wait_s": wait_s}, timeout=_TIMEOUT_S + wait_s
        )
        return _answer(response)

    def withdraw(self, request_id: str) -> None:
        response = self._call("DELETE", f"/v1/requests/{request_id}")
        if response.status_code not in {200, 202, 204, _NOT_FOUND, _CONFLICT}:
            raise BalancerError(_problem(response))

    def release(self, nodes: tuple[str, ...]) -> None:
        response = self._call("POST", "/v1/release_nodes", json={"nodes": list(nodes)})
        if not response.ok:
            raise BalancerError(_problem(response))

    def _call(
        self, method: str, path: str, *, timeout: float = _TIMEOUT_S, **options: Any
    ) -> requests.Response:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        session: requests.Session = self._local.session
        options["headers"] = self._headers | options.get("headers", {})
        try:
            response = session.request(method, f"{self._url}{path}", timeout=timeout, **options)
        except requests.RequestException as error:
            raise SourceUnreachableError(str(error)) from error
        if response.status_code >= _SERVER_ERROR:
            raise SourceUnreachableError(_problem(response))
        return response


def _answer(response: requests.Response) -> Answer:
    if response.status_code not in {_OK, _ACCEPTED}:
        return Refused(_problem(response))
    request = response.json()["request"]
    if request["state"] == "waiting":
        return Waiting(request["request_id"])
    if request["state"] == "granted":
        decided_s = request.get("decided_at_s")
        return Granted(tuple(request["nodes"]), None if decided_s is None else micros(decided_s))
    return Refused(request.get("reason") or request["state"])


def _problem(response: requests.Response) -> str:
    """The text of a problem+json answer."""
    try:
        problem = response.json()
    except requests.JSONDecodeError:
        return f"{response.status_code} {response.reason}"
    return f"{problem.get('code', response.status_code)}: {problem.get('detail') or problem.get('title')}"
