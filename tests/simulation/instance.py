"""A process of the Balancer: it starts, stands by, leads, is paused, is overtaken, and ends at any point."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US, US, SystemClock
from balancer.ledger.errors import LeaseHeldError, LedgerError
from balancer.service.callers import CallerSettings
from balancer.service.calls import EngineSettings
from balancer.service.commands import CommandSettings
from balancer.service.engine import Engine
from balancer.service.metrics import Metrics
from simulation.parts import BreakingLedger, Crash, Lost
from simulation.torque import SimulatedTorqueDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulation.world import World

POLL_S, LIMIT_S, PERIOD_S, TIMEOUT_S = 10.0, 60.0, 300.0, 15.0
REFRESH_S, HANGUP_S = 10.0, 30.0
_ASK_US = 20 * US
"""How often one that stands by asks for the lease."""


class _Told(Metrics):
    """Says when a reading has been compared with the ledger."""

    def __init__(self, world: World) -> None:
        super().__init__("torque")
        self._world = world

    def reconciled(self, at_s: float, drift: int) -> None:
        super().reconciled(at_s, drift)
        self._world.checks.reconciled()


class Instance:
    """One of at most two. `is_shared`: no lock keeps the other one away, only lease and epoch do."""

    def __init__(self, world: World, name: str, *, is_shared: bool) -> None:
        self.world, self.name, self.is_shared = world, name, is_shared
        self.engine: Engine | None = None
        self.starts = 0
        self._standby: BreakingLedger | None = None
        self._paused_until_us = 0
        self._generation = 0  # of the process: what was planned for an earlier one is void

    @property
    def is_paused(self) -> bool:
        return self._paused_until_us > self.world.time.now_us

    @property
    def is_leading(self) -> bool:
        return self.engine is not None and not self.engine.ledger.lease.is_lost

    # Life

    def boot(self) -> None:
        if self.engine is not None:
            return
        self._generation += 1
        if self.is_shared:
            self._ask()
        else:
            self._start()

    def _later(self, after_us: int, action: Callable[[], None]) -> None:
        mine = self._generation
        self.world.later(after_us, lambda: action() if self._generation == mine else None)

    def _ask(self) -> None:
        """Stand by: wait for the lease, as `balancer serve` does before it starts its worker."""
        if self.is_paused:
            self._later(self._paused_until_us - self.world.time.now_us, self._ask)
            return
        try:
            if self._standby is None:
                self._standby = BreakingLedger(self.world, self.world.db, is_shared=True)
            self._standby.take_epoch()
        except LeaseHeldError:
            self._later(_ASK_US, self._ask)
            return
        except (Crash, LedgerError):
            self._abandon()
            self._later(30 * US, self._ask)
            return
        self._standby.close()
        self._standby = None
        self._start()

    def _start(self) -> None:
        world = self.world
        self.starts += 1
        world.starts += 1
        world.trace(f"{self.name} starts ({world.starts})")
        ledger = None
        try:
            ledger = BreakingLedger(world, world.db, is_shared=self.is_shared)
            self.engine = Engine(
                world.names,
                world.algorithm(),
                world.settings,
                ledger=ledger,
                driver=SimulatedTorqueDriver(world, ledger),
                cloud=world.cloud,
                clock=SystemClock(),
                metrics=_Told(world),
                settings=EngineSettings(
                    reconcile_period_s=PERIOD_S,
                    refresh_age_s=REFRESH_S,
                    keep_answers_s=400 * 86400.0,  # the checkers ask for all of them, in worlds of weeks too
                    callers=CallerSettings(hangup_s=HANGUP_S, return_s=900.0),
                    commands=CommandSettings(confirm_poll_s=POLL_S, confirm_limit_s=LIMIT_S),
                ),
                threaded=False,
            )
            self.engine.start()
        except (Crash, LedgerError) as error:
            world.trace(f"the start failed: {type(error).__name__}")
            if ledger is not None:
                ledger.abandon()
            self.engine = None
            self._later(30 * US, self.boot)

    def die(self, down_us: int | None = None) -> None:
        """The process is gone, without a word; the service manager starts it again some time later."""
        self._abandon()
        if self.engine is None:
            return
        ledger, self.engine = self.engine.ledger, None
        self._generation += 1
        self.world.checks.close()
        has_power = self.is_shared or not self.world.chance("power_cut")
        with nullcontext() if has_power else _power_cut(self.world):
            ledger.abandon()
        drawn_us = self.world.rng.choice((1, 1, 2, 30, 600)) * US
        self._later(drawn_us if down_us is None else down_us, self.boot)
        self.world.checks.history()
        self.world.checks.close()

    def _abandon(self) -> None:
        if self._standby is not None:
            self._standby.abandon()
            self._standby = None

    def close(self) -> None:
        """The world ends."""
        self._abandon()
        self.world.checks.close()
        if self.engine is not None:
            self.engine.ledger.abandon()

    # Work

    def pause(self) -> None:
        self._paused_until_us = self.world.time.now_us + self.world.rng.randrange(1, 1800) * US
        self.world.trace(f"{self.name} is paused")

    def wake(self) -> None:
        self._paused_until_us = 0

    def due_us(self) -> int:
        if self.engine is None:
            return NEVER_US
        return max(self._paused_until_us, self.world.time.now_us + self.engine.due_in_us())

    def step(self) -> None:
        try:
            if self.engine is not None:
                self.engine.step()
        except Crash:
            self.die()
        self._end_if_overtaken()

    def call(self, action: Callable[[Engine], Any]) -> Any:
        """A call of somebody's. Raises Lost when no answer comes."""
        if self.engine is None or self.is_paused:
            raise Lost
        if self.world.chance("pause"):
            self.pause()
            raise Lost
        try:
            answer = action(self.engine)
            self.world.point("before reply")
        except Crash as error:
            self.die()
            raise Lost from error
        finally:
            self._end_if_overtaken()
        return answer

    def _end_if_overtaken(self) -> None:
        """As the service does: it ends, is started again, and stands by."""
        if self.engine is not None and self.engine.ledger.lease.is_lost:
            self.world.trace(f"{self.name} was overtaken")
            self.world.overtaken += 1
            self.die(US)


@contextmanager
def _power_cut(world: World) -> Iterator[None]:
    """What the process does within has no effect on the disk; the last page of the log may be torn.

    All that was committed was synced (`synchronous=FULL`), so that much is left.
    """
    world.trace("the power fails")
    files = [world.db, world.db.with_name(world.db.name + "-wal")]
    before = [file.read_bytes() if file.exists() else None for file in files]
    yield
    torn = world.rng.choice(
        (b"", bytes(world.rng.randrange(4096)), world.rng.randbytes(world.rng.randrange(4096)))
    )
    for file, content in zip(files, before, strict=True):
        if content is not None:
            file.write_bytes(content + (torn if file is files[1] else b""))
