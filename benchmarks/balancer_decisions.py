"""What a decision of the Balancer costs in virtual time, by size of cluster and of lease.

python benchmarks/balancer_decisions.py
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from balancer.algorithms.basic import Basic
from balancer.clock import US, seconds, wall_us
from balancer.policy_settings import Settings
from emulator.mechanisms.balancer.policy import BalancerPolicy, Granted

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRS = 2000
CHANGES = 140_000


class ObedientPool:
    def take(self, nodes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        return nodes, ()

    def give(self, nodes: Sequence[int]) -> None:
        pass


def make_policy(nodes: int, settings: Settings) -> BalancerPolicy:
    return BalancerPolicy([f"node-{n:05d}" for n in range(nodes)], Basic(), settings, ObedientPool())


def us_per_pair(nodes: int, lease: int) -> float:
    """One lease granted and one released each minute, half of the cluster busy, R = 6, I = 600 s."""
    policy = make_policy(nodes, Settings(static_reserve=6, wait_us=300 * US))
    policy.observe(0, dict.fromkeys(range(nodes // 2), ("busy", 0)))
    held = []
    begin_us = wall_us()
    for number in range(PAIRS):
        now_us = (number + 1) * 60 * US
        wake_us = policy.next_wake_us
        if wake_us is not None and wake_us <= now_us:
            policy.timer(wake_us)
        for outcome in policy.request(now_us, number, lease):
            assert isinstance(outcome, Granted)
            held.append(outcome.nodes)
        if len(held) > 5:
            policy.release(now_us + US, held.pop(0))
    return (wall_us() - begin_us) / PAIRS


def us_per_change(nodes: int) -> float:
    """Random job starts and ends, reported 1000 nodes at a time (372 on the small cluster)."""
    policy = make_policy(nodes, Settings())
    chance = random.Random(1)
    is_busy = [False] * nodes
    batch = min(nodes, 1000)
    reports = []
    for at in range(1, CHANGES // batch + 1):
        report = {}
        for node in chance.sample(range(nodes), batch):
            is_busy[node] = not is_busy[node]
            report[node] = ("busy" if is_busy[node] else "idle", at * US - chance.randrange(US // 2))
        reports.append((at * US, report))
    begin_us = wall_us()
    for now_us, report in reports:
        policy.observe(now_us, report)
    return (wall_us() - begin_us) / (len(reports) * batch)


if __name__ == "__main__":
    for nodes in (372, 3000, 12_000):
        pairs = ", ".join(f"{us_per_pair(nodes, lease):.0f} us ({lease} nodes)" for lease in (1, 4, 16))
        change = us_per_change(nodes)
        print(
            f"{nodes} nodes: request + release {pairs}; {CHANGES} changes {seconds(round(change * CHANGES)):.2f} s"
        )
