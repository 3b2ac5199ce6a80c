"""How late servers of a real cloud are: what lies between the Balancer's grant and the last server's being ACTIVE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emulator.live.collect import granted_requests, replayed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from balancer.lifecycle.records import RequestRecord
    from emulator.live.replay_log import LeaseResult


def lease_cost(ledger: Path | str, log: Path) -> dict[str, float]:
    """Mean and most, in us of cluster time, of the granted leases; empty without any."""
    late_us = starts_late_us(replayed(log).leases.values(), granted_requests(ledger))
    if not late_us:
        return {}
    return {
        "lease_start_late_mean_us": float(np.mean(late_us)),
        "lease_start_late_most_us": float(max(late_us)),
    }


def starts_late_us(leases: Iterable[LeaseResult], requests: Iterable[RequestRecord]) -> list[int]:
    """A lease is that of the last request that was granted its hosts before it began."""
    pending = list(requests)
    found = []
    for lease in leases:
        decided_us = [
            each.decided_us
            for each in pending
            if each.decided_us is not None
            and each.decided_us <= lease.decided_us
            and set(lease.hosts) <= set(each.nodes)
        ]
        if lease.hosts and decided_us:
            found.append(lease.decided_us - max(decided_us))
    return found
