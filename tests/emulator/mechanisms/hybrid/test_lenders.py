"""Who is chosen to give nodes from the table of running jobs is whom slow strategies choose from what they see."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from emulator.kernel import tables as t
from emulator.kernel.columns import fill
from emulator.kernel.compiled import compiled
from emulator.kernel.job_states import JobState
from emulator.kernel.rows import new_record, new_rows
from emulator.machine import work as w
from emulator.machine.running import BrokenOff
from emulator.mechanisms.agenda import new_agenda
from emulator.mechanisms.hybrid import claims as c
from emulator.mechanisms.hybrid import lenders as g
from emulator.mechanisms.hybrid import state as d
from emulator.mechanisms.hybrid import strategies
from emulator.mechanisms.hybrid.decisions import Room, Running
from emulator.mechanisms.hybrid.notice_plan import Candidates
from emulator.mechanisms.hybrid.view import describe_candidates, describe_running
from emulator.mechanisms.move_log import new_move_log
from oracle.hybrid_strategies import Cup, Paa, Spaa

NODES, ROWS, WARNING_US = 400, 500, 20
STRATEGIES = {
    strategies.ArrivalBy.PAA: Paa(),
    strategies.ArrivalBy.SPAA: Spaa(),
}


@compiled
def leave(claims, who):
    g.leave(claims, who)


@compiled
def enter(job, work, claims, who, now):
    g.enter(job, work, claims, who, now)


@compiled
def make_room(state, work, claims, hybrid, needed, now):  # noqa: PLR0917
    return strategies.make_room(state, work, claims, hybrid, needed, now)


@compiled
def prepare(state, work, claims, hybrid, missing, predicted, now):  # noqa: PLR0917
    return strategies.prepare_by_prediction(state, work, claims, hybrid, missing, predicted, now)


class Machine:
    """Jobs that come and go, of all kinds, and the tables that choices look at. Few different times: many are alike."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng([seed, 5])
        self.now = 0
        self.job = new_rows(t.Job, ROWS)
        self.work = new_rows(w.JobWork, ROWS)
        self.work["width"] = rng.choice([1, 1, 1, 2, 5, 30], ROWS)
        self.work["run_us"] = rng.choice([50, 200, 1000], ROWS)
        self.work["setup_us"] = rng.choice([0, 3, 10], ROWS)
        self.work["interval_us"] = rng.choice([0, 40, 130], ROWS)
        self.work["cost_us"] = rng.choice([0, 5, 12], ROWS)
        self.work["saved"] = self.work["width"] * (
            self.work["run_us"] * rng.choice([0, 0, 0.6], ROWS)
        ).astype(int)
        self.attr = new_rows(c.HybridJob, ROWS)
        fill(self.attr, dict.fromkeys(("guest", "promised", "leaving", "place"), -1))
        self.attr["job_class"][:] = rng.choice([0, c.MALLEABLE], ROWS)
        self.attr["least"][:] = np.maximum(self.work["width"] // 3, 1)
        self.runs = new_rows(t.Run, 20_000)
        self.registers = new_record(t.Registers)
        self.counters = new_rows(c.ClaimCounters, 1)[0]
        self.lenders = c.Lenders(*np.zeros((len(c.Lenders._fields), NODES), np.int64))
        self.room = d.Room(*np.zeros((len(d.Room._fields), NODES), np.int64))
        self.hybrid_registers = new_rows(d.HybridRegisters, 1)[0]
        self.hybrid_registers.warning_us = WARNING_US
        self.busy = 0

    @property
    def state(self):
        table, plan, words = np.zeros((1, 2), np.int64), np.zeros((1, 1, 2), np.int64), np.zeros(1, np.int32)
        return t.State(
            self.job, table, words, words, plan, table, table, self.runs, words, words, table, self.registers
        )

    @property
    def claims(self):
        claim, held = new_rows(c.Claim, 1), new_rows(c.HeldNode, 1)
        index, line = np.zeros((1, 2), np.int64), np.zeros(1, np.int64)
        return c.Claims(claim, line, held, self.attr, line, self.counters, index, self.lenders)

    @property
    def hybrid(self):
        own, loans, rows, times, outages, points = (
            new_rows(row, 1) for row in (d.JobExtension, d.Loan, BrokenOff, d.WallTime, d.Outage, t.Due)
        )
        agenda, line, digits = new_agenda(1), np.zeros(1, np.int64), np.zeros(2048, np.int64)
        return d.HybridState(
            own, points, agenda, agenda, loans, new_move_log(1, 1), rows, times, self.room, digits, line, outages,
            line, self.hybrid_registers, new_rows(d.StrategyQuery, 1)[0],
        )  # fmt: skip

    def begin_run(self, who, nodes):
        row = self.registers.runs_n
        self.runs["job"][row] = who
        self.registers.runs_n += 1
        self.job["run_row"][who], self.job["state"][who], self.job["nodes"][who] = (
            row,
            JobState.RUNNING,
            nodes,
        )
        self.job["expected_end_us"][who] = self.now + self.rng.choice([40, 90, 300, 2000])

    def starts(self, who):
        nodes = self.work[who].width
        if self.attr["job_class"][who] == c.MALLEABLE:
            nodes = self.rng.integers(self.attr["least"][who], nodes + 1)
        if self.busy + self.work[who].width > NODES:
            return
        self.busy += self.work[who].width
        self.job["start_us"][who] = self.now
        self.job["kind"][who] = self.rng.random() < 0.05
        self.attr["guest"][who] = 3 if self.rng.random() < 0.1 else -1
        self.begin_run(who, nodes)

    def ends(self, who):
        leave(self.claims, who)
        self.attr["guest"][who] = self.attr["promised"][who] = self.attr["leaving"][who] = -1
        self.job["state"][who] = JobState.QUEUED
        self.busy -= self.work[who].width

    def changes(self, who):
        """Something that happens to a running job, if it can happen to this one."""
        is_given = self.attr["place"][who] >= 0
        what = self.rng.integers(0, 8)
        if what == 0 and is_given:
            self.attr["leaving"][who] = 1
            leave(self.claims, who)
        elif what == 1 and self.attr["job_class"][who] == c.MALLEABLE and self.attr["leaving"][who] < 0:
            self.begin_run(who, self.rng.integers(self.attr["least"][who], self.work[who].width + 1))
        elif what == 2 and is_given:
            slot = -1 if self.attr["promised"][who] >= 0 else 2
            self.attr["promised"][who] = self.lenders.promised_to[self.attr["place"][who]] = slot
        elif what == 3 and self.attr["guest"][who] >= 0:  # its claim is over
            self.attr["guest"][who] = -1
            if self.job["kind"][who] == t.BATCH:
                enter(self.job, self.work, self.claims, who, self.now)
        elif what > 3:
            self.ends(who)

    def goes_on(self):
        self.now += int(self.rng.choice([0, 1, 5, 30, 400]))
        for who in self.rng.integers(0, ROWS, 60).tolist():
            if self.job["state"][who] == JobState.RUNNING:
                self.changes(who)
            else:
                self.starts(who)

    def may_give(self):
        job, attr = self.job, self.attr
        return np.flatnonzero(
            (job["state"][:] == JobState.RUNNING)
            & (job["kind"][:] == t.BATCH)
            & (attr["guest"] < 0)
            & (attr["leaving"] < 0)
        )

    def shown(self):
        who = self.may_give()
        nodes, overhead, spare = (np.zeros(len(who), np.int64) for _ in range(3))
        describe_running(self.job, self.work, self.attr, who, self.now, nodes, overhead, spare)
        return Running(who, nodes, overhead, spare)

    def candidates(self, predicted):
        who = self.may_give()
        who = who[self.attr["promised"][who] < 0]
        nodes, end, stop, overhead = (np.zeros(len(who), np.int64) for _ in range(4))
        describe_candidates(
            self.job, self.work, self.attr, who, self.now, predicted, WARNING_US, nodes, end, stop, overhead
        )
        return Candidates(who, nodes, end, stop, overhead)

    def makes_room(self, needed):
        shrinks, preempts = make_room(self.state, self.work, self.claims, self.hybrid, needed, self.now)
        if shrinks == strategies.NOBODY:
            return None
        picked, fewer = self.room.picked[: shrinks + preempts].tolist(), self.room.fewer[:shrinks].tolist()
        return Room(shrink=tuple(zip(picked[:shrinks], fewer, strict=True)), preempt=tuple(picked[shrinks:]))

    def prepares(self, missing, predicted):
        promised, stops = prepare(
            self.state, self.work, self.claims, self.hybrid, missing, predicted, self.now
        )
        picked, when = self.room.picked.tolist(), self.room.fewer.tolist()
        after = promised + stops
        return set(picked[:after]), set(zip(when[promised:after], picked[promised:after], strict=True))


@pytest.mark.sample(1)
@pytest.mark.parametrize("arrival", STRATEGIES)
def test_an_arrival_has_nodes_of_whom_the_strategy_chooses(arrival):
    met = set()
    for seed in range(6):
        machine = Machine(seed)
        machine.hybrid_registers.arrival_by = arrival
        for _ in range(100):
            machine.goes_on()
            shown = machine.shown()
            all_nodes = max(int(shown.nodes.sum()), 1)
            needed = int(machine.rng.choice([1, 3, 20, 150, 300, all_nodes]))
            expected = STRATEGIES[arrival].make_room(shown, needed)
            assert machine.makes_room(needed) == expected, (seed, machine.now)
            assert machine.counters.lenders_n == len(shown.job)
            met.add("nobody" if expected is None else "shrinks" if expected.shrink else "preempts")
    assert met == {"nobody", "preempts"} | ({"shrinks"} if arrival == strategies.ArrivalBy.SPAA else set())


@pytest.mark.slow
def test_a_prediction_promises_and_stops_whom_the_strategy_does():
    met = set()
    for seed in range(12):
        machine = Machine(seed)
        for _ in range(100):
            machine.goes_on()
            predicted = machine.now + int(machine.rng.choice([-20, 0, 30, 150, 500]))
            missing = int(machine.rng.choice([1, 3, 20, 150, 300, 1000]))
            candidates = machine.candidates(predicted)
            outlook = SimpleNamespace(needed=missing, free=0, predicted_us=predicted, candidates=candidates)
            plan = Cup().prepare(outlook)
            promised, stops = set(plan.promised), set(plan.stops)
            assert machine.prepares(missing, predicted) == (promised | {job for _, job in stops}, stops)
            is_all = len(promised) + len(stops) == len(candidates.job)
            met.add("all" if is_all else "stops" if stops else "ends in time")
    assert met == {"all", "stops", "ends in time"}


def test_the_table_has_nobody_that_it_had_twice_or_left():
    machine = Machine(3)
    for _ in range(300):
        machine.goes_on()
        machine.makes_room(1)
        many = machine.counters.lenders_n
        assert sorted(machine.lenders.job[:many].tolist()) == machine.may_give().tolist()
        places = machine.attr["place"][machine.lenders.job[:many]]
        assert places.tolist() == list(range(many))
        assert (machine.attr["place"] >= 0).sum() == many
