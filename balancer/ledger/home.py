"""The lock file beside an SQLite ledger: one service at a time, and whether the ledger is the file that it left.

A copy, on a cloned machine say, may be another's. The lock ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import structlog

from balancer.clock import micros, wall_us
from balancer.ledger.errors import LedgerError
from balancer.ledger.filesystem import check_is_local

_log = structlog.get_logger()

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = b"-"
"""A unit may hide the kernel's files (`ProcSubset=pid`)."""

_ELSEWHERE = b"elsewhere\n"


def lock(path: Path, wait_s: float) -> int:
    """The open lock file beside the ledger `path`. Raises LedgerError."""
    if not path.parent.is_dir():
        raise LedgerError(f"the folder {path.parent} of the ledger does not exist; make it first")
    check_is_local(path.parent)
    # The lock is a file of its own because SQLite's locks would be lost when any descriptor is closed.
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be written: {error.strerror}") from error
    # A killed service's worker may need a moment to notice; wait for it instead of failing.
    limit_us, pause = wall_us() + micros(wait_s), threading.Event()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if wall_us() < limit_us:
                pause.wait(0.05)
                continue
            os.close(descriptor)
            raise LedgerError(
                f"another Balancer uses the ledger {path}: stop it, or choose another --db"
            ) from None
        return descriptor


def is_left_here(ledger: Path) -> bool:
    """Whether a service had this very file, in this boot of the machine, and was the only one of its ledger.

    An empty lock file is of a release that noted nothing there. To be asked before the lock is taken, which makes it.
    """
    try:
        noted = Path(f"{ledger}.lock").read_bytes()
        here = _here(ledger)
    except OSError:
        return False
    (boot, *file), (boot_here, *file_here) = noted.split() or here.split(), here.split()
    return file == file_here and (boot == boot_here or _UNKNOWN in (boot, boot_here))


class Home:
    """What the lock file says of the ledger beside it. `lock_fd`: the lock, which this process holds."""

    def __init__(self, lock_fd: int, ledger: Path, *, is_left: bool) -> None:
        self._lock_fd = lock_fd
        self._ledger = ledger
        self.is_left = is_left
        self._write(_here(ledger) if is_left else _ELSEWHERE)

    def take(self) -> None:
        """No other service has a copy, as far as can be known."""
        if not self.is_left:
            self.is_left = True
            self._write(_here(self._ledger))

    def leave(self) -> None:
        """Another service has a copy: the next start must find out which of the two goes on."""
        if self.is_left:
            self.is_left = False
            self._write(_ELSEWHERE)

    def _write(self, text: bytes) -> None:
        """A failure is logged, and stops nothing."""
        try:
            if os.pread(self._lock_fd, 4096, 0) == text:
                return
            os.ftruncate(self._lock_fd, 0)
            os.pwrite(self._lock_fd, text, 0)
        except OSError as error:
            _log.warning("where the ledger is could not be noted in its lock file", error=str(error))


def _here(ledger: Path) -> bytes:
    boot = _BOOT.read_bytes().strip() if _BOOT.exists() else _UNKNOWN
    found = ledger.stat()
    return b"%b %d %d\n" % (boot, found.st_dev, found.st_ino)
