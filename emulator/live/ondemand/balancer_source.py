"""Nodes from the Balancer, over its HTTP API."""

from __future__ import annotations

from threading import local
from typing import Any

import requests

from balancer.clock import seconds
from balancer.timestamps import parse_iso
from emulator.live.ondemand.nodes import (
    Answer,
    Granted,
    Refused,
    SourceRefusedError,
    SourceUnreachableError,
    Waiting,
)

_TIMEOUT_S = 30.0
_SERVER_ERROR = 500


class BalancerSource:
    """Asks the Balancer. Safe to use from many threads; each has its own connection."""

    def __init__(
        self, url: str, *, token: str | None = None, wait_s: float | None = None, replace: bool = False
    ) -> None:
        """`replace`: nodes that fail get others in their place."""
        self._url = url.rstrip("/")
        self._replace = replace
        self._request_ids: dict[str, str] = {}
        """Of the keys with which nodes were requested."""
        self._wait_s = wait_s
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._local = local()

    def request(self, count: int, key: str, exclude: tuple[str, ...] = ()) -> Answer:
        return self._request(count, key, exclude, self._wait_s)

    def ask_for_fewer(self, request_id: str, count: int, key: str, exclude: tuple[str, ...] = ()) -> Answer:
        response = self._call("DELETE", f"/v1/requests/{request_id}")
        answer = self._confirmed(response)
        if not response.ok or response.json()["state"] != "withdrawn":
            return answer
        larger = response.json()
        left = parse_iso(larger["deadline_at"]) - parse_iso(larger["decided_at"])
        return self._request(count, key, exclude, max(0.0, seconds(left)))

    def _request(self, count: int, key: str, exclude: tuple[str, ...], wait_s: float | None) -> Answer:
        body: dict[str, Any] = {"nodes": count}
        if exclude:
            body["exclude"] = list(exclude)
        if wait_s is not None:
            body["wait_s"] = wait_s
        if self._replace:
            body["replace"] = True
        headers = {"Prefer": "respond-async", "Idempotency-Key": key}
        response = self._call("POST", "/v1/request_nodes", json=body, headers=headers)
        if response.ok:
            self._request_ids[key] = response.json()["id"]
        return self._confirmed(response)

    def request_of(self, key: str) -> str | None:
        """The id of the request that was made with this key."""
        return self._request_ids.get(key)

    def status_of(self, request_id: str) -> dict[str, Any]:
        """The request as the Balancer has it, confirmed if it is granted."""
        response = self._call("GET", f"/v1/requests/{request_id}")
        self._confirmed(response)
        found: dict[str, Any] = response.json()
        return found

    def poll(self, request_id: str, wait_s: float) -> Answer:
        path = f"/v1/requests/{request_id}"
        return self._confirmed(
            self._call("GET", path, params={"wait_s": wait_s}, timeout=_TIMEOUT_S + wait_s)
        )

    def withdraw(self, request_id: str) -> None:
        self._call("DELETE", f"/v1/requests/{request_id}")

    def release(self, nodes: tuple[str, ...], key: str) -> None:
        headers = {"Idempotency-Key": key}
        response = self._call("POST", "/v1/release_nodes", json={"nodes": list(nodes)}, headers=headers)
        if not response.ok:
            raise SourceRefusedError(_problem(response))

    def _confirmed(self, response: requests.Response) -> Answer:
        """What the Balancer says of a request. A grant is confirmed at once: it is known here from now on."""
        answer = _answer(response)
        if isinstance(answer, Granted) and not response.json().get("confirmed", True):
            confirmation = self._call("POST", f"/v1/requests/{response.json()['id']}/confirm", json={})
            if not confirmation.ok:
                return Refused(_problem(confirmation))
        return answer

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
    """What the Balancer says of a request; an error is a refusal."""
    if not response.ok:
        return Refused(_problem(response))
    request = response.json()
    if request["state"] == "waiting":
        return Waiting(request["id"])
    if request["state"] == "granted":
        decided_at = request.get("decided_at")
        return Granted(tuple(request["nodes"]), None if decided_at is None else parse_iso(decided_at))
    return Refused(request.get("reason") or request["state"])


def _problem(response: requests.Response) -> str:
    """The text of a problem+json answer."""
    try:
        problem = response.json()
    except requests.JSONDecodeError:
        return f"{response.status_code} {response.reason}"
    return f"{problem.get('code', response.status_code)}: {problem.get('detail') or problem.get('title')}"
