"""One world: a Balancer made of the shipped parts, fake systems around it, one heap of things to come.

Nothing runs in parallel: the scheduler here calls timers, commands and reconcile of the engine when they are
due. All chance comes from one generator, so a seed repeats the world, event by event.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import os
import random
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import structlog

import balancer.clock
from balancer.algorithms.basic import Basic
from balancer.algorithms.interface import Plan
from balancer.clock import NEVER_US, US
from balancer.hooks import client as hook_client
from balancer.hooks import torque as hooks
from balancer.policy_settings import ReserveRule, Settings
from ledger_kit.empty import empty_ledger
from simulation.checks import Checks
from simulation.clients import Client, Hooks
from simulation.cloud import Cloud
from simulation.instance import LIMIT_S, PERIOD_S, TIMEOUT_S, Instance
from simulation.parts import Crash, Rates, Size, Stuck, Time, drawn, shown
from simulation.torque import Host, Job, Torque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from balancer.service.engine import Engine

_MINUTE_US = 60 * US
_MOVE_US = round((LIMIT_S + 3 * TIMEOUT_S + 2 * PERIOD_S) * US)
"""I10: how long a move may take once nothing fails."""
_JUMPS_S = (0.011, -0.011, 0.288, -0.288, 288, -288, 3600, -3600, 86400, -86400, -1_700_000_000)
_STEPS_AT_ONE_TIME = 20_000
_NODE_S_PER_JOB = 3400  # a mean job has 1.8 nodes for 20 minutes: 65 % of the node time


class Moody:
    """The basic algorithm, which now and then raises or plans nonsense."""

    def __init__(self, world: World) -> None:
        self._world, self._basic = world, Basic()

    def plan(self, view: Any) -> Plan:
        if not self._world.chance("plug_in"):
            return self._basic.plan(view)
        match self._world.rng.randrange(4):
            case 0:
                raise ZeroDivisionError("simulated")
            case 1:
                return Plan(collect=("n99",))
            case 2:
                return Plan(restore=tuple(self._world.names))
            case _:
                return Plan(collect=tuple(self._world.names[:2]) * 2)


class World:
    """`run` is the whole life of it. Raises Violation (wrong), Stuck, or what the product raised (crash)."""

    def __init__(self, seed: int, folder: Path, size: Size | None = None, rates: Rates | None = None) -> None:
        self.seed, self.size = seed, size or Size()
        self.rng = random.Random(seed)
        drawn_rates = drawn(self.rng)
        self.rates = drawn_rates if rates is None else rates
        self.names = [f"n{number:02d}" for number in range(1, self.size.nodes + 1)]
        self.db = folder / "ledger.db"
        self.db.write_bytes(empty_ledger("5eed1ed9"))
        self.time = Time()
        self.torque = Torque(self, {name: Host(name) for name in self.names})
        self.vms: dict[str, str] = {}
        self.clients: dict[str, Client] = {}
        self.hooks = Hooks(self)
        self.cloud = Cloud(self)
        self.starts = self.overtaken = 0
        self.is_faulty = True
        self.is_over = False
        self.points: dict[str, int] = {}
        self.lines: list[str] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._when: dict[str, Callable[[], None]] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self.settings = Settings(
            static_reserve=self.rng.choice((0, 0, 1, self.size.nodes // 4)),
            reserve_rule=ReserveRule.REFILLED if seed % 2 else ReserveRule.FIXED,
            wait_us=600 * US,
            idle_reserve_us=self.rng.choice((60, 600, 1800)) * US,
            at_once_us=60 * US,
            confirm_us=self.rng.choice((0, 300, 300)) * US,
            lease_us=self.rng.choice((1800, 7200)) * US,
        )
        count = self.size.instances or self.rng.choice((1, 1, 1, 2))
        self.instances = [Instance(self, name, is_shared=count > 1) for name in ("A", "B")[:count]]
        self.checks = Checks(self)

    # The story

    def trace(self, text: str) -> None:
        line = f"{self.time.now_us / US - 1000:12.3f} {text}"
        self.lines.append(line)
        self._digest.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def story(self, node: str, last: int = 60) -> list[str]:
        return [line for line in self.lines if node in line][-last:]

    # Chance

    def chance(self, fault: str) -> bool:
        rate = getattr(self.rates, fault) if self.is_faulty else 0.0
        return rate > 0 and self.rng.random() < rate

    def point(self, name: str) -> None:
        """A place at which the process may end."""
        self.points[name] = self.points.get(name, 0) + 1
        if self.chance("crash"):
            self.trace(f"crash {name}")
            raise Crash(name)

    def is_cut(self, edge: str, way: str) -> bool:
        return self._cuts.get((edge, way), 0) > self.time.now_us

    def cut(self, edge: str, ways: tuple[str, ...], length_us: int) -> None:
        self.trace(f"no {' and '.join(ways)} between Balancer and {edge} for {length_us // US} s")
        self._cuts.update({(edge, way): self.time.now_us + length_us for way in ways})

    # Time

    def later(self, after_us: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.time.now_us + after_us, self._order, action))

    def run_until(self, end_us: int) -> None:
        stood = 0
        while True:
            next_us = self._heap[0][0] if self._heap else NEVER_US
            dues = [each.due_us() for each in self.instances]
            engine_us = min(dues)
            due_us = min(next_us, engine_us)
            if due_us > end_us:
                self.time.now_us = max(self.time.now_us, end_us)
                return
            stood = stood + 1 if due_us <= self.time.now_us else 0
            if stood > _STEPS_AT_ONE_TIME:
                raise Stuck("I14", "time stands still: there is always more to do")
            self.time.now_us = max(self.time.now_us, due_us)
            if engine_us <= next_us:
                self.instances[dues.index(engine_us)].step()
            else:
                heapq.heappop(self._heap)[2]()
            self.checks.step()

    # The Balancer's processes

    @property
    def engine(self) -> Engine | None:
        """Of the instance that leads, as far as one can tell from outside."""
        return self._leader().engine

    def _leader(self) -> Instance:
        if len(self.instances) == 1:
            return self.instances[0]
        return min(self.instances, key=lambda each: (not each.is_leading, each.is_paused))

    def algorithm(self) -> Moody:
        return Moody(self)

    def boot(self) -> None:
        for each in self.instances:
            each.boot()

    def die(self, down_us: int | None = None) -> None:
        self._leader().die(down_us)

    def call(self, action: Callable[[Engine], Any]) -> Any:
        """A call of somebody's, who mostly knows which instance leads. Raises Lost when no answer comes."""
        instance = self._leader()
        if len(self.instances) > 1 and self.rng.random() < 0.1:
            instance = self.rng.choice(self.instances)
        return instance.call(action)

    # What happens

    def when(self, state: str, action: Callable[[], None]) -> None:
        """Once, right after the first node has come into this state."""
        self._when[state] = action

    def entered(self, state: str) -> None:
        action = self._when.pop(state, None)
        if action is not None:
            self.later(0, action)

    def run(self, script: Callable[[World], None] = lambda _: None) -> None:
        """First anything may break and nothing may be wrong; then nothing breaks and all must end."""
        with simulated(self):
            self._prepare()
            script(self)
            self.run_until(self.time.now_us + round(self.size.hours * 3600 * US))
            self.heal()
            healed_us = self.time.now_us
            self.run_until(healed_us + _MOVE_US)
            self.checks.moves_ended(healed_us)
            self.run_until(healed_us + 2 * _MOVE_US + 2400 * US)
            self.end_work()
            # I19: what nobody answers for any more goes back when its lease ends.
            lease_us = self.settings.lease_us or 0
            self.run_until(self.time.now_us + lease_us + self.settings.idle_reserve_us + 2 * _MOVE_US)
            self.checks.healed()
            self.checks.history()
            self.checks.fixed_point()
            for each in self.instances:
                each.close()

    def _prepare(self) -> None:
        self.boot()
        self.torque.tick()
        self._next_job()
        if self.size.leases:
            self._next_client()
        self.later(_MINUTE_US, self._every_minute)

    def _next_job(self) -> None:
        if not self.is_faulty:
            return
        rng = self.rng
        width = min(rng.choice((1, 1, 1, 2, 2, 4)), len(self.names))
        run_us = round(min(rng.expovariate(1 / 1200), 7200) * US) + US
        self.torque.submit(Job(self._job_id(), width, run_us))
        self.later(round(rng.expovariate(len(self.names) / _NODE_S_PER_JOB) * US), self._next_job)

    def _job_id(self) -> str:
        """The next number, or after a server lost its count one that a job had that has ended."""
        new = f"{len(self.torque.jobs) + 1}.server"
        ended = [job for job in self.torque.jobs.values() if job.state == "C"]
        if not ended or not self.chance("id_reused"):
            return new
        return f"{shown(self.rng.choice(ended[-20:]).job_id)}#{new}"

    def _next_client(self) -> None:
        if not self.is_faulty:
            return
        rng = self.rng
        name = f"c{len(self.clients) + 1}"
        client = Client(
            self,
            name,
            rng.choice((1, 1, 2, 3, len(self.names) // 2 + 1)),
            rng.choice((0, 60, 600)) * US,
            rng.randrange(60, 3600) * US,
        )
        self.clients[name] = client
        client.ask()
        self.later(round(rng.expovariate(1 / 500) * US), self._next_client)

    def _every_minute(self) -> None:
        if not self.is_faulty:
            return
        if self.chance("people"):
            self._people()
        if self.chance("mark_lost"):
            self.torque.lose_mark(self.torque.hosts[self.rng.choice(self.names)])
        if self.chance("server_restart"):
            self.torque.restart()
        if self.chance("forged"):
            self.hooks.forge()
        if self.chance("cloud_rogue"):
            self.cloud.misplace()
        if self.chance("clock"):
            jump_s = self.rng.choice(_JUMPS_S)
            self.trace(f"the wall clock jumps by {jump_s} s")
            self.time.wall_ahead_us += round(jump_s * US)
        if self.chance("partition"):
            ways = self.rng.choice((("there",), ("back",), ("there", "back")))
            length_us = self.rng.choice((1, 30, 600, 6 * 3600)) * US
            self.cut(self.rng.choice(("client", "batch", "cloud", "hook")), ways, length_us)
        self.later(_MINUTE_US, self._every_minute)

    def _people(self) -> None:
        """An operator does something to a node, with or without thinking."""
        host = self.torque.hosts[self.rng.choice(self.names)]
        back_us = self.rng.randrange(60, 7200) * US
        match self.rng.randrange(5):
            case 0 if not host.by_hand:
                # Also one that is lent, or on its way: the note is theirs then.
                self.trace(f"an operator takes {host.name} offline")
                host.marked, host.by_hand, host.note = True, True, "broken disk"
                host.mark_lost, host.by_hand_us = False, self.time.now_us
                self.later(back_us, lambda: self._clear_by_hand(host))
            case 1:
                self.trace(f"an operator reboots {host.name}")
                for job in host.jobs:
                    self.torque.requeue(self.torque.jobs[job], 30 * US)
                host.down = True
                self.later(back_us // 10, lambda: self._up(host))
            case 2 if host.jobs:
                self.trace(f"an operator kills {host.jobs[0]}")
                self.torque.cancel(self.torque.jobs[host.jobs[0]])
            case 3 if host.marked and not host.by_hand:
                self.trace(f"an operator clears {host.name}")
                self.torque.lose_mark(host)
            case 4 if not host.jobs:
                self.trace(f"an operator takes {host.name} out of the list of nodes")
                host.listed = False
                self.later(back_us, lambda: self._up(host))

    def _clear_by_hand(self, host: Host) -> None:
        if host.by_hand and self.is_faulty:
            self.trace(f"an operator clears {host.name}")
            # A node that is lent by now has lost its mark with this.
            is_lent = self.checks.states[host.name] in ("RECLAIMING", "OD_RESERVE", "OD_ALLOC")
            host.marked, host.by_hand, host.mark_lost, host.note = False, False, is_lent, ""
            self.torque.cycle()

    def _up(self, host: Host) -> None:
        if host.down or not host.listed:
            self.trace(f"{host.name} is back")
            host.down, host.listed, host.back_us = False, True, self.time.now_us
            self.torque.cycle()

    def heal(self) -> None:
        self.trace("the world heals")
        self.is_faulty = False
        self.checks.healed_us = self.time.now_us
        self._cuts.clear()
        self.cloud.heal()
        for each in self.instances:
            each.wake()
        for host in self.torque.hosts.values():
            self._up(host)
        self.boot()

    def end_work(self) -> None:
        """Whoever has nodes gives them back; jobs that need more nodes than there are left are taken away."""
        self.trace("work ends")
        self.is_over = True
        for client in self.clients.values():
            client.stop_using()
        for job in list(self.torque.jobs.values()):
            if job.state != "C":
                self.torque.cancel(job)


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """The world's time and edges in place of the machine's."""
    logs = structlog.get_config()
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, cache_logger_on_first_use=False)
    with (
        mock.patch.object(balancer.clock, "time", world.time),
        mock.patch("secrets.token_hex", return_value=f"{world.seed & 0xFFFFFFFF:08x}"),
        mock.patch.object(hook_client, "_post", world.hooks.post),
        mock.patch.object(hooks, "say", return_value=None),
    ):
        try:
            yield
        finally:
            for each in world.instances:
                each.close()
            structlog.configure(**logs)


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder: in memory where there is one (the simulated disk need not be a slow one).

    In `parent` it has the name of this process, whose worlds one after the other use the same files.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a new folder of our own inside
    if parent is None:
        folder = Path(tempfile.mkdtemp(prefix="simulation-", dir=memory if memory.is_dir() else None))
    else:
        folder = parent / str(os.getpid())
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def describe(rates: Rates) -> str:
    return " ".join(
        f"{each.name}={value:g}" for each in fields(rates) if (value := getattr(rates, each.name))
    )
