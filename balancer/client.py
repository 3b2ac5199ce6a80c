"""Python client of the Balancer's HTTP API, on requests.

    with Balancer("http://127.0.0.1:8090") as balancer:
        request = balancer.request_nodes(4, wait_s=600)   # blocks; raises NotObtainable
        ...
        balancer.release_nodes(request.nodes)

Every call that changes something carries an idempotency key, so that a lost answer is asked for again without
doing it twice. Times are seconds of the service's clock (the wall clock: since 1970).
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import requests

from balancer.clock import micros, seconds
from balancer.timestamps import iso, parse_iso

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from requests import Response

_LONG_POLL_S = 20.0
_RETRY_STATUS = (429, 502, 503, 504)
_PAUSES_S = (0.05, 0.2, 1.0, 2.0)
_IN_PROGRESS = "balancer.call_in_progress"
_PAUSES_IN_PROGRESS_S = (*_PAUSES_S, 4.0, 8.0)


def environment_token() -> str | None:
    """The token in $BALANCER_TOKEN, or in the file $BALANCER_TOKEN_FILE names. Raises OSError."""
    path = os.environ.get("BALANCER_TOKEN_FILE")
    return os.environ.get("BALANCER_TOKEN") or (Path(path).read_text("utf-8").strip() if path else None)


class BalancerError(Exception):
    """The Balancer said no, or could not be asked. `code` is for programs; `status` 0: no answer at all."""

    def __init__(self, status: int, code: str, detail: str, problem: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.problem = dict(problem or {})
        super().__init__(f"{detail} ({code})")


class NotObtainable(BalancerError):
    """The request was rejected; nothing changed."""


class Unreachable(BalancerError):
    """No answer, after all retries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    id: str
    state: str
    count: int
    nodes: tuple[str, ...]
    submitted_s: float
    deadline_s: float
    decided_s: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    state: str
    pool: str
    since_s: float
    generation: int
    request_id: str | None
    jobs: tuple[str, ...]
    reported: str | None
    """What the batch system said last: idle, busy, offline, down or unknown."""
    note: str
    doubt: str | None = None
    """HELD: why nobody may have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    id: str
    count: int
    used: int
    added_s: float
    by_s: float
    kept_until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    seq: int
    at_s: float
    id: str
    kind: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySlot:
    start_s: float
    end_s: float
    requests: int
    nodes_requested: int
    nodes_granted: int
    nodes_rejected: int
    largest_request: int


class Balancer:
    """One service. `timeout_s`: for one HTTP call, wall time. Not for use by several threads at once.

    `ca_file`: the certificates to trust instead of the system's, for HTTPS.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca_file: str | None = None,
        timeout_s: float = 10.0,
        retries: int = len(_PAUSES_S),
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._retries = retries
        self._session = requests.Session()
        # A proxy from the environment has no business between a cluster's own services.
        self._session.trust_env = False
        self._session.verify = ca_file or True
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"
        self._pause = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._session.close()

    # Calls that change something

    def request_nodes(
        self,
        count: int,
        *,
        wait_s: float | None = None,
        respond_async: bool = False,
        idempotency_key: str | None = None,
    ) -> Request:
        """Get nodes; blocks while the request waits, unless `respond_async`. Raises NotObtainable.

        It blocks by polling, so that a broken connection in between does no harm.
        """
        body: dict[str, Any] = {"nodes": count}
        if wait_s is not None:
            body["wait_s"] = wait_s
        request = _request(
            self._post("/v1/request_nodes", body, idempotency_key, {"Prefer": "respond-async"})
        )
        if request.state == "waiting" and not respond_async:
            return self.wait_for_request(request.id)
        return request

    def wait_for_request(self, request_id: str) -> Request:
        """Block until the request is granted. Raises NotObtainable when it is rejected or withdrawn."""
        while True:
            request = self.request(request_id, wait_s=_LONG_POLL_S)
            if request.state == "granted":
                return request
            if request.state != "waiting":
                code = "balancer.not_obtainable" if request.state == "rejected" else "balancer.withdrawn"
                raise NotObtainable(409, code, request.reason or f"request {request.id} was {request.state}")
            # The service may be out of threads for waiting calls and answer at once.
            self._pause.wait(_PAUSES_S[0])

    def withdraw_request(self, request_id: str) -> Request:
        """Wait no longer; look at the state: it may have been granted meanwhile."""
        return _request(self._call("DELETE", f"/v1/requests/{request_id}", retry=True))

    def release_nodes(
        self,
        nodes: Sequence[str],
        *,
        generations: Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Give granted nodes back, all or none; with `generations` only if they have not changed since."""
        body: dict[str, Any] = {"nodes": list(nodes)}
        if generations is not None:
            body["generations"] = dict(generations)
        self._post("/v1/release_nodes", body, idempotency_key)

    def adopt_nodes(self, nodes: Sequence[str], pool: str, *, idempotency_key: str | None = None) -> None:
        """Say whose HELD nodes are, all or none: `pool` is on-demand or batch."""
        self._post("/v1/adopt_nodes", {"nodes": list(nodes), "pool": pool}, idempotency_key)

    def update_nodes(
        self,
        states: Mapping[str, str],
        *,
        job: str | None = None,
        remaining_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Report nodes `busy` or `idle`, all or none."""
        body: dict[str, Any] = {"states": dict(states), "job": job, "remaining_s": remaining_s}
        body = {name: value for name, value in body.items() if value is not None}
        self._post("/v1/update_nodes", body, idempotency_key)

    def add_reserve(
        self,
        count: int,
        notice_s: float,
        *,
        keep_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> Reserve:
        """Have `count` more nodes in reserve `notice_s` from now and for `keep_s` after it (else for I)."""
        body: dict[str, Any] = {"nodes": count, "notice_s": notice_s}
        if keep_s is not None:
            body["keep_s"] = keep_s
        return _reserve(self._post("/v1/add_reserve", body, idempotency_key))

    # Calls that only read

    def nodes(self) -> list[Node]:
        return [_node(each) for each in self._all("/v1/nodes", "nodes")]

    def node(self, name: str) -> Node:
        return _node(self._get(f"/v1/nodes/{name}"))

    def request(self, request_id: str, *, wait_s: float = 0.0) -> Request:
        """How a request stands; waits up to `wait_s` of wall time for its decision."""
        params = {"wait_s": wait_s} if wait_s else {}
        return _request(self._get(f"/v1/requests/{request_id}", params, timeout_s=self.timeout_s + wait_s))

    def requests(self, *, state: str | None = None, limit: int = 100) -> list[Request]:
        """The newest `limit` requests, newest first."""
        params = {"limit": limit} | ({"state": state} if state else {})
        return [_request(each) for each in self._get("/v1/requests", params)["requests"]]

    def reserves(self) -> list[Reserve]:
        return [_reserve(each) for each in self._all("/v1/reserves", "reserves")]

    def events(self, *, after: int = 0, limit: int = 1000) -> Iterator[LogEvent]:
        """All events with a number above `after`, oldest first, `limit` a call."""
        while True:
            page = self._get("/v1/events", {"after": after, "limit": limit})["events"]
            for each in page:
                yield _event(each)
            if len(page) < limit:
                return
            after = page[-1]["seq"]

    def history(
        self, *, slot_s: float = 21_600.0, start_s: float | None = None, end_s: float | None = None
    ) -> list[HistorySlot]:
        """What was asked for, by slots of time."""
        params: dict[str, Any] = {"slot_s": slot_s}
        if start_s is not None:
            params["start"] = iso(micros(start_s))
        if end_s is not None:
            params["end"] = iso(micros(end_s))
        return [_slot(each) for each in self._get("/v1/history", params)["slots"]]

    # HTTP

    def _post(
        self, path: str, body: Mapping[str, Any], key: str | None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        all_headers = {"Idempotency-Key": key or str(uuid4()), **(headers or {})}
        return self._call("POST", path, json=body, headers=all_headers, retry=True)

    def _all(self, path: str, name: str) -> Iterator[Mapping[str, Any]]:
        """What stands on all pages."""
        following: str | None = path
        while following is not None:
            page = self._get(following)
            yield from page[name]
            following = next((link["href"] for link in page["links"] if link["rel"] == "next"), None)

    def _get(
        self, path: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        return self._call("GET", path, params=params, retry=True, timeout_s=timeout_s)

    def _call(
        self, method: str, path: str, *, retry: bool, timeout_s: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Retries only what may be repeated: reads, and writes with a key."""
        last = self._retries if retry else 0
        for attempt in range(last + 1):
            try:
                response = self._send(method, path, timeout=timeout_s or self.timeout_s, **more)
            except requests.RequestException as error:
                if attempt == last:
                    detail = f"no answer from {self.url}: {_cause(error)}"
                    raise Unreachable(0, "balancer.unreachable", detail) from error
            else:
                if response.status_code not in _RETRY_STATUS or attempt == last:
                    return _checked(response)
            self._pause.wait(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
        raise AssertionError("the last attempt answers or raises")

    def _send(self, method: str, path: str, **more: Any) -> Response:
        """Asks again while an earlier copy of the call, whose answer was lost, is still under way in the service."""
        for pause_s in _PAUSES_IN_PROGRESS_S:
            response = self._session.request(method, self.url + path, **more)
            if response.status_code != HTTPStatus.CONFLICT or _problem(response).get("code") != _IN_PROGRESS:
                break
            self._pause.wait(pause_s)
        return response


def _cause(error: BaseException) -> str:
    """The innermost reason: requests wraps it several times."""
    while isinstance(inner := error.args[0] if error.args else None, BaseException) or (
        inner := getattr(error, "reason", None)
    ):
        error = inner
    return str(error).rpartition(": ")[2] or type(error).__name__


def _problem(response: Response) -> dict[str, Any]:
    """The body, if it is an object of JSON."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _checked(response: Response) -> dict[str, Any]:
    problem = _problem(response)
    if response.ok:
        return problem
    code = str(problem.get("code", "balancer.no_problem_document"))
    detail = str(problem.get("detail", f"HTTP {response.status_code}"))
    kind = NotObtainable if code in ("balancer.not_obtainable", "balancer.withdrawn") else BalancerError
    raise kind(response.status_code, code, detail, problem)


def _at(text: str) -> float:
    return seconds(parse_iso(text))


def _request(body: Mapping[str, Any]) -> Request:
    return Request(
        id=body["id"],
        state=body["state"],
        count=body["count"],
        nodes=tuple(body["nodes"]),
        submitted_s=_at(body["submitted_at"]),
        deadline_s=_at(body["deadline_at"]),
        decided_s=_at(body["decided_at"]) if body["decided_at"] else None,
        reason=body["reason"],
    )


def _node(body: Mapping[str, Any]) -> Node:
    reported = body["reported"] or {}
    return Node(
        name=body["name"],
        state=body["state"],
        pool=body["pool"],
        since_s=_at(body["since"]),
        generation=body["generation"],
        request_id=body["request_id"],
        jobs=tuple(body["jobs"]),
        reported=reported.get("state"),
        note=reported.get("note", ""),
        doubt=body.get("doubt"),
    )


def _reserve(body: Mapping[str, Any]) -> Reserve:
    return Reserve(
        id=body["id"],
        count=body["count"],
        used=body["used"],
        added_s=_at(body["added_at"]),
        by_s=_at(body["by"]),
        kept_until_s=_at(body["kept_until"]),
    )


def _event(body: Mapping[str, Any]) -> LogEvent:
    return LogEvent(
        seq=body["seq"], at_s=_at(body["at"]), id=body["id"], kind=body["kind"], body=body["body"]
    )


def _slot(body: Mapping[str, Any]) -> HistorySlot:
    counts = {name: value for name, value in body.items() if name not in ("start", "end")}
    return HistorySlot(start_s=_at(body["start"]), end_s=_at(body["end"]), **counts)
