"""A run that goes to its end at once equals the same run that comes back at every decision point, as live."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from emulator.kernel.tables import NEVER
from emulator.mechanisms.hybrid import HybridMechanism, machine, whole
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation import loop as loops
from emulator.simulation.loop import Loop
from emulator.validation.laws import check
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import JobTable, Kind
from gates import GATE
from oracle.hybrid_kit import (
    STRATEGIES,
    announced_jobs,
    drawn_outages,
    job_table,
    make_loop,
    random_jobs,
    simulate,
)

WARNINGS_US, RELEASES_US = (0, 2, 9, 3), (10, 0, 40)
MTBFS_S, REPAIRS_S = (3e-6, 1e-5, 5e-5), (1e-6, 1e-5, 4e-5)
SCHEDULERS = ("fcfs+easy", "fcfs+easy+best_fit", "fcfs+conservative", "wfp3+easy", "f1+easy", "fcfs")


@dataclass(frozen=True, slots=True)
class World:
    """A workload and how it is run. The smallest digits of the seed vary everything, slower ones the less."""

    seed: int
    fails: bool = False

    @property
    def failing(self):
        mtbf_s = MTBFS_S[self.seed % 3] if self.fails else 0
        return {"mtbf_s": mtbf_s, "repair_s": REPAIRS_S[self.seed // 3 % 3]}

    def jobs(self):
        rng = np.random.default_rng([self.seed, 7])
        return random_jobs(rng, jobs=int(rng.choice([8, 40, 120])), nodes=int(rng.choice([12, 60])))

    def loop(self):
        return make_loop(
            *self.jobs(),
            STRATEGIES[self.seed % 6],
            warning_us=WARNINGS_US[self.seed // 6 % 4],
            release_us=RELEASES_US[self.seed // 24 % 3],
            scheduler=SCHEDULERS[(self.seed + self.seed // 72) % 6],
            **self.failing,
        )

    def outages(self):
        return drawn_outages(*self.jobs(), **self.failing)

    def run(self, *, by_steps):
        mechanism, loop = self.loop()
        loop.run(by_steps=by_steps)
        return loop.record(), mechanism


def everything(record, mechanism):
    """All that a run leaves behind; of wall times how many there are."""
    tally = mechanism.tally
    found = {each.name: getattr(record.runs, each.name).tolist() for each in fields(record.runs)}
    found |= {name: getattr(record, name).tolist() for name in ("state", "start_us", "end_us")}
    found |= {"moves": record.moves, "leases": record.leases, "horizon": record.horizon_us}
    found["figures"] = {
        name: value
        for name, value in record.figures.items()
        if not name.startswith(("decision_", "handling_"))
    }
    found["tally"] = replace(tally, decision_us=len(tally.decision_us), handling_us=len(tally.handling_us))
    return found | {"loans": mechanism.loans}


def worlds(count):
    return [World(seed) for seed in range(count)]


@pytest.fixture
def small_tables(monkeypatch):
    """Tables that have to grow all the time."""
    monkeypatch.setattr(whole, "_FIRST_ROOM", 1)
    monkeypatch.setattr(whole, "_ROOM_A_POINT", 0)
    monkeypatch.setattr(machine, "_FIRST_ROOM", 1)
    monkeypatch.setattr(machine, "_RUNS_ROOM", 1)
    monkeypatch.setattr(machine, "_LOG_ROOM", 1)


@pytest.mark.slow
def test_it_is_the_same_run():
    for world in worlds(GATE.whole_runs):
        assert everything(*world.run(by_steps=False)) == everything(*world.run(by_steps=True)), world


def test_it_is_the_same_run_where_nodes_fail():
    failures = 0
    for seed in range(GATE.whole_runs):
        world = World(seed, fails=True)
        record, mechanism = world.run(by_steps=False)
        assert everything(record, mechanism) == everything(*world.run(by_steps=True)), world
        assert check(record) == [], world
        failures += mechanism.failures.count
    assert failures > GATE.whole_runs


def what_breaks(machine, node):
    """What a node that is about to fail is used for."""
    job, slot = int(machine.node_job[node]), int(machine.rules._held["holder"][node])
    if job < 0:
        return "idle" if slot < 0 else "idle, held"
    attr = machine.rules.attributes[job]
    if machine.job_table().kind[job] == Kind.ON_DEMAND:
        return "lease" if machine.node_offline[node] else "on-demand job from the queue"
    if attr.guest >= 0:
        return "guest"
    if attr.leaving >= 0:
        return "leaving"
    if attr.job_class != JobClass.MALLEABLE:
        return "rigid"
    return "malleable" if machine.nodes_wanted(job) > attr.least else "at its least"


def test_every_action_of_a_failure_is_met():
    """A lease, a job that runs on with one node less, one that restarts, a guest, an idle held node, an idle one."""
    seen = Counter()
    for seed in range(72):
        world = World(seed, fails=True)
        loop, outages = world.loop()[1], world.outages()
        loop.begin()
        for at_us, node, fails in outages:
            while loop.now_us < at_us - 1:
                loop.step(at_us - 1)
            if fails:
                seen[what_breaks(loop.machine, node)] += 1
    assert set(seen) == {"idle", "idle, held", "rigid", "lease", "on-demand job from the queue", "guest",
                         "leaving", "malleable", "at its least"}  # fmt: skip


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_the_same_run_when_tables_grow_on_the_way(small_tables, fails):
    for world in (World(seed, fails) for seed in range(18)):
        assert everything(*world.run(by_steps=False)) == everything(*world.run(by_steps=True)), world


def test_no_decision_is_made_in_python(monkeypatch):
    def called(*_):
        raise AssertionError("a decision point came to Python")

    for name in ("on_arrival", "on_notice", "on_timer"):
        monkeypatch.setattr(HybridMechanism, name, called)
    for by_steps in (False, True):
        record, _ = World(3).run(by_steps=by_steps)
        assert len(record.leases) > 0


def many_jobs(rng):
    return random_jobs(rng, jobs=int(rng.choice([40, 150, 300])), nodes=int(rng.choice([12, 60])))


def run_looking_at_all(make_jobs, seed, *, looks_at_all, by_steps=None):
    """A run with a long queue, in which a pass looks only at who may start, or else at everybody who waits."""
    jobs, nodes = make_jobs(np.random.default_rng([seed, 9]))
    mechanism = HybridMechanism(
        STRATEGIES[seed % 6],
        release_after_s=RELEASES_US[seed // 24 % 3] / 1e6,
        warning_s=WARNINGS_US[seed // 6 % 4] / 1e6,
        mtbf_s=(0, 0, 2e-5)[seed % 3],
        repair_s=1e-5,
    )
    cluster = mechanism.make_machine(nodes, SchedulerConfig(), job_table(jobs), 1)
    counters = cluster.rules._count
    assert counters.easy
    if looks_at_all:
        counters.easy = counters.in_order = 0
    loop = Loop(cluster, mechanism)
    loop.run(by_steps=bool(seed // 7 % 2) if by_steps is None else by_steps)
    return everything(loop.record(), mechanism)


@pytest.mark.parametrize("make_jobs", [many_jobs, announced_jobs])
def test_a_pass_that_looks_only_at_who_may_start_starts_the_same_jobs(make_jobs):
    for seed in range(GATE.whole_runs):
        some, all_ = (run_looking_at_all(make_jobs, seed, looks_at_all=looks) for looks in (False, True))
        assert some == all_, seed


def hardly_interrupted(rng):
    """Where nobody is preempted for a while, a pass relies on what it knows of those it left waiting."""
    jobs, nodes = random_jobs(rng, jobs=300, nodes=int(rng.choice([12, 60])))
    return [job for k, job in enumerate(jobs) if job.kind != "on_demand" or k % 20 == 0], nodes


@pytest.mark.parametrize("make_jobs", [many_jobs, announced_jobs, hardly_interrupted])
def test_an_index_of_who_waits_starts_the_same_jobs(make_jobs, monkeypatch):
    for seed in range(GATE.whole_runs):
        monkeypatch.setattr(machine, "LONG_QUEUE", (1, 8, 24, 60)[seed % 4])  # it is given up at a quarter
        by_index = run_looking_at_all(make_jobs, seed, looks_at_all=False, by_steps=False)
        monkeypatch.setattr(machine, "LONG_QUEUE", NEVER)
        all_ = run_looking_at_all(make_jobs, seed, looks_at_all=True, by_steps=False)
        assert by_index == all_, seed


def overloaded(seed):
    """Tens of thousands of rows of which thousands wait: blocks of all levels of the index."""
    rng = np.random.default_rng(seed)
    count = 70_000
    rows = np.arange(count)
    nodes = np.minimum(1 + rng.geometric(0.2, count) * rng.integers(1, 12, count), 200).astype(np.int64)
    run_us = rng.integers(1, 60, count) * rng.choice([1, 1, 1, 20], count)
    estimate_us = run_us + rng.choice([0, 5, 60], count)
    submit_us = np.sort(rng.integers(0, int((nodes * run_us).sum() / 200 / 1.05), count))
    kind = np.where(rng.random(count) < 0.03, Kind.ON_DEMAND, Kind.BATCH)
    job_class = np.where(kind == Kind.ON_DEMAND, 0, rng.choice([0, 2], count))
    notice_us = np.where(kind == Kind.ON_DEMAND, np.maximum(submit_us - 30, 0), -1)
    return JobTable.build(
        submit_us=submit_us,
        run_us=run_us,
        estimate_us=estimate_us,
        nodes=nodes,
        number=rows + 1,
        kind=kind,
        extra={
            "job_class": job_class,
            "min_nodes": np.where(job_class == 2, np.maximum(nodes // 3, 1), nodes),
            "max_nodes": nodes,
            "setup_us": np.zeros(count, np.int64),
            "notice_us": notice_us,
            "predicted_us": np.where(kind == Kind.ON_DEMAND, submit_us, -1),
        },
    )


@pytest.mark.parametrize("strategy", ["cup+spaa", "cua+paa"])
def test_an_index_of_thousands_who_wait_starts_the_same_jobs(strategy, monkeypatch):
    found = []
    jobs = overloaded(5)
    for from_jobs in (64, NEVER):
        monkeypatch.setattr(machine, "LONG_QUEUE", from_jobs)
        mechanism = HybridMechanism(strategy, release_after_s=40e-6, warning_s=2e-6)
        cluster = mechanism.make_machine(200, SchedulerConfig(), jobs, 1)
        loop = Loop(cluster, mechanism)
        loop.run()
        record = loop.record()
        found.append((record.runs.job.tolist(), record.runs.start_us.tolist(), record.runs.node.tolist()))
    assert cluster.rules.guest_starts > 100
    waited = np.sort(record.start_us - record.jobs.submit_us)
    assert waited[-10_000] > 0
    assert found[0] == found[1]


def test_a_run_that_is_looked_at_on_the_way_tells_the_same_in_the_end(monkeypatch):
    monkeypatch.setattr(loops, "_PAUSE_AFTER", 3)
    monkeypatch.setattr(loops, "_next_pause", lambda instants, _: instants)
    jobs, nodes = random_jobs(np.random.default_rng(11), jobs=120)
    mechanism = HybridMechanism("cup+spaa", release_after_s=1e-5, warning_s=2e-6)
    loop = Loop(mechanism.make_machine(nodes, SchedulerConfig(), job_table(jobs), 1), mechanism)
    seen = []

    def look(now_us, *_):
        record = loop.record(interrupted="under way")
        assert check(record) == []
        seen.append((now_us, len(record.moves)))
        return True

    assert loop.run(look)
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
    by_steps = simulate(jobs, nodes, "cup+spaa", warning_us=2, by_steps=True)
    assert everything(loop.record(), mechanism) == everything(*by_steps)


def test_a_run_that_is_stopped_has_a_lawful_record(monkeypatch):
    monkeypatch.setattr(loops, "_PAUSE_AFTER", 3)
    jobs, nodes = random_jobs(np.random.default_rng(11), jobs=120)
    mechanism = HybridMechanism("cua+spaa", warning_s=2e-6)
    loop = Loop(mechanism.make_machine(nodes, SchedulerConfig(), job_table(jobs), 1), mechanism)
    assert not loop.run(lambda *_: False)
    record = loop.record(interrupted="stopped by the user")
    assert 0 < record.horizon_us < max(job.submit_us for job in jobs)
    assert check(record) == []
