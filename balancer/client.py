"""Python client of the Balancer's HTTP API, on requests.

    with Balancer("http://127.0.0.1:8090") as balancer:
        request = balancer.request_nodes(4, wait_s=600)   # blocks, and confirms; raises NotObtainable
        ...
        balancer.release_nodes(request.nodes)

Every call that changes something carries an idempotency key, so that a lost answer is asked for again without
doing it twice, for `patience_s`: a restart of the service is outlived. Who stops waiting leaves no request behind:
it is withdrawn, or what was granted is released. Times are seconds of the service's clock (the wall clock: since 1970).
"""

from __future__ import annotations

import os
import re
import ssl
import threading
from http import HTTPStatus
from itertools import count as counting
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote
from uuid import uuid4

import requests
from requests.exceptions import InvalidHeader, InvalidJSONError, InvalidSchema, InvalidURL, MissingSchema

from balancer.client_records import event_of, node_of, request_of, reserve_of, slot_of, usage_of
from balancer.clock import micros, micros_or_none, wall_us
from balancer.timestamps import iso_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from requests import Response

    from balancer.client_records import HistorySlot, LogEvent, Node, Request, Reserve, Usage

_UNSENDABLE = (
    InvalidHeader,
    InvalidJSONError,
    InvalidSchema,
    InvalidURL,
    MissingSchema,
    UnicodeEncodeError,
)
"""What is wrong with the call itself: no later try can send it."""
_PARAMETER = re.compile(r"\{\w+\}")
_TOKEN = re.compile(r"[!-~]+")
_LONG_POLL_S = 20.0
_RETRY_STATUS = (429, 502, 503, 504)
_PAUSES_S = (0.05, 0.2, 1.0, 2.0)
_PATIENCE_S = 90.0
_LAST_WORD_S = 3.0
"""How long who gives up tries to leave nothing behind."""
_NOT_OBTAINABLE = (
    "balancer.not_obtainable",
    "balancer.withdrawn",
    "balancer.lease_ended",
    "balancer.not_granted",
)
_IN_PROGRESS = "balancer.call_in_progress"
_PAUSES_IN_PROGRESS_S = (*_PAUSES_S, 4.0, 8.0)


def environment_token() -> str | None:
    """The token in $BALANCER_TOKEN, or in the file $BALANCER_TOKEN_FILE names. Raises ValueError, without the token."""
    token, path = os.environ.get("BALANCER_TOKEN"), os.environ.get("BALANCER_TOKEN_FILE")
    if not token and not path:
        return None
    where = "$BALANCER_TOKEN" if token else "$BALANCER_TOKEN_FILE"
    try:
        found = (token or Path(path or "").read_text("utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} cannot be read: {error}") from error
    if not _TOKEN.fullmatch(found):
        raise ValueError(
            f"{where} holds no token: one line is expected, as `balancer token create` prints it"
        )
    return found


def of_environment(url: str, *, patience_s: float) -> Balancer:
    """The service, with the token, the name and the certificates of the environment. Raises ValueError."""
    return Balancer(
        url,
        token=environment_token(),
        name=os.environ.get("BALANCER_CLIENT"),
        ca_file=os.environ.get("BALANCER_CA_FILE"),
        patience_s=patience_s,
    )


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


class Refused(BalancerError):
    """The service says no, for good: another such call gets the same answer."""


class Unreachable(BalancerError):
    """No answer, after all retries."""


class Balancer:
    """One service. Wall times: `timeout_s` for one HTTP call, `patience_s` for all tries of it together.

    Not for use by several threads at once. `name`: whose the requests are where the service asks for no tokens.
    `ca_file`: the certificates to trust instead of the system's, for HTTPS.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        name: str | None = None,
        ca_file: str | None = None,
        timeout_s: float = 10.0,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self.patience_s = patience_s
        self._session = requests.Session()
        # A proxy from the environment has no business between a cluster's own services.
        self._session.trust_env = False
        self._session.verify = ca_file or True
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"
        if name is not None:
            self._session.headers["X-Balancer-Client"] = name
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
        lease_s: float | None = None,
        candidates: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        replace: bool = False,
        respond_async: bool = False,
        idempotency_key: str | None = None,
    ) -> Request:
        """Get nodes; blocks while the request waits, unless `respond_async`. Raises NotObtainable.

        `replace`: a granted node that fails leaves the grant (`lost`), and a request of its own gets another.
        It blocks by polling, so that a broken connection in between does no harm, and confirms the grant. An
        exception (also KeyboardInterrupt) leaves nothing behind, as far as the service can still be told.
        """
        body = _given(
            nodes=count,
            wait_s=wait_s,
            lease_s=lease_s,
            candidates=None if candidates is None else list(candidates),
            exclude=list(exclude) or None,
            replace=replace or None,
        )
        key = idempotency_key or str(uuid4())
        try:
            request = self._ask(body, key)
            if respond_async:
                return request
            return (
                self._confirmed(request) if request.state == "granted" else self.wait_for_request(request.id)
            )
        except (NotObtainable, Refused):
            raise
        except BaseException:
            self._leave_nothing(body, key)
            raise

    def _ask(self, body: Mapping[str, Any], key: str) -> Request:
        return request_of(self._post("/v1/request_nodes", body, key, {"Prefer": "respond-async"}))

    def _leave_nothing(self, body: Mapping[str, Any], key: str) -> None:
        """The same call with the same key names the request that was perhaps made; nobody wants it any more."""
        patience_s, self.patience_s = self.patience_s, _LAST_WORD_S
        try:
            request = self.withdraw_request(self._ask(body, key).id)
            if request.state == "granted" and request.ended_s is None:
                self.release_nodes(request.nodes)
        except BalancerError:
            return  # it is withdrawn, or its grant goes back, when its caller has not been heard of for a while
        finally:
            self.patience_s = patience_s

    def _confirmed(self, request: Request) -> Request:
        """Say that the answer has arrived. A service that needs no such word has counted it as confirmed."""
        return request if request.confirmed else self.confirm_request(request.id)

    def confirm_request(self, request_id: str) -> Request:
        """The nodes have arrived, and are kept. Raises NotObtainable when the grant has gone back meanwhile."""
        path = _path("/v1/requests/{request_id}/confirm", request_id)
        return request_of(self._call("POST", path, retry=True, json={}))

    def renew_lease(self, request_id: str, lease_s: float | None = None) -> Request:
        """Keep the nodes for `lease_s` from now on (None: as long as was asked for). Raises NotObtainable as above."""
        path = _path("/v1/requests/{request_id}/renew", request_id)
        return request_of(self._call("POST", path, retry=True, json=_given(lease_s=lease_s)))

    def wait_for_request(self, request_id: str) -> Request:
        """Block until the request is granted, and confirm that. Raises NotObtainable when it is not."""
        while True:
            request = self.request(request_id, wait_s=_LONG_POLL_S)
            if request.state == "granted":
                return self._confirmed(request)
            if request.state != "waiting":
                code = "balancer.not_obtainable" if request.state == "rejected" else "balancer.withdrawn"
                raise NotObtainable(409, code, request.reason or f"request {request.id} was {request.state}")
            # The service may be out of threads for waiting calls and answer at once.
            self._pause.wait(_PAUSES_S[0])

    def withdraw_request(self, request_id: str) -> Request:
        """Wait no longer; look at the state: it may have been granted meanwhile."""
        return request_of(self._call("DELETE", _path("/v1/requests/{request_id}", request_id), retry=True))

    def release_nodes(
        self,
        nodes: Sequence[str],
        *,
        generations: Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Give granted nodes back, all or none; with `generations` only if they have not changed since."""
        body = _given(nodes=list(nodes), generations=None if generations is None else dict(generations))
        self._post("/v1/release_nodes", body, idempotency_key)

    def adopt(self, reason: str) -> dict[str, Any]:
        """No other Balancer runs: this one takes over. Returns why it does not (`claimed`), and `quarantined` nodes."""
        return self._post("/v1/adopt", {"reason": reason}, None)

    def adopt_nodes(
        self, nodes: Sequence[str], pool: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> None:
        """Say whose QUARANTINED nodes are, all or none: `pool` is on-demand or batch. The reason stands in the log."""
        body = _given(nodes=list(nodes), pool=pool, reason=reason or None)
        self._post("/v1/adopt_nodes", body, idempotency_key)

    def quarantine_nodes(
        self, nodes: Sequence[str], reason: str, *, idempotency_key: str | None = None
    ) -> None:
        """Nobody may have these nodes, whatever state they are in, until `adopt_nodes` or the cloud says whose."""
        self._post("/v1/quarantine_nodes", {"nodes": list(nodes), "reason": reason}, idempotency_key)

    hold_nodes = quarantine_nodes
    """The old name, for this version."""

    def update_nodes(
        self,
        states: Mapping[str, str],
        *,
        job: str | None = None,
        remaining_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Report nodes `busy` or `idle`, all or none."""
        body = _given(states=dict(states), job=job, remaining_s=remaining_s)
        self._post("/v1/update_nodes", body, idempotency_key)

    def add_reserve(
        self,
        count: int,
        notice_s: float | None = None,
        *,
        keep_s: float | None = None,
        every: str | None = None,
        zone: str | None = None,
        exceptions: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Reserve:
        """Have `count` more nodes in reserve `notice_s` from now and for `keep_s` after it (else for I).

        With `every` ("Mon-Fri 20:00-06:00", by the clocks of `zone`) in each of its windows, but those that begin on
        one of the `exceptions`; they are collected `notice_s` before it.
        """
        body = _given(
            nodes=count,
            notice_s=notice_s,
            keep_s=keep_s,
            every=every,
            zone=zone,
            exceptions=list(exceptions) or None,
        )
        return reserve_of(self._post("/v1/add_reserve", body, idempotency_key))

    def withdraw_reserve(self, reserve_id: str) -> Reserve:
        """Want this reserve no longer, in none of its windows."""
        return reserve_of(self._call("DELETE", _path("/v1/reserves/{reserve_id}", reserve_id), retry=True))

    # Calls that only read

    def status(self) -> dict[str, Any]:
        """How the service stands: the body of `GET /v1/status`."""
        return self._get("/v1/status")

    def nodes(self) -> list[Node]:
        return [node_of(each) for each in self._all("/v1/nodes", "nodes")]

    def node(self, name: str) -> Node:
        return node_of(self._get(_path("/v1/nodes/{name}", name)))

    def request(self, request_id: str, *, wait_s: float = 0.0) -> Request:
        """How a request stands; waits up to `wait_s` of wall time for its decision."""
        path = _path("/v1/requests/{request_id}", request_id)
        params = _given(wait_s=wait_s or None)
        return request_of(self._get(path, params, timeout_s=self.timeout_s + wait_s))

    def requests(
        self,
        *,
        state: str | None = None,
        owner: str | None = None,
        overdue: bool = False,
        limit: int = 100,
    ) -> list[Request]:
        """The newest `limit` requests, newest first; `owner` "me": those of the caller."""
        params = _given(limit=limit, state=state, owner=owner, overdue="true" if overdue else None)
        return [request_of(each) for each in self._get("/v1/requests", params)["requests"]]

    def reserves(self) -> list[Reserve]:
        return [reserve_of(each) for each in self._all("/v1/reserves", "reserves")]

    def events(self, *, after: int = 0, limit: int = 1000) -> Iterator[LogEvent]:
        """All events with a number above `after`, oldest first, `limit` a call."""
        while True:
            page = self._get("/v1/events", {"after": after, "limit": limit})["events"]
            for each in page:
                yield event_of(each)
            if len(page) < limit:
                return
            after = page[-1]["seq"]

    def history(
        self, *, slot_s: float = 21_600.0, start_s: float | None = None, end_s: float | None = None
    ) -> list[HistorySlot]:
        """What was asked for, by slots of time."""
        params = _given(slot_s=slot_s, start=_iso_or_none(start_s), end=_iso_or_none(end_s))
        return [slot_of(each) for each in self._get("/v1/history", params)["slots"]]

    def usage(self, *, start_s: float | None = None, end_s: float | None = None) -> Usage:
        """Requests granted and rejected, and node-hours lent; by default in the last 7 days (`/v1/usage`)."""
        params = _given(start=_iso_or_none(start_s), end=_iso_or_none(end_s))
        return usage_of(self._get("/v1/usage", params))

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
        """Retries only what may be repeated: reads, and writes with a key or of which the last counts."""
        end_us = wall_us() + micros(self.patience_s if retry else 0)
        for attempt in counting():
            pause_s = _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
            is_last = wall_us() + micros(pause_s) >= end_us
            try:
                response = self._send(method, path, timeout=timeout_s or self.timeout_s, **more)
            except _UNSENDABLE as error:
                # Its own words would show a token.
                what = "a header" if isinstance(error, (InvalidHeader, UnicodeEncodeError)) else str(error)
                raise Refused(0, "balancer.invalid_request", f"the call cannot be sent: {what}") from error
            except requests.RequestException as error:
                if is_last:
                    detail = f"no answer from {self.url}: {_cause(error)}"
                    raise Unreachable(0, "balancer.unreachable", detail) from error
            else:
                if response.status_code not in _RETRY_STATUS or is_last:
                    return _checked(response)
            self._pause.wait(pause_s)
        raise AssertionError("the last attempt answers or raises")

    def _send(self, method: str, path: str, **more: Any) -> Response:
        """Asks again while an earlier copy of the call, whose answer was lost, is still under way in the service."""
        for pause_s in _PAUSES_IN_PROGRESS_S:
            response = self._session.request(method, self.url + path, **more)
            if response.status_code != HTTPStatus.CONFLICT or _problem(response).get("code") != _IN_PROGRESS:
                break
            self._pause.wait(pause_s)
        return response


def _given(**wishes: Any) -> dict[str, Any]:
    """Of a body or a query what somebody has said: None is left to the service."""
    return {name: value for name, value in wishes.items() if value is not None}


def _iso_or_none(at_s: float | None) -> str | None:
    return iso_or_none(micros_or_none(at_s))


def _path(template: str, name: str) -> str:
    """The path of one thing: whatever is in its name stays one part. Raises Refused."""
    if not name or name in {".", ".."}:
        raise Refused(0, "balancer.invalid_request", f"{name!r} names nothing")
    return _PARAMETER.sub(lambda _: quote(name, safe=""), template)


def _cause(error: BaseException) -> str:
    """The innermost reason: requests wraps it several times."""
    while True:
        reason = getattr(error, "reason", None)  # an error, or a word
        inner = next((each for each in (*error.args[:1], reason) if isinstance(each, BaseException)), None)
        if inner is None:
            break
        error = inner
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.verify_message}; trust its issuer with $BALANCER_CA_FILE (Python: ca_file)"
    if isinstance(error, ssl.SSLError) and reason:
        return f"TLS: {reason.lower().replace('_', ' ')}"
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
    kind: type[BalancerError] = BalancerError
    if code in _NOT_OBTAINABLE:
        kind = NotObtainable
    elif 400 <= response.status_code < 500 and response.status_code not in _RETRY_STATUS:  # noqa: PLR2004
        kind = Refused
    raise kind(response.status_code, code, detail, problem)
