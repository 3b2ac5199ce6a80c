"""The disk of an SQLite ledger: local, as shared memory and honest locks need it, and with room."""

from __future__ import annotations

import os
from pathlib import Path

from balancer.ledger.errors import LedgerError

_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "fuse.glusterfs",
        "9p",
        "afs",
    }
)

_FREE_BYTES = 1 << 20
"""A disk with less room than this is full: the next write would fail."""


class NotLocalError(LedgerError):
    """The ledger's folder is on a network file system."""


def file_system_of(folder: Path, mounts: str) -> str:
    """The type of the file system `folder` is on; `mounts` is the text of /proc/self/mounts."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, point, this_kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, this_kind
    return kind


def check_is_local(folder: Path) -> None:
    """Raises NotLocalError; where the system does not list its mounts there is nothing to check."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return
    kind = file_system_of(folder.resolve(), mounts.read_text(encoding="utf-8"))
    if kind in _NETWORK:
        raise NotLocalError(
            f"{folder} is on {kind}, where SQLite may lose what it stored; put the ledger on a local disk"
        )


def check_has_room(ledger: Path) -> None:
    """Raises LedgerError for a disk that is full."""
    if (left := free_bytes(ledger)) < _FREE_BYTES:
        raise LedgerError(f"the disk of {ledger} is full ({left} bytes are free)")


def free_bytes(ledger: Path) -> int:
    """What the ledger's owner may still write to its disk. Raises OSError."""
    disk = os.statvfs(ledger.parent)
    return disk.f_bavail * disk.f_frsize
