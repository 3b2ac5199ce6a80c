"""When nodes fail and come back: models by chance, and outages that were recorded.

A model is a plug-in of the group `emulator.failures`. `Exponential` is that of hybrid-fan-2021 (section V-C), whose
mechanism has failures of its own by the same class.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from balancer.clock import NEVER_US, micros
from emulator.plugins import check_number
from emulator.workload.files import TraceError
from emulator.workload.local_times import in_zone, zone_of
from emulator.workload.outages import read_outages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

GROUP = "emulator.failures"
_LONGEST_S = 9_000_000_000


class Outage(NamedTuple):
    """The node with the index `node` is down from `begin_us` to `end_us` (NEVER_US: for good)."""

    begin_us: int
    end_us: int
    node: int


@runtime_checkable
class FailureModel(Protocol):
    """A frozen dataclass whose fields are its parameters, declared in the group above."""

    def outages(self, rng: np.random.Generator, node_names: Sequence[str]) -> Iterator[Outage]:
        """Outages in order of their begins, without end if it pleases. The same generator state gives the same."""


@dataclass(slots=True)
class Failures:
    """Failures of the system at exponential intervals of mean `mtbf_s`, each of a random node that is up.

    A node is down for an exponential time of mean `repair_s`. Nothing fails after `until_us`.
    """

    rng: np.random.Generator
    nodes: int
    mtbf_s: float
    repair_s: float
    until_us: int
    count: int = 0
    _next_us: int = 0
    _down: list[tuple[int, int]] = field(default_factory=list)
    _is_down: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._draw(0)

    @property
    def next_us(self) -> int:
        """The next failure or repair."""
        return min(self._next_us, self._down[0][0] if self._down else NEVER_US)

    def repaired(self, now_us: int) -> list[int]:
        """Nodes that are up again now."""
        nodes = []
        while self._down and self._down[0][0] <= now_us:
            nodes.append(heapq.heappop(self._down)[1])
        self._is_down.difference_update(nodes)
        return nodes

    def failed(self, now_us: int) -> int | None:
        """The node that fails now, if one does."""
        if self._next_us > now_us:
            return None
        self._draw(now_us)
        if len(self._is_down) == self.nodes:
            return None
        node = int(self.rng.integers(self.nodes))
        while node in self._is_down:
            node = int(self.rng.integers(self.nodes))
        back_us = now_us + max(1, micros(self.rng.exponential(self.repair_s)))
        heapq.heappush(self._down, (back_us, node))
        self._is_down.add(node)
        self.count += 1
        return node

    def down_until_us(self, node: int) -> int:
        """When a node that is down will be up again."""
        return next(back_us for back_us, which in self._down if which == node)

    def _draw(self, now_us: int) -> None:
        next_us = now_us + max(1, micros(self.rng.exponential(self.mtbf_s)))
        self._next_us = next_us if next_us <= self.until_us else NEVER_US


def all_to_come(failures: Failures) -> list[tuple[int, int, bool]]:
    """(time in us, node, whether it fails or is up again) of all that is to come, in order.

    Failures hang on nothing that jobs do.
    """
    found = []
    while (now_us := failures.next_us) != NEVER_US:
        found += [(now_us, node, False) for node in failures.repaired(now_us)]
        node = failures.failed(now_us)
        if node is not None:
            found.append((now_us, node, True))
    return found


@dataclass(frozen=True, slots=True)
class Exponential:
    """The failure model `exponential`: failures of the whole system at exponential intervals of mean `mtbf_s`.

    Each is of a random node that is up. It is down for an exponential time of mean `repair_s`.
    """

    mtbf_s: float
    repair_s: float = 21_600

    def __post_init__(self) -> None:
        check_number("exponential", "mtbf_s", self.mtbf_s, above=0, at_most=_LONGEST_S)
        check_number("exponential", "repair_s", self.repair_s, above=0, at_most=_LONGEST_S)

    def outages(self, rng: np.random.Generator, node_names: Sequence[str]) -> Iterator[Outage]:
        failures = Failures(rng, len(node_names), self.mtbf_s, self.repair_s, NEVER_US - 1)
        while True:
            now_us = failures.next_us
            failures.repaired(now_us)
            node = failures.failed(now_us)
            if node is not None:
                yield Outage(now_us, failures.down_until_us(node), node)


@dataclass(frozen=True, slots=True)
class Weibull:
    """The failure model `weibull`: each node fails after Weibull times of mean `node_mtbf_s` since it came back.

    `shape` below 1: the longer a node is up, the less it fails. Schroeder and Gibson (IEEE TDSC 7(4), 2010) found 0.7
    to 0.8 on machines of Los Alamos. Down times are exponential of mean `repair_s`.
    """

    node_mtbf_s: float
    shape: float = 0.7
    repair_s: float = 21_600

    def __post_init__(self) -> None:
        check_number("weibull", "node_mtbf_s", self.node_mtbf_s, above=0, at_most=_LONGEST_S)
        check_number("weibull", "shape", self.shape, at_least=0.1, at_most=10)
        check_number("weibull", "repair_s", self.repair_s, above=0, at_most=_LONGEST_S)

    def outages(self, rng: np.random.Generator, node_names: Sequence[str]) -> Iterator[Outage]:
        scale_s = self.node_mtbf_s / math.gamma(1 + 1 / self.shape)

        def after(now_us: int) -> int:
            return now_us + max(1, micros(min(scale_s * rng.weibull(self.shape), _LONGEST_S)))

        ahead = [(after(0), node) for node in range(len(node_names))]
        heapq.heapify(ahead)
        while True:
            begin_us, node = ahead[0]
            end_us = begin_us + max(1, micros(min(rng.exponential(self.repair_s), _LONGEST_S)))
            heapq.heapreplace(ahead, (after(end_us), node))
            yield Outage(begin_us, end_us, node)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The failure model `recorded`: outages from a file, `node,begin,end` or what Slurm's `sacctmgr show event` prints.

    `zero_unix_s` is the time of the file that is cluster time 0; what was over by then is passed over. `time_zone`:
    whose clock wrote times that say no offset from UTC.
    """

    trace: str
    zero_unix_s: float = 0
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.trace, str | Path):
            raise ValueError(f"recorded: trace must be the name of a file, not {self.trace!r}")  # noqa: TRY004 - a border: one kind of error
        check_number("recorded", "zero_unix_s", self.zero_unix_s, at_least=0, at_most=_LONGEST_S)
        if self.time_zone is not None:
            zone_of(self.time_zone)

    def outages(self, rng: np.random.Generator, node_names: Sequence[str]) -> Iterator[Outage]:  # noqa: ARG002
        place = {name: node for node, name in enumerate(node_names)}
        found = []
        with in_zone(self.time_zone) as zone:
            outages = read_outages(Path(self.trace), until_s=_LONGEST_S)
        if self.time_zone is not None and zone is not None and not zone.is_used:
            raise TraceError(f"{self.trace}: all its times say when they were; leave time_zone out")
        for name, spans in outages.items():
            if name not in place:
                raise TraceError(
                    f"{self.trace}: there is no node {name!r}; nodes are {node_names[0]} to {node_names[-1]}"
                )
            for begin_s, end_s in spans:
                end_us = NEVER_US if end_s >= _LONGEST_S else micros(end_s - self.zero_unix_s)
                begin_us = max(micros(begin_s - self.zero_unix_s), 0)
                if end_us > begin_us:
                    found.append(Outage(begin_us, end_us, place[name]))
        yield from sorted(found)
