"""Runs of drawn workloads under drawn settings: lawful, to the end and wherever they are stopped."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import numpy as np
import pytest

from balancer.clock import US
from balancer.lifecycle.lifecycle import Lifecycle
from emulator.cluster.cluster import Cluster
from emulator.config.node_names import default_node_names
from emulator.kernel.job_states import JobState
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.plugins.failure import PluginError
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.validation.laws import check
from emulator.workload.table import JobTable, Kind
from gates import GATE

SCHEDULERS = (
    {"order": "fcfs", "backfill": "easy"},
    {"order": "fcfs", "backfill": "easy", "choice": "best_fit"},
    {"order": "fcfs", "backfill": "conservative"},
    {"order": "wfp3", "backfill": "easy"},
    {"order": "fcfs", "backfill": "none"},
    {"order": "fcfs", "backfill": "easy", "pass": "event"},
    {"order": "fcfs", "backfill": "easy", "cycle_s": 7},
    {"order": "sjf", "backfill": "easy", "pass": "event", "exact_ends_first": True},
    {"order": "fcfs", "backfill": "easy", "reservation": "kept", "head_waits": True},
)
PREDICTORS = (
    None, None, "peak", {"peak": {"window": True, "month_days": 3}}, "seasonal_quantile", "recency_weighted",
)  # fmt: skip


def draw(rng, *values):
    return values[int(rng.integers(len(values)))]


def random_jobs(rng, nodes):
    """Batch jobs and leases in whole seconds that are small numbers, many at one time; some leases last no time."""
    count, share = draw(rng, 8, 40, 120), draw(rng, 0.2, 0.5, 0.9)
    submit = np.cumsum(rng.integers(0, 12, count) * (rng.random(count) < 0.6))
    is_lease = rng.random(count) < share
    widest = np.where(is_lease, draw(rng, max(1, nodes // 6), nodes), draw(rng, max(1, nodes // 3), nodes))
    run = np.where(is_lease & (rng.random(count) < 0.1), 0, rng.integers(1, 40, count))
    extra = {}
    if rng.random() < 0.3:  # each lease is announced when a column says, before it comes or after it
        extra["notice_us"] = np.where(
            is_lease & (rng.random(count) < 0.7), np.maximum(submit - rng.integers(-5, 30, count), 0) * US, -1
        )
    return JobTable.build(
        submit_us=submit * US,
        run_us=run * US,
        estimate_us=(run + rng.choice([0, 0, 3, 20], count)) * US,
        nodes=rng.integers(1, widest + 1),
        kind=np.where(is_lease, Kind.ON_DEMAND, Kind.BATCH),
        extra=extra,
    )


def random_settings(rng, nodes):
    """Parameters of the mechanism, all of them drawn but for the cloud's."""
    algorithm = draw(rng, "basic", "hint")
    predictor = draw(rng, *PREDICTORS)
    settings = {
        "algorithm": algorithm,
        "static_reserve": 0 if algorithm == "hint" else int(rng.integers(0, nodes + 1)) // draw(rng, 1, 4),
        "reserve_rule": draw(rng, "fixed", "refilled"),
        "wait_s": draw(rng, 0, 0, 3, 17, 60),
        "idle_reserve_s": draw(rng, 0, 1, 9, 45),
        "pick": draw(rng, "longest_idle", "shortest_idle", "name"),
        "notice_s": draw(rng, 0, 0, 5, 25),
        "predictor": predictor,
    }
    if predictor is not None:
        settings["slots_per_day"] = draw(rng, 1440, 4320, 12343)
        settings["keep"] = draw(rng, "slot", "hold")
        settings["history"] = rng.integers(0, nodes + 3, draw(rng, 0, 3, 3000)).tolist()
    return settings


class World:
    """A workload, a machine and how it is run, all drawn."""

    def __init__(self, seed):
        rng = np.random.default_rng([seed, 31])
        self.seed = seed
        self.nodes = int(rng.integers(1, draw(rng, 4, 12, 60) + 1))
        self.jobs = random_jobs(rng, self.nodes)
        self.settings = random_settings(rng, self.nodes)
        self.scheduler = SCHEDULERS[seed % len(SCHEDULERS)]
        # Names whose order is another one than that of the nodes.
        names = (f"n{number}" for number in rng.permutation(self.nodes))
        self.names = tuple(names) if rng.random() < 0.5 else default_node_names(self.nodes)

    def __repr__(self):
        return f"seed {self.seed}: {self.nodes} nodes, {self.scheduler}, {self.settings}"

    def loop(self):
        config = SchedulerConfig.from_mapping(self.scheduler)
        mechanism = BalancerMechanism(**self.settings)
        return Loop(Cluster(self.nodes, config, self.jobs), mechanism, node_names=self.names)

    def run(self):
        loop = self.loop()
        assert loop.run()
        return loop


def everything(loop):
    """All that a run leaves behind."""
    record = loop.record()
    found = {each.name: getattr(record.runs, each.name).tolist() for each in fields(record.runs)}
    found |= {name: getattr(record, name).tolist() for name in ("state", "start_us", "end_us")}
    found |= {"moves": list(record.moves), "leases": record.leases, "horizon": record.horizon_us}
    actions = loop.decisions.actions
    return found | {"counts": (actions.granted, actions.rejected), "now": actions.now_us}


def worlds(count):
    return [World(seed) for seed in range(count)]


def busy_world():
    return next(world for world in worlds(72) if len(world.jobs) == 120)


@pytest.mark.slow
def test_a_run_is_lawful_its_indices_agree_and_everything_becomes_of_some_request(monkeypatch):
    seen = Counter()
    handle, reject, grant = Lifecycle.handle, Lifecycle._reject, Lifecycle._grant

    def validated(self, event):
        told = handle(self, event)
        self.validate()
        return told

    def watched_reject(self, request, reason):
        seen["rejected" + (", nodes let go" if request.reserved else "")] += 1
        reject(self, request, reason)

    def watched_grant(self, request):
        seen["granted" + (" after a wait" if request.record.arrived_us < self.now_us else "")] += 1
        grant(self, request)

    monkeypatch.setattr(Lifecycle, "handle", validated)
    monkeypatch.setattr(Lifecycle, "_reject", watched_reject)
    monkeypatch.setattr(Lifecycle, "_grant", watched_grant)
    for world in worlds(GATE.reference_workloads):
        assert check(world.run().record()) == [], world
    assert set(seen) == {"rejected", "rejected, nodes let go", "granted", "granted after a wait"}


def test_a_run_that_is_looked_at_on_the_way_tells_the_same_in_the_end():
    world = busy_world()
    loop = world.loop()
    seen = []

    def look(now_us, ended, granted, rejected):
        record = loop.record(interrupted="under way")
        assert check(record) == []
        assert (granted, rejected) == (
            sum(lease.granted for lease in record.leases),
            sum(not lease.granted for lease in record.leases),
        )
        seen.append((now_us, ended, granted + rejected))
        return True

    assert loop.run(look)
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
    assert everything(loop) == everything(world.run())


def test_a_run_that_is_stopped_has_a_lawful_record():
    world = busy_world()
    loop = world.loop()
    assert not loop.run(lambda now_us, *_: now_us < 20 * US)
    record = loop.record(interrupted="stopped by the user")
    assert 20 * US <= record.horizon_us < world.jobs.submit_us.max()
    assert check(record) == []


class FailsLate:
    """A queue order that fails when it is asked for the sixth time."""

    def __init__(self):
        self.asked = 0

    def priority(self, now_us, queue):
        self.asked += 1
        if self.asked > 5:
            raise ValueError("out of order")
        return -queue.submit_us.astype(np.float64)


def test_a_queue_order_that_fails_ends_the_run_where_it_failed(monkeypatch):
    monkeypatch.setattr(SchedulerConfig, "make_order", lambda _: FailsLate())
    world = busy_world()
    loop = world.loop()
    with pytest.raises(PluginError, match="out of order"):
        loop.run()
    record = loop.record()
    assert "out of order" in record.interrupted
    assert (record.state == JobState.QUEUED).any()
    assert check(record) == []
