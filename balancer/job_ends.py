"""When the jobs that hooks reported must have ended, by the wall time that they were given."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class JobEnds:
    """Latest end of each job on each node. Kept since the start of the service. Methods from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends_us: dict[str, dict[str, int]] = {}

    def started(self, nodes: Iterable[str], job: str, end_us: int, now_us: int) -> None:
        """`job` runs on these nodes until `end_us` at most. Ends that have passed are dropped."""
        with self._lock:
            for node in nodes:
                pending = {
                    each: at_us for each, at_us in self._ends_us.get(node, {}).items() if at_us > now_us
                }
                self._ends_us[node] = pending | {job: end_us}

    def ended(self, nodes: Iterable[str], job: str) -> None:
        with self._lock:
            for node in nodes:
                self._ends_us.get(node, {}).pop(job, None)

    def latest_us(self, node: str, jobs: Sequence[str]) -> int | None:
        """When the last of these jobs must have ended; None: of one or all it is not known."""
        with self._lock:
            known = self._ends_us.get(node, {})
            ends = [known.get(job) for job in jobs]
        found = [end_us for end_us in ends if end_us is not None]
        return max(found) if found and len(found) == len(ends) else None
