"""What is remembered of claims (who collects no more, where guests have room) is what a look at all of them finds."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.kernel.occupancy import set_offline, set_online
from emulator.mechanisms.hybrid import backfill_on_held, holds
from emulator.mechanisms.hybrid.machine import hybrid_cluster
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable

NODES = 40


class Claims:
    """A cluster without batch jobs: claims are opened, given nodes, lose some, expect nothing more and are over."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([seed, 3])
        self.cluster = hybrid_cluster(NODES, SchedulerConfig(), JobTable.empty())
        self.rules = self.cluster.rules
        self.now = 0
        self.broken = []

    def open(self):
        return self.rules._claim_order[: self.rules._count.claims_n].tolist()

    def column(self, column):
        return [int(self.rules._claim[column][slot]) for slot in self.open()]

    def happens(self):
        self.now += 1
        what = self.rng.choice(["open", "open", "break", "mend", "arrive", "take", "close"])
        slots = self.open()
        slot = int(self.rng.choice(slots)) if slots else -1
        cluster = self.cluster
        if what == "open" and len(slots) < 12:
            deadline, collects = self.now + int(self.rng.integers(1, 50)), bool(self.rng.integers(0, 4))
            self.opens(int(self.rng.integers(1, 9)), deadline, collects)
        elif what == "break":
            self.breaks(int(self.rng.integers(0, NODES)))
        elif what == "mend" and self.broken:
            set_online(cluster._state, self.broken.pop(), self.now)
        elif what == "arrive" and slots:
            holds.expect_nothing(self.rules.claims, slot)
        elif what == "take" and slots:
            holds.take_free(cluster._state, self.rules.claims, slot, int(self.rng.integers(0, 4)), self.now)
        elif what == "close" and slots:
            holds.close(cluster._state, self.rules.claims, slot, self.now)

    def opens(self, need, deadline_us, collects):
        slot = int(self.rules._claim_order[self.rules._count.claims_n])
        self.rules._count.claims_n += 1
        self.rules._claim[slot] = 0
        values = {"need": need, "head": -1, "deadline_us": deadline_us, "collects": collects, "serial": -1}
        for name, value in values.items():
            self.rules._claim[name][slot] = value

    def breaks(self, node):
        if node not in self.broken:
            slot = int(self.rules._held["holder"][node])
            if slot >= 0:
                holds.drop(self.rules.claims, slot, node, self.now)
            set_offline(self.cluster._state, node)
            self.broken.append(node)

    def collected(self):
        """What each claim needs after free nodes were collected, the earliest claim first."""
        free = self.cluster.free_count
        needs = []
        for slot in self.open():
            claim = self.rules._claim[slot]
            need, collects = claim.need, claim.collects
            took = min(need, free) if collects else 0
            free -= took
            needs.append(need - took)
        return needs

    def hosts(self):
        """The most idle nodes of a claim that has guests, and the latest deadline of one with any."""
        hosts = [
            (idle, deadline)
            for idle, deadline in zip(self.column("idle"), self.column("deadline_us"), strict=True)
            if idle > 0 and deadline >= 0
        ]
        return max((idle for idle, _ in hosts), default=0), max((at for _, at in hosts), default=-1)


@pytest.mark.slow
def test_nodes_are_collected_and_room_is_found_as_by_a_look_at_all_claims():
    collected = 0
    for seed in range(10):
        claims = Claims(seed)
        for _ in range(300):
            claims.happens()
            assert backfill_on_held.best_hosts(claims.rules.claims) == claims.hosts()
            before, expected = claims.column("need"), claims.collected()
            holds.collect(claims.cluster._state, claims.rules.claims, claims.now)
            assert claims.column("need") == expected, (seed, claims.now)
            assert backfill_on_held.best_hosts(claims.rules.claims) == claims.hosts()
            collected += before != expected
    assert collected > 300
