"""A batch driver: how the Balancer talks to a batch system. Commands may be repeated, and take many nodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from balancer.drivers.base import UNKNOWN, NodeState, NodeStatus, UnreachableError

STATES: Mapping[str, NodeState] = {"idle": "idle", "busy": "busy", "offline": "offline"}


@dataclass(frozen=True, slots=True)
class FolderDriver:
    """A batch system that is a folder: a file a node, which holds the word `idle`, `busy` or `offline`."""

    folder: Path

    name: ClassVar[str] = "folder"

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        # A job that has started meanwhile is left alone: its node stays busy, and the Balancer reads that.
        states = self.get_status_of_nodes(nodes)
        self._write([node for node in nodes if states[node].state == "idle"], "offline")

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        self._write(nodes, "idle")

    def get_status_of_nodes(self, nodes: Iterable[str]) -> Mapping[str, NodeStatus]:
        found = self.get_status_of_all_nodes()
        return {node: found.get(node, UNKNOWN) for node in nodes}

    def get_status_of_all_nodes(self) -> Mapping[str, NodeStatus]:
        try:
            words = {file.name: file.read_text(encoding="utf-8").strip() for file in self.folder.iterdir()}
        except OSError as error:
            raise UnreachableError(f"{self.folder}: {error.strerror}") from error
        return {
            node: NodeStatus(STATES.get(word, "unknown"), marked=word == "offline")
            for node, word in words.items()
        }

    def _write(self, nodes: Sequence[str], word: str) -> None:
        for node in nodes:
            if (self.folder / node).exists():
                (self.folder / node).write_text(word, encoding="utf-8")
