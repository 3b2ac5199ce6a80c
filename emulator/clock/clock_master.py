"""Who paces the clock file of a live run, and sees to it that nobody keeps it standing for ever."""

from __future__ import annotations

import os
import threading
from array import array
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from balancer.clock import US, micros, seconds, wall_us
from emulator.clock.clock_file import (
    EXCUSED,
    EXPECTED,
    FOLLOWS_AT,
    HELD_AT,
    MAGIC,
    NO_LIMIT,
    NOW_AT,
    POLL_S,
    RANK_BITS,
    SLOTS,
    SPEED_AT,
    STOPPED_AT,
    Party,
    places_in,
    slot_file,
    try_lock,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_US = US // 4


@dataclass(slots=True)
class Pace:
    """How well a paced clock kept up; wall times in microseconds.

    `longest_hold_us`: the longest that the clock waited; of a free clock, the most that an alarm was behind it.
    `passed_us` of cluster time took `paced_us`.
    """

    holds: int = 0
    held_us: int = 0
    longest_hold_us: int = 0
    dropped_processes: int = 0
    excused_processes: int = 0
    passed_us: int = 0
    paced_us: int = 0

    def speeds(self, *, held: bool) -> dict[str, float]:
        """`reached_speed`: cluster time over wall time; `limit_speed`: about what it is where only work is waited for.

        The second is that of a held clock which had to wait.
        """
        found = {"reached_speed": self.passed_us / self.paced_us} if self.paced_us else {}
        return found | ({"limit_speed": self.passed_us / self.held_us} if held and self.held_us else {})


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom the clock waits, and for how long it has (wall time)."""

    party: Party
    for_us: int


class SharedClockMaster:
    """Paces a clock file: `speed` cluster seconds in each wall second.

    `held` (default): the clock does not pass an alarm until its owner has dealt with it, so that
    events happen at their exact times however slow the machine is; what was waited is counted in `pace`.
    Not held: the clock runs on regardless; the time between an alarm and its owner's moving it is counted.

    `patience_us` (wall time; 0: without end): who lives, has work that is due and does not move its alarm for so long,
    since it is stopped or cut off, is excused: nobody waits for it until it moves. `news` tells.
    """

    def __init__(
        self,
        path: Path,
        *,
        speed: float,
        start_us: int = 0,
        held: bool = True,
        slots: int = SLOTS,
        patience_us: int = 0,
    ) -> None:
        if speed <= 0:
            raise ValueError(f"the speed must be positive, not {speed}")
        path.write_bytes(
            array("q", [MAGIC, start_us, round(speed * 1000), 0, int(held), 0, 0, 0]).tobytes()
            + array("q", [0, NO_LIMIT]).tobytes() * slots
        )
        self._open(path, patience_us)

    @classmethod
    def resume(cls, path: Path, *, patience_us: int = 0) -> Self:
        """Go on with a clock whose master is gone, from the time at which it stood still."""
        master = cls.__new__(cls)
        master._open(path, patience_us)  # noqa: SLF001 - its own
        return master

    def _open(self, path: Path, patience_us: int) -> None:
        with path.open("r+b") as file:
            self._words = words_of(path, file.fileno())
        self.path = path
        self.speed = self._words[SPEED_AT] / 1000
        self.held = bool(self._words[HELD_AT])
        self.pace = Pace()
        self.follow: Callable[[], int] | None = None
        """Tells the time (us) instead of `speed`: somebody else's clock, which nobody here can hold."""
        self._places = places_in(self._words)
        self._now_us = self._words[NOW_AT]
        self._stop = threading.Event()
        self._frozen = False
        self._frozen_at_us: int | None = None
        self._thread: threading.Thread | None = None
        self._patience_us = patience_us
        self._waits_for: dict[int, tuple[int, int]] = {}
        """Places for which the clock waits -> the limit there, and since when (wall time)."""
        self._silent: dict[int, int] = {}
        """Places of those that were excused for their silence -> the limit there."""
        self._news: deque[tuple[int, str]] = deque()

    def start(self) -> None:
        self._words[FOLLOWS_AT] = int(self.follow is not None)
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
        self._words[STOPPED_AT] = 1
        for slot in range(len(self._places)):
            Path(slot_file(self.path, slot)).unlink(missing_ok=True)

    def now_us(self) -> int:
        return self._now_us

    def _limit_us(self) -> int:
        """The time that nobody lets the clock pass."""
        words = self._words
        limits = (words[place + 1] for place in self._places if words[place] > 0)
        return min(limits, default=NO_LIMIT) >> RANK_BITS

    def _drop_dead(self) -> None:
        """A process that died holding the clock holds it no longer."""
        for slot, place in enumerate(self._places):
            if self._words[place] > 0 and self._words[place + 1] >> RANK_BITS <= self._now_us:
                lock = try_lock(slot_file(self.path, slot))
                if lock is not None:
                    self._words[place] = 0
                    os.close(lock)
                    self.pace.dropped_processes += 1

    def living(self) -> list[Party]:
        """Who has a place at the clock and is alive."""
        found = []
        for slot, place in enumerate(self._places):
            if self._words[place]:
                lock = try_lock(slot_file(self.path, slot))
                if lock is None:
                    found.append(Party.at(slot_file(self.path, slot)))
                else:
                    os.close(lock)
        return found

    def holders(self) -> list[Holder]:
        """For whom a held clock waits now, the longest wait first."""
        now_us = wall_us()
        waits = sorted(self._waits_for.copy().items(), key=lambda each: each[1][1])
        return [Holder(self._party(place), now_us - since_us) for place, (_, since_us) in waits]

    def silent(self) -> list[Party]:
        """Who was excused because nothing was heard of it, and has not moved since."""
        return [self._party(place) for place in self._silent.copy()]

    def news(self) -> list[tuple[int, str]]:
        """(time, text) of who was excused and who is back since this was last asked."""
        return [self._news.popleft() for _ in range(len(self._news))]

    def _party(self, place: int) -> Party:
        return Party.at(slot_file(self.path, self._places.index(place)))

    def look_for_silence(self, at_us: int) -> None:
        """See for whom the clock waits and who does not move since; `at_us`: wall time.

        The thread that paces does it a few times a second while the clock is held.
        """
        words = self._words
        for place, limit in list(self._silent.items()):
            if words[place + 1] != limit or words[place] != EXCUSED:
                del self._silent[place]
                if words[place] == EXCUSED:
                    words[place] = EXPECTED
                if words[place]:
                    self._news.append(
                        (self._now_us, f"{self._party(place)} is back: the clock waits for it again")
                    )
        limits = {place: words[place + 1] for place in self._places if words[place] > 0}
        first = min(limits.values(), default=NO_LIMIT)
        if first >> RANK_BITS > self._now_us:
            self._waits_for = {}
            return
        before = self._waits_for
        self._waits_for = {
            place: before[place] if before.get(place, (None, 0))[0] == first else (first, at_us)
            for place, limit in limits.items()
            if limit == first
        }
        for place, (limit, since_us) in list(self._waits_for.items()):
            if self._patience_us and at_us - since_us > self._patience_us:
                del self._waits_for[place]
                self._silent[place] = limit
                words[place] = EXCUSED
                self.pace.excused_processes += 1
                passed_s = seconds(at_us - since_us)
                text = f"{self._party(place)} was silent for {passed_s:.0f} s: the clock goes on without it"
                self._news.append((self._now_us, text))

    def excuse(self, host: str) -> int:
        """Do not wait for the processes of a host that cannot answer; how many there are.

        Undone by `expect`, or when such a process is started anew.
        """
        return self._say_of(host, EXCUSED)

    def expect(self, host: str) -> int:
        """Wait again for the processes of a host."""
        return self._say_of(host, EXPECTED)

    def excuse_process(self, name: str) -> int:
        """As `excuse`, of the processes that go by this name."""
        return self._say_of(name, EXCUSED, "name")

    def expect_process(self, name: str) -> int:
        """Wait again for the processes of this name."""
        return self._say_of(name, EXPECTED, "name")

    def _say_of(self, who: str, word: int, what: Literal["host", "name"] = "host") -> int:
        found = 0
        for slot, place in enumerate(self._places):
            if self._words[place] and getattr(Party.at(slot_file(self.path, slot)), what) == who:
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
            if wall_us() > end_us or self._stop.wait(POLL_S):
                return False
            if self._frozen_at_us is not None:
                self._drop_dead()
        return True

    def _run(self) -> None:
        before_us = wall_us()
        held_since_us: int | None = None
        looked_us = before_us
        while not self._stop.wait(POLL_S):
            if self._frozen:
                self._frozen_at_us = self._now_us
                continue
            tick_us = wall_us()
            if self.held and tick_us - looked_us > _LOOK_US:
                looked_us = tick_us
                self.look_for_silence(tick_us)
            if self.follow is None:
                wanted_us = self._now_us + round((tick_us - before_us) * self.speed)
            else:
                wanted_us = max(self._now_us, self.follow())
            self.pace.paced_us += tick_us - before_us
            before_us = tick_us
            limit_us = self._limit_us()
            stands = wanted_us > limit_us and self._now_us >= limit_us
            if stands and held_since_us is None:
                held_since_us = tick_us
            elif not stands and held_since_us is not None:
                self._count_hold(tick_us - held_since_us)
                held_since_us = None
            if held_since_us is not None:
                # Told while it lasts: an owner that never moves its alarm would never be counted. A free clock may have
                # somebody behind for long, one alarm after the other: what counts is how late each of them is.
                late_us = tick_us - held_since_us if self.held else round((wanted_us - limit_us) / self.speed)
                self.pace.longest_hold_us = max(self.pace.longest_hold_us, late_us)
                if tick_us - held_since_us > US:
                    self._drop_dead()
            last_us = self._now_us
            self._now_us = max(self._now_us, min(wanted_us, limit_us)) if self.held else wanted_us
            self.pace.passed_us += self._now_us - last_us
            self._words[NOW_AT] = self._now_us

    def _count_hold(self, waited_us: int) -> None:
        self.pace.holds += 1
        self.pace.held_us += waited_us
        if self.held:
            self.pace.longest_hold_us = max(self.pace.longest_hold_us, waited_us)
