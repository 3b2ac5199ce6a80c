"""How far a live run has come, by the logs that its processes write. Each line is read once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from emulator.live.replay_log import partial_path

if TYPE_CHECKING:
    from pathlib import Path


class Tail:
    """The lines that were appended to a file since the last look; a line without its end waits."""

    def __init__(self) -> None:
        self._offset = 0

    def lines(self, path: Path) -> list[bytes]:
        """New lines of `path`: the same file at each call, though its name may change. No file: no lines."""
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                found = file.read()
        except FileNotFoundError:
            return []
        whole = found[: found.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


class Counts:
    """Batch jobs that are over, and what became of requests and submits so far."""

    def __init__(self, batch_home: Path, replay_log: Path) -> None:
        self._accounting = batch_home / "server_priv" / "accounting"
        self._replay_log = replay_log
        self._replay_tail = Tail()
        self._day = ""
        self._day_tail = Tail()
        self.ended = 0
        self.granted = 0
        self.rejected = 0
        self.failed = 0
        """Jobs that could not be submitted."""

    def look(self) -> None:
        """Read what is new."""
        self.look_at_accounting()
        log = self._replay_log if self._replay_log.exists() else partial_path(self._replay_log)
        for line in self._replay_tail.lines(log):
            event = json.loads(line)["event"]
            self.granted += event == "lease_granted"
            self.rejected += event == "lease_rejected"
            self.failed += event == "submit_failed"

    def look_at_accounting(self) -> None:
        """One file a day (YYYYMMDD): earlier ones than the newest do not grow any more."""
        days = sorted(path.name for path in self._accounting.glob("*"))
        for day in days:
            if day < self._day:
                continue
            if day > self._day:
                self._day, self._day_tail = day, Tail()
            for line in self._day_tail.lines(self._accounting / day):
                self.ended += line.split(b";", 2)[1] in {b"E", b"D"}
