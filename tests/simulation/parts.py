"""What the simulation is made of: drawn rates, time that stands in for the machine's, a ledger that breaks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from balancer.clock import US, micros
from balancer.ledger.errors import LedgerError
from balancer.ledger.lease import DURATION_S, RENEW_DEADLINE_S, RETRY_S
from balancer.ledger.store import Ledger

if TYPE_CHECKING:
    import random

    from simulation.world import World


class Crash(BaseException):
    """The process ends here. Not an Exception: nothing in the product may catch it."""


class Violation(BaseException):
    """An invariant does not hold: `code` is I1..I22, `node` whose story tells why ("" for none).

    Not an Exception: it is raised inside calls of the product, which must not take it for a fault and go on.
    """

    def __init__(self, code: str, what: str, node: str = "") -> None:
        self.code, self.what, self.node = code, what, node
        super().__init__(f"{code}: {what}")


class Stuck(Violation):
    """No progress although nothing is broken any more (I10, I11)."""


class Lost(Exception):
    """No answer came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The world: `nodes` computers for `hours` of virtual time with faults, then healed."""

    nodes: int = 16
    hours: float = 6.0
    leases: bool = True
    """Whether on-demand asks for nodes at all."""
    instances: int | None = None
    """How many Balancers share the ledger, 1 or 2; None: drawn."""


@dataclass(slots=True, kw_only=True)
class Rates:
    """Chance of each fault for one operation (`people`, `clock`, `partition`, `forged`: for one minute)."""

    crash: float = 0.0
    power_cut: float = 0.0
    pause: float = 0.0
    storage: float = 0.0
    storage_unclear: float = 0.0
    client_lost: float = 0.0
    client_twice: float = 0.0
    client_late: float = 0.0
    client_dies: float = 0.0
    client_hangs_up: float = 0.0
    client_trespasses: float = 0.0
    hook_lost: float = 0.0
    hook_twice: float = 0.0
    hook_late: float = 0.0
    forged: float = 0.0
    refused: float = 0.0
    no_effect: float = 0.0
    half_effect: float = 0.0
    lost_reply: float = 0.0
    hang: float = 0.0
    garbled: float = 0.0
    lie: float = 0.0
    id_reused: float = 0.0
    cloud_error: float = 0.0
    cloud_hang: float = 0.0
    cloud_lie: float = 0.0
    cloud_rogue: float = 0.0
    server_restart: float = 0.0
    mark_lost: float = 0.0
    partition: float = 0.0
    people: float = 0.0
    clock: float = 0.0
    plug_in: float = 0.0


_HIGHEST = Rates(
    crash=0.02,
    power_cut=1.0,
    pause=0.01,
    storage=0.05,
    storage_unclear=0.02,
    client_lost=0.3,
    client_twice=0.5,
    client_late=0.3,
    client_dies=0.1,
    client_hangs_up=0.3,
    client_trespasses=0.2,
    hook_lost=0.3,
    hook_twice=0.3,
    hook_late=0.3,
    forged=0.05,
    refused=0.1,
    no_effect=0.1,
    half_effect=0.1,
    lost_reply=0.1,
    hang=0.05,
    garbled=0.1,
    lie=0.1,
    id_reused=0.3,
    cloud_error=0.1,
    cloud_hang=0.05,
    cloud_lie=0.1,
    cloud_rogue=0.01,
    server_restart=0.01,
    mark_lost=0.02,
    partition=0.01,
    people=0.03,
    clock=0.01,
    plug_in=0.05,
)


def drawn(rng: random.Random) -> Rates:
    """Swarm: in each world half of the faults cannot happen at all, the others at up to their highest rate."""
    rates = Rates()
    for each in fields(Rates):
        if rng.random() < 0.5:
            setattr(rates, each.name, getattr(_HIGHEST, each.name) * rng.choice((0.1, 0.5, 1.0)))
    return rates


def shown(job_id: str) -> str:
    """The number that Torque shows: a server that went back in time gives one out again."""
    return job_id.partition("#")[0]


class Time:
    """Stands in for the module `time` in balancer.clock: the steady clock, and a wall clock people set."""

    def __init__(self) -> None:
        self.now_us = 1_000 * US
        self.wall_ahead_us = 1_700_000_000 * US

    def monotonic_ns(self) -> int:
        return self.now_us * 1000

    def time_ns(self) -> int:
        return (self.now_us + self.wall_ahead_us) * 1000

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the product asks for time.{name}, which the simulation does not have")


class BreakingLedger(Ledger):
    """The shipped ledger; the process may die before and after each commit, and the disk may fail."""

    def __init__(self, world: World, path: Any, *, is_shared: bool) -> None:
        self._world = world
        super().__init__(path, lock_wait_s=0, locked=not is_shared, threaded=False)
        # Ten times as slow as the real one, so that a world of ten hours is not spent on renewing.
        lease = self.lease
        lease.retry_s, lease.deadline_us = 10 * RETRY_S, 10 * micros(RENEW_DEADLINE_S)
        lease.watch.duration_us = 10 * micros(DURATION_S)

    def commit(self, entries: Any, **more: Any) -> None:
        world, kind = self._world, entries[0].event.kind
        world.point(f"before commit of {kind}")
        if world.chance("storage"):
            raise LedgerError("simulated: disk full")
        super().commit(entries, **more)
        world.checks.committed(entries)
        if world.chance("storage_unclear"):
            raise LedgerError("simulated: the connection was lost while it committed")
        world.point(f"after commit of {kind}")

    def abandon(self) -> None:
        """The process is gone: it gives nothing back."""
        self.lease.epoch = None
        self.close()

    def close(self) -> None:
        """Two of one world share an engine, and who closes first leaves what the other writes with to no pool."""
        writer = getattr(self, "_writer", None)
        if writer is not None and not writer.closed:
            writer.detach()  # closed with the ledger
        super().close()

    def take_epoch(self, *_: Any) -> int:
        """Without waiting: whoever stands by asks again."""
        self._world.point("before epoch")
        epoch = super().take_epoch(0.0)
        self._world.point("after epoch")
        return epoch
