"""What the cloud makes of the Balancer's grants, in virtual time: servers take time to start and to go, and may fail.

The same as the on-demand manager of a live run does (`emulator.live.ondemand`) together with the replayer, its user.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING

from balancer.clock import US
from emulator.config.cloud_faults import CloudFaults

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_LOOK_US = US
"""A user does not look at a lease that is not there yet more often than this (the replayer's `poll_s`)."""


class ServerEvent(IntEnum):
    """What is due. At one time nodes come free before anything begins on them."""

    FREE = 0
    GIVE_UP = 1
    START = 2


@dataclass(frozen=True, slots=True, order=True)
class Due:
    at_us: int
    event: ServerEvent
    order: int
    job: int = field(compare=False)
    nodes: tuple[int, ...] = field(compare=False)


@dataclass(slots=True)
class LeaseCloud:
    """Deeds to come. `boot_us`: from grant to the lease's beginning; `delete_us`: from its end to its nodes' return."""

    names: tuple[str, ...]
    boot_us: int = 0
    delete_us: int = 0
    faults: CloudFaults = field(default_factory=CloudFaults)
    _due: list[Due] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)

    @property
    def is_instant(self) -> bool:
        """A lease begins the moment it is granted."""
        return not self.boot_us and not self.faults.steps

    @property
    def next_us(self) -> int | None:
        return self._due[0].at_us if self._due else None

    def down(self, now_us: int) -> tuple[str, ...]:
        """Nodes that are not asked for now."""
        return tuple(sorted(self.faults.down(now_us))) if self.faults.steps else ()

    def granted(self, now_us: int, job: int, nodes: Sequence[int], look_us: tuple[int, int, int]) -> None:
        """A lease has its nodes. `look_us`: when its user asked, how often he looks, and until when he waits."""
        ready_us = now_us + self.boot_us
        failed = tuple(node for node in nodes if self.faults.boot_fails(self.names[node], now_us))
        if not failed:
            self._add(ready_us, ServerEvent.START, job, nodes)
            return
        self._add(ready_us, ServerEvent.FREE, job, failed)
        seen_us = seen_at(ready_us, *look_us)
        self._add(seen_us, ServerEvent.GIVE_UP, job, ())
        left = tuple(node for node in nodes if node not in failed)
        if left:
            self._add(seen_us + self.delete_us, ServerEvent.FREE, job, left)

    def ended(self, now_us: int, job: int, nodes: Sequence[int]) -> None:
        self._add(now_us + self.delete_us, ServerEvent.FREE, job, nodes)

    def pop(self, now_us: int) -> Due | None:
        """What is to be done now, one at a time."""
        return heapq.heappop(self._due) if self._due and self._due[0].at_us <= now_us else None

    def _add(self, at_us: int, event: ServerEvent, job: int, nodes: Sequence[int]) -> None:
        heapq.heappush(self._due, Due(at_us, event, next(self._order), job, tuple(nodes)))


def seen_at(failed_us: int, asked_us: int, pause_us: int, deadline_us: int) -> int:
    """When a user sees what became so at `failed_us`: he looks when he has asked, every pause, and at the deadline.

    At the time of asking itself he looks when everything else of that time is done.
    """
    if failed_us <= asked_us:
        return asked_us + 1
    since_us = asked_us if failed_us <= deadline_us else max(asked_us, deadline_us)
    looked_us = since_us - (since_us - failed_us) // pause_us * pause_us
    return min(looked_us, deadline_us) if failed_us <= deadline_us else looked_us
