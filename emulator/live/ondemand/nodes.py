"""Where an on-demand manager gets its nodes from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol

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
