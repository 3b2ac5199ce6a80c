"""The files of an SQLite ledger: who may read them, and whether they are still the ones that were opened.

Beside them is a note of the newest event, by which a lost tail or another file is found at the next start.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import structlog

from balancer.ledger.chain import seal
from balancer.ledger.errors import LedgerError, ReplacedError

_log = structlog.get_logger()

_OTHERS = 0o007


def protect(path: Path) -> None:
    """Make the file if there is none, for its owner alone; nobody but owner and group may read one that is there."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if each.exists() and each.stat().st_mode & _OTHERS:
                each.chmod(each.stat().st_mode & 0o770)
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be written: {error.strerror}") from error


class Watch:
    """Whether the files at these paths are still those that SQLite has open. It would go on writing to removed ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = {name: _identity(name) for name in (str(path), f"{path}-wal")}

    def check(self) -> None:
        """Raises ReplacedError."""
        for name, opened in self._files.items():
            found = _identity(name)
            if found != opened:
                what = "is gone" if found is None else "is another file than the one that was opened"
                raise ReplacedError(
                    f"{name} {what}: nothing is stored any more; put the ledger back and restart the Balancer"
                )


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - twice a commit, and twice as fast
    except OSError:
        return None
    return found.st_dev, found.st_ino


@dataclass(frozen=True, slots=True)
class Head:
    """The newest event of a ledger, as far as is known."""

    ledger_id: str
    seq: int
    digest: str


class HeadFile:
    """`LEDGER.head`, rewritten after each commit. Not synced: after a power cut it may be older, never newer."""

    def __init__(self, path: Path) -> None:
        self.path = Path(f"{path}.head")
        self._fd: int | None = None

    def read(self) -> Head | None:
        """None: there is none, or it cannot be read."""
        try:
            ledger_id, seq, digest, check = self.path.read_text(encoding="ascii").split()
            if check == seal((ledger_id, seq, digest)):
                return Head(ledger_id, int(seq), digest)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            pass
        _log.warning(
            "the note of the ledger's newest event cannot be read; it is written again", file=str(self.path)
        )
        return None

    def write(self, head: Head) -> None:
        """A failure is logged: without it less is noticed at the next start, and nothing is lost."""
        values = (head.ledger_id, str(head.seq), head.digest)
        line = f"{' '.join((*values, seal(values)))}\n".encode().rjust(96)
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._fd, line, 0)
        except OSError as error:
            _log.warning("the newest event could not be noted beside the ledger", error=str(error))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
