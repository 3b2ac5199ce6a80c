"""What the server remembers across a restart: offline marks, notes and the next job number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from balancer.whole_file import write_text
from emulator.live.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from emulator.live.torque.nodes import Node


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
