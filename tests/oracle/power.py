"""Sleeping nodes and energy the slow and obvious way: second by second. Written from `docs/energy.md`."""

from __future__ import annotations

from typing import NamedTuple

from oracle.reference import Job, Options, _Machine

US_A_SECOND = 1_000_000


class Power(NamedTuple):
    """In watts and whole seconds; `sleep_after` None: nodes are never switched off."""

    busy: int
    idle: int
    sleep: int
    boot: int
    shutdown: int
    sleep_after: int | None
    shutdown_s: int
    boot_s: int


class SleepyMachine(_Machine):
    """`given`: the nodes of each job, by number."""

    def __init__(  # noqa: PLR0917
        self,
        jobs: list[Job],
        nodes: int,
        order: str,
        backfill: str,
        options: Options,
        power: Power,
        given: dict[int, frozenset[int]],
    ) -> None:
        super().__init__(jobs, nodes, (order, {}), backfill, options)
        self.power = power
        self.given = given
        self.idle_since = dict.fromkeys(range(nodes), 0)
        self.asked = {job.number: job for job in jobs}

    def wake_s(self, node: int) -> int:
        """How many seconds it takes until a job can compute on this node."""
        power, idle = self.power, (self.now - self.idle_since[node]) // US_A_SECOND
        if power.sleep_after is None or idle < power.sleep_after:
            return 0
        return max(power.sleep_after + power.shutdown_s - idle, 0) + power.boot_s

    def scheduling_pass(self) -> None:
        """The pass knows nothing of sleep. A job that woke nodes then takes so much longer, and is expected to."""
        super().scheduling_pass()
        for job in [job for job, start in self.running.items() if start == self.now]:
            delay = max(self.wake_s(node) for node in self.given[job.number]) * US_A_SECOND
            longer = job._replace(run_us=job.run_us + delay, estimate_us=job.estimate_us + delay)
            del self.running[job]
            self.running[longer] = self.now
            self.schedule[job.number] = (self.now, self.now + longer.run_us)

    def one_instant(self) -> None:
        for job, start in self.running.items():
            if start + job.run_us == self.now:
                for node in self.given[job.number]:
                    self.idle_since[node] = self.now
        super().one_instant()


def energy_j(
    schedule: dict[int, tuple[int, int]], given: dict[int, frozenset[int]], nodes: int, power: Power
) -> tuple[int, dict[int, int]]:
    """Of the whole machine, and of each job, in joules: what each node did in each second."""
    horizon = max(end for _, end in schedule.values()) // US_A_SECOND
    spans = {number: (start // US_A_SECOND, end // US_A_SECOND) for number, (start, end) in schedule.items()}
    total, of_job = 0, dict.fromkeys(schedule, 0)
    idle = dict.fromkeys(range(nodes), 0)
    ready: dict[tuple[int, int], tuple[int, int]] = {}  # (job, node) -> end of its shutdown, end of its boot
    for now in range(horizon):
        for number, (start, _) in spans.items():
            if start == now:
                for node in given[number]:
                    ready[number, node] = _back(now, idle[node], power)
        for node in range(nodes):
            mine = [n for n, (start, end) in spans.items() if start <= now < end and node in given[n]]
            if not mine:
                watts = _watts(idle[node], power)
                idle[node] += 1
            else:
                (number,) = mine
                idle[node] = 0
                off, on = ready[number, node]
                all_on = max(ready[number, other][1] for other in given[number])
                watts = (
                    power.shutdown if now < off
                    else power.boot if now < on
                    else power.idle if now < all_on
                    else power.busy
                )  # fmt: skip
                of_job[number] += watts
            total += watts
    return total, of_job


def _watts(idle: int, power: Power) -> int:
    if power.sleep_after is None or idle < power.sleep_after:
        return power.idle
    return power.shutdown if idle < power.sleep_after + power.shutdown_s else power.sleep


def _back(now: int, idle: int, power: Power) -> tuple[int, int]:
    if power.sleep_after is None or idle < power.sleep_after:
        return now, now
    off = now + max(power.sleep_after + power.shutdown_s - idle, 0)
    return off, off + power.boot_s
