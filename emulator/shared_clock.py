"""The clock of a live run: a file that one process paces (`SharedClockMaster`) and every process reads.

Time runs `speed` times faster than life and may stand still while somebody still has work that is due: *the clock does
not pass the time an alarm is set to until the alarm is moved*. Among the alarms that are due at the same time the one
with the lower `Rank` goes first, which makes the order of events the same as in virtual time. To the Balancer it is a
plug-in (`balancer serve --clock`, entry point `shared`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import threading
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from balancer.clock import NEVER_US, US, micros, seconds, wall_us
from emulator.ranks import Rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from balancer.clock import Alarm, Clock

# The file: a header and one slot per process, all native 64-bit integers. Aligned 8-byte stores are atomic on every
# machine we run on, and each field has one writer: the header the master, a slot its owner. Whether the owner
# lives, a lock on the file CLOCK.slotN says: also between containers, where process numbers mean nothing.
# A limit is one integer, time and rank together, so that it is written and compared in one step.
_MAGIC = 0x31_4B_43_4F_4C_43_45_42  # "BECLOCK1"
# The words are read and written through a memoryview of native integers, which is one store each; `struct` is
# not: it clears the bytes and then sets them one by one, and a reader in between sees the clock at 0.
_MAGIC_AT, _NOW_AT, _SPEED_AT, _STOPPED_AT, _HELD_AT, _HEADER = 0, 1, 2, 3, 4, 8
_SLOT = 2
"""Words of a slot: whether it is taken (0: no, 1: yes, -1: yes, but nobody waits for it now), and its limit."""
_EXPECTED, _EXCUSED = 1, -1
_SLOTS = 32
_POLL_S = 0.0004
_RANK_BITS = max(Rank).bit_length()


def _limit(due_us: int, rank: int) -> int:
    return min(due_us, NEVER_US >> _RANK_BITS) << _RANK_BITS | rank


_NO_LIMIT = _limit(NEVER_US, max(Rank))


def _places(words: memoryview[int]) -> tuple[int, ...]:
    return tuple(range(_HEADER, len(words) - _SLOT + 1, _SLOT))


def _slot_file(path: Path, slot: int) -> str:
    return f"{path}.slot{slot}"


def _try_lock(name: str) -> int | None:
    """Open and lock a slot's file; None while a living process has it. It is freed when the descriptor closes."""
    file = os.open(name, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _words_of(path: Path, file: int) -> memoryview[int]:
    """A clock file as native 64-bit integers."""
    try:
        words = memoryview(mmap.mmap(file, 0)).cast("q")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a clock file") from error
    if len(words) <= _HEADER or words[_MAGIC_AT] != _MAGIC:
        raise ValueError(f"{path} is not a clock file")
    return words


def _words_in(path: Path) -> memoryview[int]:
    """The words of a clock file. Raises ValueError for a file that is none."""
    try:
        with path.open("r+b") as file:
            return _words_of(path, file.fileno())
    except OSError as error:
        raise ValueError(f"there is no clock {path}: {error.strerror}") from error


class SharedClock:
    """A clock in a file, read by every process of a live run. See `SharedClockMaster`.

    `rank`: that of alarms whose owner names none, in lower case. Raises ValueError for a file that is no clock.
    """

    def __init__(self, path: Path | str, rank: str = "timer") -> None:
        if rank.upper() not in Rank.__members__:
            ranks = ", ".join(each.name.lower() for each in Rank)
            raise ValueError(f"there is no rank {rank!r}; there are: {ranks}")
        self.path = path = Path(path)
        self._rank = Rank[rank.upper()]
        self._words = _words_in(path)
        self.speed = self._words[_SPEED_AT] / 1000
        self.is_held = bool(self._words[_HELD_AT])
        self._lock = threading.Lock()
        self._limits: dict[int, int] = {}
        self._next_key = 0
        self._places = _places(self._words)
        self._lock_file = -1  # open for as long as the process lives
        self._slot = self._claim_slot()

    def _claim_slot(self) -> int:
        for slot, place in enumerate(self._places):
            lock = _try_lock(_slot_file(self.path, slot))
            if lock is not None:
                self._lock_file = lock
                os.ftruncate(lock, 0)
                os.write(lock, socket.gethostname().encode())
                self._words[place + 1] = _NO_LIMIT
                self._words[place] = _EXPECTED
                return place
        raise RuntimeError(f"all {len(self._places)} places at the clock {self.path} are taken")

    def now_us(self) -> int:
        return self._words[_NOW_AT]

    def not_before(self, at_us: int) -> None:
        """Its master paces it."""

    @property
    def stopped(self) -> bool:
        """True when the run is over and nobody paces the clock any more."""
        return bool(self._words[_STOPPED_AT])

    def alarm(self, rank: Rank | None = None) -> SharedAlarm:
        with self._lock:
            self._next_key += 1
            return SharedAlarm(self, self._next_key, self._rank if rank is None else rank)

    @contextmanager
    def held(self) -> Iterator[int]:
        with self._lock:
            self._next_key += 1
            key = self._next_key
        self._set_limit(key, _limit(self.now_us(), Rank.JOB_END))
        try:
            # The master may have moved on between the look and the limit; from here on it stands still.
            yield self.now_us()
        finally:
            self._set_limit(key, _NO_LIMIT)

    def _set_limit(self, key: int, limit: int) -> None:
        with self._lock:
            if limit == _NO_LIMIT:
                self._limits.pop(key, None)
            else:
                self._limits[key] = limit
            self._words[self._slot + 1] = min(self._limits.values(), default=_NO_LIMIT)

    def _is_turn_of(self, key: int, limit: int) -> bool:
        """Nobody else, here or in another process, is due before this limit."""
        if not self.is_held:
            return True
        with self._lock:
            if any(other < limit for other_key, other in self._limits.items() if other_key != key):
                return False
        words = self._words
        return not any(
            place != self._slot and words[place] > 0 and words[place + 1] < limit for place in self._places
        )


class ClockReader:
    """Only tells the time of a clock file, for those whom the clock need not wait for: they take no place at it."""

    def __init__(self, path: Path) -> None:
        self._words = _words_in(path)
        self.speed = self._words[_SPEED_AT] / 1000

    def now_us(self) -> int:
        return self._words[_NOW_AT]

    @property
    def stopped(self) -> bool:
        """True when the run is over and nobody paces the clock any more."""
        return bool(self._words[_STOPPED_AT])


class SharedAlarm:
    """One limit on a shared clock."""

    def __init__(self, clock: SharedClock, key: int, rank: Rank) -> None:
        self._clock = clock
        self._key = key
        self._rank = rank
        self._due_us = NEVER_US
        self._woken = threading.Event()

    def set(self, due_us: int, rank: Rank | None = None) -> None:
        if rank is not None:
            self._rank = rank
        self._due_us = due_us
        limit = _NO_LIMIT if due_us == NEVER_US else _limit(due_us, self._rank)
        self._clock._set_limit(self._key, limit)  # noqa: SLF001 - the two classes are one thing

    def wait(self, timeout_s: float | None = None) -> bool:
        end_us = None if timeout_s is None else wall_us() + micros(timeout_s)
        clock = self._clock
        while not self._woken.is_set():
            to_go_us = self._due_us - clock.now_us()
            if to_go_us <= 0 and clock._is_turn_of(self._key, _limit(self._due_us, self._rank)):  # noqa: SLF001
                return True
            if end_us is not None and wall_us() >= end_us:
                return False
            bound_s = min(seconds(max(to_go_us, 0)) / clock.speed, 0.05) * 0.9
            if end_us is not None:
                bound_s = min(bound_s, seconds(end_us - wall_us()))
            self._woken.wait(max(bound_s, _POLL_S))
        self._woken.clear()
        return False

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.set(NEVER_US)


class RankedAlarm(Protocol):
    """An alarm whose owner may say how urgent it is; a clock without ranks does not care."""

    def set(self, due_us: int, rank: Rank | None = None) -> None:
        """`rank` changes the alarm's rank."""

    def wait(self, timeout_s: float | None = None) -> bool: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


class _Unranked:
    """An alarm of a clock that knows no ranks."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self.wait, self.wake, self.close = alarm.wait, alarm.wake, alarm.close

    def set(self, due_us: int, rank: Rank | None = None) -> None:  # noqa: ARG002
        self._alarm.set(due_us)


def alarm_of(clock: Clock, rank: Rank) -> RankedAlarm:
    """A new alarm at any clock, with this rank where there are ranks."""
    return clock.alarm(rank) if isinstance(clock, SharedClock) else _Unranked(clock.alarm())


@dataclass(slots=True)
class Pace:
    """How well a paced clock kept up; wall times in microseconds."""

    holds: int = 0
    held_us: int = 0
    longest_hold_us: int = 0
    dropped_processes: int = 0


class SharedClockMaster:
    """Paces a clock file: `speed` cluster seconds in each wall second.

    `held` (default): the clock does not pass an alarm until its owner has dealt with it, so that
    events happen at their exact times however slow the machine is; what was waited is counted in `pace`.
    Not held: the clock runs on regardless; the time between an alarm and its owner's moving it is counted.
    """

    def __init__(
        self, path: Path, *, speed: float, start_us: int = 0, held: bool = True, slots: int = _SLOTS
    ) -> None:
        if speed <= 0:
            raise ValueError(f"the speed must be positive, not {speed}")
        path.write_bytes(
            array("q", [_MAGIC, start_us, round(speed * 1000), 0, int(held), 0, 0, 0]).tobytes()
            + array("q", [0, _NO_LIMIT]).tobytes() * slots
        )
        self._open(path)

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Go on with a clock whose master is gone, from the time at which it stood still."""
        master = cls.__new__(cls)
        master._open(path)  # noqa: SLF001 - its own
        return master

    def _open(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._words = _words_of(path, file.fileno())
        self.path = path
        self.speed = self._words[_SPEED_AT] / 1000
        self.held = bool(self._words[_HELD_AT])
        self.pace = Pace()
        self.follow: Callable[[], int] | None = None
        """Tells the time (us) instead of `speed`: somebody else's clock, which nobody here can hold."""
        self._places = _places(self._words)
        self._now_us = self._words[_NOW_AT]
        self._stop = threading.Event()
        self._frozen = False
        self._frozen_at_us: int | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stand(self) -> None:
        """Pace no longer. The clock stands, nobody is told; `resume` may go on with it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """The run is over; everybody who looks can see it."""
        self.stand()
        self._words[_STOPPED_AT] = 1
        for slot in range(len(self._places)):
            Path(_slot_file(self.path, slot)).unlink(missing_ok=True)

    def now_us(self) -> int:
        return self._now_us

    def _limit_us(self) -> int:
        """The time that nobody lets the clock pass."""
        words = self._words
        limits = (words[place + 1] for place in self._places if words[place] > 0)
        return min(limits, default=_NO_LIMIT) >> _RANK_BITS

    def _drop_dead(self) -> None:
        """A process that died holding the clock holds it no longer."""
        for slot, place in enumerate(self._places):
            if self._words[place] > 0 and self._words[place + 1] >> _RANK_BITS <= self._now_us:
                lock = _try_lock(_slot_file(self.path, slot))
                if lock is not None:
                    self._words[place] = 0
                    os.close(lock)
                    self.pace.dropped_processes += 1

    def living(self) -> int:
        """How many processes have a place at the clock and are alive."""
        found = 0
        for slot, place in enumerate(self._places):
            if self._words[place]:
                lock = _try_lock(_slot_file(self.path, slot))
                if lock is None:
                    found += 1
                else:
                    os.close(lock)
        return found

    def excuse(self, host: str) -> int:
        """Do not wait for the processes of a host that cannot answer; how many there are.

        Undone by `expect`, or when such a process is started anew.
        """
        return self._say_of(host, _EXCUSED)

    def expect(self, host: str) -> int:
        """Wait again for the processes of a host."""
        return self._say_of(host, _EXPECTED)

    def _say_of(self, host: str, word: int) -> int:
        found = 0
        for slot, place in enumerate(self._places):
            if self._words[place]:
                owner = Path(_slot_file(self.path, slot))
                if owner.exists() and owner.read_text(encoding="utf-8") == host:
                    self._words[place] = word
                    found += 1
        return found

    def freeze(self, timeout_s: float = 5.0) -> bool:
        """Let the clock stand from now on; True once all that is due by then has been dealt with.

        False: somebody still had work due when the wall time ran out.
        """
        self._frozen = True
        end_us = wall_us() + micros(timeout_s)
        while self._frozen_at_us is None or self._limit_us() <= self._frozen_at_us:
            if wall_us() > end_us or self._stop.wait(_POLL_S):
                return False
            if self._frozen_at_us is not None:
                self._drop_dead()
        return True

    def _run(self) -> None:
        before_us = wall_us()
        held_since_us: int | None = None
        while not self._stop.wait(_POLL_S):
            if self._frozen:
                self._frozen_at_us = self._now_us
                continue
            tick_us = wall_us()
            if self.follow is None:
                wanted_us = self._now_us + round((tick_us - before_us) * self.speed)
            else:
                wanted_us = max(self._now_us, self.follow())
            before_us = tick_us
            limit_us = self._limit_us()
            stands = wanted_us > limit_us and self._now_us >= limit_us
            if stands and held_since_us is None:
                held_since_us = tick_us
            elif not stands and held_since_us is not None:
                self._count_hold(tick_us - held_since_us)
                held_since_us = None
            if held_since_us is not None:
                # Told while it lasts: an owner that never moves its alarm would never be counted.
                self.pace.longest_hold_us = max(self.pace.longest_hold_us, tick_us - held_since_us)
                if tick_us - held_since_us > US:
                    self._drop_dead()
            self._now_us = max(self._now_us, min(wanted_us, limit_us)) if self.held else wanted_us
            self._words[_NOW_AT] = self._now_us

    def _count_hold(self, waited_us: int) -> None:
        self.pace.holds += 1
        self.pace.held_us += waited_us
        self.pace.longest_hold_us = max(self.pace.longest_hold_us, waited_us)
