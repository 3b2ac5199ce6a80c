"""The clock of a live run: a file that one process paces (`SharedClockMaster`) and every process reads.

Time runs `speed` times faster than life and may stand still while somebody still has work that is due: *the clock
does not pass the time an alarm is set to until the alarm is moved*. Among the alarms that are due at the same time
the one with the lower `EventPriority` goes first, which makes the order of events the same as in virtual time. To the
Balancer it is a plug-in (`balancer serve --clock`, entry point `shared`).
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from balancer.clock import NEVER_US, micros, seconds, wall_us
from emulator.clock.clock_file import (
    EXPECTED,
    FOLLOWS_AT,
    HELD_AT,
    NO_LIMIT,
    NOW_AT,
    POLL_S,
    SPEED_AT,
    STOPPED_AT,
    limit_of,
    places_in,
    sign,
    slot_file,
    try_lock,
    words_in,
)
from emulator.clock.event_priority import EventPriority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from balancer.clock import Alarm, Clock


_LOOK_S = 0.05
_LONGEST_S = 2.0
"""What wakes a sleeper in its own thread, a signal's handler, it does not hear when it was just about to sleep."""


class SharedClock:
    """A clock in a file, read by every process of a live run. See `SharedClockMaster`.

    `rank`: that of alarms whose owner names none, in lower case. `name`: who this is, for people who ask for whom the
    clock waits; `host`: where it is, if not here. Raises ValueError for a file that is no clock.
    """

    def __init__(self, path: Path | str, rank: str = "timer", name: str = "", host: str = "") -> None:
        if rank.upper() not in EventPriority.__members__:
            ranks = ", ".join(each.name.lower() for each in EventPriority)
            raise ValueError(f"there is no rank {rank!r}; there are: {ranks}")
        self.path = path = Path(path)
        self._rank = EventPriority[rank.upper()]
        self._name, self._host = name, host
        self._words = words_in(path)
        self.speed = self._words[SPEED_AT] / 1000
        self.is_held = bool(self._words[HELD_AT])
        self._lock = threading.Lock()
        self._limits: dict[int, int] = {}
        self._next_key = 0
        self._places = places_in(self._words)
        self._lock_file = -1  # open for as long as the process lives
        self._slot = self._claim_slot()

    def _claim_slot(self) -> int:
        for slot, place in enumerate(self._places):
            lock = try_lock(slot_file(self.path, slot))
            if lock is not None:
                self._lock_file = lock
                sign(lock, self._name, self._host)
                self._words[place + 1] = NO_LIMIT
                self._words[place] = EXPECTED
                return place
        raise RuntimeError(f"all {len(self._places)} places at the clock {self.path} are taken")

    def now_us(self) -> int:
        return self._words[NOW_AT]

    def not_before(self, at_us: int) -> None:
        """Its master paces it."""

    @property
    def stopped(self) -> bool:
        """True when the run is over and nobody paces the clock any more."""
        return bool(self._words[STOPPED_AT])

    def sleep_s(self, to_go_us: int) -> float:
        """For how long (wall time) nobody need look whether so much time has passed: it cannot go faster than this.

        Somebody else's clock may.
        """
        to_go_s = seconds(max(to_go_us, 0)) / self.speed
        return min(to_go_s, _LOOK_S) if self._follows() else to_go_s

    def _follows(self) -> bool:
        return bool(self._words[FOLLOWS_AT])

    def leave(self) -> None:
        """Give the place back; nothing more may be asked."""
        self._words[self._slot] = 0
        os.close(self._lock_file)

    def alarm(self, rank: EventPriority | None = None) -> SharedAlarm:
        with self._lock:
            self._next_key += 1
            return SharedAlarm(self, self._next_key, self._rank if rank is None else rank)

    @contextmanager
    def paused(self) -> Iterator[int]:
        with self._lock:
            self._next_key += 1
            key = self._next_key
        self.set_limit(key, limit_of(self.now_us(), EventPriority.JOB_END))
        try:
            # The master may have moved on between the look and the limit; from here on it stands still.
            yield self.now_us()
        finally:
            self.set_limit(key, NO_LIMIT)

    def set_limit(self, key: int, limit: int) -> None:
        with self._lock:
            if limit == NO_LIMIT:
                self._limits.pop(key, None)
            else:
                self._limits[key] = limit
            self._tell_limit(min(self._limits.values(), default=NO_LIMIT))

    def _tell_limit(self, limit: int) -> None:
        self._words[self._slot + 1] = limit

    def is_turn_of(self, key: int, limit: int) -> bool:
        """Nobody else, here or in another process, is due before this limit."""
        if not self.is_held:
            return True
        with self._lock:
            if any(other < limit for other_key, other in self._limits.items() if other_key != key):
                return False
        return self._others_are_later(limit)

    def _others_are_later(self, limit: int) -> bool:
        words = self._words
        return not any(
            place != self._slot and words[place] > 0 and words[place + 1] < limit for place in self._places
        )


class ClockReader:
    """Only tells the time of a clock file, for those whom the clock need not wait for: they take no place at it."""

    def __init__(self, path: Path) -> None:
        self._words = words_in(path)
        self.speed = self._words[SPEED_AT] / 1000

    def now_us(self) -> int:
        return self._words[NOW_AT]

    @property
    def stopped(self) -> bool:
        """True when the run is over and nobody paces the clock any more."""
        return bool(self._words[STOPPED_AT])


class SharedAlarm:
    """One limit on a shared clock."""

    def __init__(self, clock: SharedClock, key: int, rank: EventPriority) -> None:
        self._clock = clock
        self._key = key
        self._rank = rank
        self._due_us = NEVER_US
        self._changed = threading.Condition()
        self._woken = False

    def set(self, due_us: int, rank: EventPriority | None = None) -> None:
        if rank is not None:
            self._rank = rank
        is_sooner, self._due_us = due_us < self._due_us, due_us
        limit = NO_LIMIT if due_us == NEVER_US else limit_of(due_us, self._rank)
        self._clock.set_limit(self._key, limit)
        if is_sooner:
            with self._changed:
                self._changed.notify_all()  # who waits sleeps until it was due before

    def wait(self, timeout_s: float | None = None) -> bool:
        end_us = None if timeout_s is None else wall_us() + micros(timeout_s)
        clock = self._clock
        with self._changed:
            while not self._woken:
                to_go_us = self._due_us - clock.now_us()
                if to_go_us <= 0 and clock.is_turn_of(self._key, limit_of(self._due_us, self._rank)):
                    return True
                if end_us is not None and wall_us() >= end_us:
                    return False
                bound_s = clock.sleep_s(to_go_us) * 0.9
                if end_us is not None:
                    bound_s = min(bound_s, seconds(end_us - wall_us()))
                self._changed.wait(min(max(bound_s, POLL_S), _LONGEST_S))
            self._woken = False
        return False

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        self.set(NEVER_US)


class RankedAlarm(Protocol):
    """An alarm whose owner may say how urgent it is; a clock without ranks does not care."""

    def set(self, due_us: int, rank: EventPriority | None = None) -> None:
        """`rank` changes the alarm's rank."""

    def wait(self, timeout_s: float | None = None) -> bool: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


class _Unranked:
    """An alarm of a clock that knows no ranks."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self.wait, self.wake, self.close = alarm.wait, alarm.wake, alarm.close

    def set(self, due_us: int, rank: EventPriority | None = None) -> None:  # noqa: ARG002
        self._alarm.set(due_us)


def alarm_of(clock: Clock, rank: EventPriority) -> RankedAlarm:
    """A new alarm at any clock, with this rank where there are ranks."""
    return clock.alarm(rank) if isinstance(clock, SharedClock) else _Unranked(clock.alarm())
