"""One service at a time on a file: a lock that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import threading
from typing import TYPE_CHECKING

from balancer.clock import micros, wall_us
from balancer.ledger.errors import LedgerError
from balancer.ledger.filesystem import check_is_local

if TYPE_CHECKING:
    from pathlib import Path


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
