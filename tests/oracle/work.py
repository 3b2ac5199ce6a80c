"""The slow truth about the work of one running job: microsecond by microsecond."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class TickedJob:
    """A job that runs; `tick` lets one microsecond pass. All work in node-us."""

    owed: int
    nodes: int
    setup_us: int = 0
    interval_us: int = 0
    cost_us: int = 0
    num: int = 1
    den: int = 1
    done: int = 0
    saved: int = 0
    idle_us: int = 0
    stands_still: bool = False
    computed_us: int = 0
    into_interval_us: int = 0
    writes_us: int = 0
    phase_done: int = 0

    def begin_run(self):
        self.done = self.saved
        self.new_phase(self.setup_us)

    def new_phase(self, idle_us):
        self.phase_done, self.computed_us = self.done, 0
        self.into_interval_us = self.writes_us = 0
        self.idle_us = idle_us

    @property
    def over(self):
        return self.done >= self.owed

    def tick(self):
        if self.stands_still:
            return
        if self.idle_us:
            self.idle_us -= 1
            return
        if self.writes_us:
            self.writes_us -= 1
            if not self.writes_us:
                self.saved = max(self.saved, self.done)
                self.into_interval_us = 0
            return
        self.computed_us += 1
        self.done = min(self.phase_done + self.computed_us * self.nodes * self.num // self.den, self.owed)
        self.into_interval_us += 1
        if self.interval_us and self.into_interval_us == self.interval_us and not self.over:
            self.writes_us = self.cost_us
            if not self.cost_us:
                self.saved = max(self.saved, self.done)
                self.into_interval_us = 0
