"""Which nodes a batch server has, and that it waits for them."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from emulator.live.torque.config import ServerConfig


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
