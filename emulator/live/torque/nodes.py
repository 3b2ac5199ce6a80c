"""Nodes of a Torque server: what pbsnodes prints of one, which there are, and what is remembered across a restart."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from balancer.whole_file import write_text
from emulator.live.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from emulator.live.torque.config import ServerConfig


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node said of itself when it registered."""

    address: str
    cores: int
    memory_kib: int


@dataclass(slots=True)
class Node:
    """`seen_us`: when an agent last reported for it (-1: never). `down_until_us`: set by `pbsnodes -r`."""

    name: str
    index: int
    np: int
    offline: bool = False
    note: str = ""
    down: bool = True
    seen_us: int = -1
    pooled: bool = False
    """What the cluster was last told: the scheduler may use the node."""
    jobs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of the jobs that run on it, and the slots that each has."""
    facts: NodeFacts | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """In Torque's fixed order; empty for a free node (a node with free slots is one, even with a job)."""
        full = bool(self.jobs) and sum(map(len, self.jobs.values())) >= self.np
        return (
            *(["down"] if self.down else []),
            *(["offline"] if self.offline else []),
            *(["job-exclusive"] if full else []),
        )

    @property
    def state(self) -> str:
        return ",".join(self.states) or "free"

    @property
    def usable(self) -> bool:
        return not (self.down or self.offline)


def slots_text(slots: Sequence[int]) -> str:
    """Slots in ascending order as in exec_host: `0`, `0-1`, `0-1,3`."""
    begins = [0, *(place for place, (slot, next_) in enumerate(pairwise(slots), 1) if next_ != slot + 1)]
    parts = [slots[begin:end] for begin, end in pairwise([*begins, len(slots)])]
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


LISTS = ("all", "active", "busy", "down", "free", "job-exclusive", "offline", "up")


def is_listed(node: Node, which: str | None) -> bool:
    """Whether `pbsnodes -l [which]` lists the node; None: only what is wrong."""
    states = node.states
    match which:
        case None:
            return "down" in states or "offline" in states
        case "all":
            return True
        case "free":
            return not states
        case "active":
            return "job-exclusive" in states
        case "up":
            return node.usable
        case _:
            return which in states


# Which there are.


class Enrolment:
    """Which nodes there are: those of the settings, those of a former life, or the first that register.

    Nodes are numbered by the order of their names, n2 before n10, whoever comes first.
    """

    def __init__(self, config: ServerConfig, path: Path) -> None:
        self._path = path
        self._expected = len(config.nodes) or config.expect_nodes
        self._changed = threading.Condition()
        self._stopping = False
        self.names = config.nodes
        if not self.names and path.exists():
            self.names = tuple(path.read_text(encoding="utf-8").split())
        self._known = set(self.names)
        self.missing: tuple[str, ...] = ()
        """Nodes that somebody has counted in though they have not registered."""
        self.opened = threading.Event()

    def progress(self) -> tuple[list[str], int]:
        with self._changed:
            return sorted(self._known, key=_natural), self._expected

    def story(self) -> str:
        return (
            f"{len(self._known)} of {self._expected} nodes have registered; the server waits for the others"
        )

    def enrol(self, names: Sequence[str]) -> bool:
        """Take note of a registration; returns when the server is open for it, False when it ends instead."""
        with self._changed:
            self._add(names)
        self.opened.wait()
        return not self._stopping

    def count_in(self, missing: Sequence[str]) -> None:
        """Wait no longer: these nodes are down until they register."""
        with self._changed:
            self.missing = tuple(sorted(set(missing) - self._known, key=_natural))
            self._add(missing)

    def _add(self, names: Sequence[str]) -> None:
        if not self.names:
            self._known.update(names)
            if len(self._known) >= self._expected:
                # As real Torque's server_priv/nodes: known from now on, whoever is up.
                self.names = tuple(sorted(self._known, key=_natural))
                write_text(self._path, "\n".join(self.names) + "\n")
            self._changed.notify_all()

    def wait(self) -> bool:
        """Until the nodes are known; False when the server ends before."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self.names) or self._stopping)
            return not self._stopping

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self.opened.set()


def _natural(name: str) -> tuple[list[int], str]:
    return [int(digits) for digits in re.findall(r"\d+", name)], name


# What is remembered across a restart: offline marks, notes and the next job number.


class MarksFile:
    """A small JSON file, replaced as a whole, so that a crash leaves the old one or the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.muted = False
        """Nothing is written, because it has been before (a server is being rebuilt)."""
        self.next_number = 0
        self.nodes: dict[str, tuple[bool, str]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.next_number = int(found["next_number"])
            self.nodes = {
                str(name): (bool(mark["offline"]), str(mark["note"])) for name, mark in found["nodes"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(
                f"{self._path}: not a file of marks ({error!r}); repair it, or delete it to start with none"
            ) from error

    def save(self, next_number: int, nodes: Iterable[Node]) -> None:
        if self.muted:
            return
        marked = {n.name: {"offline": n.offline, "note": n.note} for n in nodes if n.offline or n.note}
        write_text(self._path, json.dumps({"next_number": next_number, "nodes": marked}))
