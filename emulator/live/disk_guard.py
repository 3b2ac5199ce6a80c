"""Room where a run's processes write: one that fills it ends with a reason, and what it has is still written down."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LEAST_BYTES = 16 << 20
_BALLAST_BYTES = 1 << 20
_SHARE = 16
"""Of a volume that is smaller than 256 MiB this part is kept free instead."""
_MIB = 1 << 20


class DiskGuard:
    """The file system of a folder. Its ballast is a file that is given up at the end, so that others can write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"

    def reserve(self) -> None:
        """Raises OSError where there is not even room for the ballast."""
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, min(_BALLAST_BYTES, self._total // _SHARE))

    def release(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _total(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_blocks * found.f_frsize

    def shortage(self) -> str:
        """Why nobody can go on writing there, '' as long as everybody can."""
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        if free >= min(_LEAST_BYTES, self._total // _SHARE):
            return ""
        return (
            f"the volume of {self._folder} is full: {free / _MIB:.1f} MiB of "
            f"{self._total / _MIB:.0f} MiB are free; make room, then start the run again"
        )


def is_full(error: OSError) -> bool:
    return error.errno in {errno.ENOSPC, errno.EDQUOT}
