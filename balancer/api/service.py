"""What the application keeps beside the engine, for every call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

    from balancer.auth.gate import Gate
    from balancer.auth.rates import Rates
    from balancer.lending import Lending
    from balancer.service.engine import Engine
    from balancer.service.pools import PoolHistory

MAX_BODY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Access:
    """`gate`: None lets everybody who reaches the service do everything. `rates`: per identity."""

    gate: Gate | None = None
    rates: Rates | None = None


@dataclass
class Service:
    """The application's own state. At most `waiting` calls may block, and `streams` go on, at a time.

    `access`: who may do what; `hosts`: by which names callers may call the service, None: any.
    """

    engine: Engine
    waiting: threading.BoundedSemaphore
    streams: threading.BoundedSemaphore
    pools: PoolHistory
    lending: Lending
    disable_file: str | None = None
    max_body_bytes: int = MAX_BODY_BYTES
    hosts: frozenset[str] | None = None
    access: Access = field(default_factory=Access)
