"""A faster clock for programs that know nothing of it: libfaketime, with one start for all processes of a run.

libfaketime counts from the start of the process, or, where `FAKETIME_SHARED` names a semaphore and a piece of shared
memory, from the start that the first process left there. Its wrapper `faketime` makes those two and its children
inherit them; here they are made for processes that are started one by one, and read, so that others can tell the
same time without being preloaded. The rate is fixed: a process reads it once.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from balancer.clock import US, utc_us

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIBRARY = "libfaketimeMT.so.1"
_FOLDERS = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")
_SHM = Path("/dev/shm")  # noqa: S108 - where glibc keeps both
# `struct ft_shared_s`: ticks, place in a file, then start by four clocks as (s, ns); ns of -1: nobody has begun.
_LAYOUT = struct.Struct("=16q")
_NEW = (0, 0, *(0, -1) * 7)
_REAL_S, _REAL_NS = 2, 3


class FakeTimeError(ValueError):
    """There is no libfaketime here."""


def find_library(library: Path | None = None, root: Path | None = None) -> Path:
    """Libfaketime for programs with threads, as those of `root` (or this machine) see it. Raises FakeTimeError."""
    top = root or Path("/")
    if library is not None:
        if not library.is_file():
            raise FakeTimeError(f"{library} is no file")
        return library
    for folder in _FOLDERS:
        for path in sorted(top.glob(f"{folder[1:]}/{_LIBRARY}")):
            return Path("/") / path.relative_to(top)
    if root is not None:
        raise FakeTimeError(f"root: {root} has no {_LIBRARY}; scripts/slurm-root makes such a root")
    raise FakeTimeError(f"{_LIBRARY} is not installed; on Debian: apt-get install libfaketime")


class FakeTime:
    """Time that begins at `epoch_s` (unix) with the first process that has `environ`, `speed` times as fast."""

    def __init__(self, library: Path, speed: float, epoch_s: int, *, for_all_users: bool = False) -> None:
        self.speed = speed
        self.epoch_s = epoch_s
        name = f"emulator-{uuid4().hex}"
        self.files = (_SHM / f"sem.{name}-sem", _SHM / f"{name}-shm")
        mode = 0o666 if for_all_users else 0o600
        _make_semaphore(f"/{name}-sem", mode)
        self.files[1].write_bytes(_LAYOUT.pack(*_NEW))
        for path in self.files:
            path.chmod(mode)
        self.environ: Mapping[str, str] = {
            "TZ": "UTC",
            "LD_PRELOAD": str(library),
            "FAKETIME": f"@{_date(epoch_s)} x{speed:.12g}",
            "FAKETIME_SHARED": f"/{name}-sem /{name}-shm",
            "FAKETIME_DONT_RESET": "1",  # else each process begins at the epoch
        }

    @property
    def has_begun(self) -> bool:
        return self._start_us() is not None

    def now_us(self) -> int:
        """What a preloaded program gets from time(), in us. Only when a first one `has_begun`."""
        start_us = self._start_us()
        if start_us is None:
            raise RuntimeError("no process lives in this time yet")
        return self.epoch_s * US + round((utc_us() - start_us) * self.speed)

    def _start_us(self) -> int | None:
        words = _LAYOUT.unpack(self.files[1].read_bytes()[: _LAYOUT.size])
        return None if words[_REAL_NS] < 0 else words[_REAL_S] * US + words[_REAL_NS] // 1000

    def close(self) -> None:
        for path in self.files:
            path.unlink(missing_ok=True)


def _date(epoch_s: int) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 - formats a given time, reads none

    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _make_semaphore(name: str, mode: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sem_open.restype = ctypes.c_void_p
    made = libc.sem_open(name.encode(), os.O_CREAT | os.O_EXCL, ctypes.c_uint(mode), ctypes.c_uint(1))
    if not made:
        error = ctypes.get_errno()
        raise OSError(error, f"no semaphore {name}: {os.strerror(error)}")
    libc.sem_close(ctypes.c_void_p(made))
