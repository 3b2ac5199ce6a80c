"""Where the manager's nodes come from: a fixed pool, or the Balancer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Protocol

import requests

from balancer.clock import seconds
from balancer.timestamps import parse_iso

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Granted:
    """The nodes are the manager's; `decided_us` is when they became so (None: just now)."""

    nodes: tuple[str, ...]
    decided_us: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not decided yet; ask `poll(request_id)`."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """There will be no nodes for this request."""

    reason: str


Answer = Granted | Waiting | Refused


class SourceUnreachableError(Exception):
    """The source did not answer: whether it did what was asked is unknown."""


class SourceRefusedError(Exception):
    """The source did not do what was asked, and will not; the text is its own."""


class NodeSource(Protocol):
    """Gives and takes whole nodes. Every call may raise SourceUnreachableError.

    A call with the same `key` again is the same call: it is done once and answered twice.
    """

    def request(self, count: int, key: str, exclude: tuple[str, ...] = ()) -> Answer:
        """Ask for `count` nodes, all or none, and none of those to be excluded."""

    def ask_for_fewer(self, request_id: str, count: int, key: str, exclude: tuple[str, ...] = ()) -> Answer:
        """In the place of a request that waits, ask for `count` nodes for the rest of its wait.

        A request that is decided already stays, and is the answer.
        """

    def poll(self, request_id: str, wait_s: float) -> Answer:
        """What became of a waiting request; blocks up to `wait_s` wall seconds for news."""

    def withdraw(self, request_id: str) -> None:
        """Nobody waits for this request any more. Nothing happens if it is decided already."""

    def release(self, nodes: tuple[str, ...], key: str) -> None:
        """Give nodes back; raises SourceRefusedError if they are not the manager's."""


class FixedPool:
    """Dedicated nodes: a static partition of the machine (balancer-liu-2018, the baseline of Table I).

    The node that has been idle the longest goes first; a request that cannot be met now is refused.
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        self._idle = deque(nodes)
        self._lent: set[str] = set()
        self._answers: dict[str, Answer] = {}
        self._lock = Lock()

    def request(self, count: int, key: str, exclude: tuple[str, ...] = ()) -> Answer:
        with self._lock:
            if key not in self._answers:
                self._answers[key] = self._take(count, exclude)
            return self._answers[key]

    def _take(self, count: int, exclude: tuple[str, ...]) -> Answer:
        idle = [node for node in self._idle if node not in exclude]
        if count > len(idle):
            return Refused(f"{count} nodes wanted, {len(idle)} of the dedicated nodes are idle")
        nodes = tuple(idle[:count])
        for node in nodes:
            self._idle.remove(node)
        self._lent.update(nodes)
        return Granted(nodes)

    def ask_for_fewer(self, request_id: str, count: int, key: str, exclude: tuple[str, ...] = ()) -> Answer:
        raise ValueError(
            f"no request waits at a fixed pool: {request_id} ({key}: {count}, not {exclude}) is none"
        )

    def poll(self, request_id: str, wait_s: float) -> Answer:
        raise ValueError(f"no request waits at a fixed pool, {request_id} ({wait_s} s) neither")

    def withdraw(self, request_id: str) -> None:
        """No request waits here."""

    def release(self, nodes: tuple[str, ...], key: str) -> None:  # noqa: ARG002 - its answers are never lost
        with self._lock:
            strangers = [node for node in nodes if node not in self._lent]
            if strangers:
                raise SourceRefusedError(f"not given by this pool: {', '.join(strangers)}")
            self._lent.difference_update(nodes)
            self._idle.extend(nodes)


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
        """The request as the Balancer has it, confirmed if it is granted. Raises SourceUnreachableError."""
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
