"""The file that a live run's clock is: where what stands, and who has a place at it. See `shared_clock.py`."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority

# The file: a header and one slot per process, all native 64-bit integers. Aligned 8-byte stores are atomic on every
# machine we run on, and each field has one writer: the header the master, a slot its owner. Whether the owner
# lives, a lock on the file CLOCK.slotN says: also between containers, where process numbers mean nothing.
# A limit is one integer, time and rank together, so that it is written and compared in one step.
MAGIC = 0x31_4B_43_4F_4C_43_45_42  # "BECLOCK1"
# The words are read and written through a memoryview of native integers, which is one store each; `struct` is
# not: it clears the bytes and then sets them one by one, and a reader in between sees the clock at 0.
MAGIC_AT, NOW_AT, SPEED_AT, STOPPED_AT, HELD_AT, FOLLOWS_AT, HEADER = 0, 1, 2, 3, 4, 5, 8
SLOT = 2
"""Words of a slot: whether it is taken (0: no, 1: yes, -1: yes, but nobody waits for it now), and its limit."""
EXPECTED, EXCUSED = 1, -1
SLOTS = 32
POLL_S = 0.0004
RANK_BITS = max(EventPriority).bit_length()


def limit_of(due_us: int, rank: int) -> int:
    return min(due_us, NEVER_US >> RANK_BITS) << RANK_BITS | rank


NO_LIMIT = limit_of(NEVER_US, max(EventPriority))


def places_in(words: memoryview[int]) -> tuple[int, ...]:
    return tuple(range(HEADER, len(words) - SLOT + 1, SLOT))


def slot_file(path: Path, slot: int) -> str:
    return f"{path}.slot{slot}"


def try_lock(name: str) -> int | None:
    """Open and lock a slot's file; None while a living process has it. It is freed when the descriptor closes."""
    file = os.open(name, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


@dataclass(frozen=True, slots=True)
class Party:
    """Who has a place at a clock. `name`: what it calls itself; '' if it has not said."""

    host: str
    name: str

    def __str__(self) -> str:
        return self.name or f"a process on {self.host}"

    @classmethod
    def at(cls, name: str) -> Party:
        """Who has told this slot's file that the place is its own."""
        try:
            host, _, itself = Path(name).read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            return cls("", "")
        return cls(host, itself)


def sign(file: int, name: str, host: str = "") -> None:
    """Write down in a slot's open file who has the place now; `host`: this one, if nothing is said."""
    os.ftruncate(file, 0)
    os.write(file, f"{host or socket.gethostname()}\n{name}".encode())


def words_of(path: Path, file: int) -> memoryview[int]:
    """A clock file as native 64-bit integers."""
    try:
        words = memoryview(mmap.mmap(file, 0)).cast("q")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a clock file") from error
    if len(words) <= HEADER or words[MAGIC_AT] != MAGIC:
        raise ValueError(f"{path} is not a clock file")
    return words


def words_in(path: Path) -> memoryview[int]:
    """The words of a clock file. Raises ValueError for a file that is none."""
    try:
        with path.open("r+b") as file:
            return words_of(path, file.fileno())
    except OSError as error:
        raise ValueError(f"there is no clock {path}: {error.strerror}") from error
