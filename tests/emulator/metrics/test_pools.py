"""Node-time by pool, and moves as columns: equal to what is worked out node by node and step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emulator.metrics import pools
from emulator.metrics.pools import node_us_by_pool
from emulator.metrics.timeline import InconsistentRecordError, timeline
from emulator.record.moves import POOLS, MoveTable
from emulator.record.run_record import NodePool, PoolMove
from oracle.hybrid_kit import STRATEGIES, random_jobs, simulate

US = 1_000_000


def random_moves(rng, nodes):
    """Moves in any order of time, some of nodes that are there already, one of nothing."""
    found = [PoolMove(3, (), NodePool.DOWN)]
    for _ in range(int(rng.integers(0, 12))):
        chosen = rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))]
        found.append(PoolMove(int(rng.integers(0, 9)), tuple(chosen.tolist()), NodePool(rng.choice(POOLS))))
    return tuple(found)


def slow_changes(moves):
    """Of each move, in order of time, what every pool has more after it."""
    where, found = {}, []
    for move in sorted(moves, key=lambda move: move.at_us):
        change = dict.fromkeys(POOLS, 0)
        for node in move.nodes:
            change[where.get(node, NodePool.OA_IDLE)] -= 1
            change[move.pool] += 1
            where[node] = move.pool
        found.append((move.at_us, list(change.values())))
    return found


def test_a_table_of_moves_is_the_moves():
    for seed in range(60):
        moves = random_moves(np.random.default_rng(seed), 5)
        table = MoveTable.of(moves)
        assert MoveTable.of(table) is table
        assert table == moves
        assert moves == table
        assert list(table) == list(moves)
        assert table[-1] == moves[-1]
        assert table[2:5] == moves[2:5]
        assert table != (*moves, moves[0])
        assert table[1:] != moves[:-1] or len(set(moves)) == 1
        assert table.has(NodePool.DOWN, NodePool.OA_BUSY) == any(
            move.pool in (NodePool.DOWN, NodePool.OA_BUSY) for move in moves
        )
        at_us, change = table.changes()
        assert list(zip(at_us.tolist(), change.tolist(), strict=True)) == slow_changes(moves)


def test_moves_of_nodes_that_fail_or_had_failed_are_failures():
    for seed in range(60):
        moves = random_moves(np.random.default_rng(seed), 5)
        down, expected = set(), []
        for move in moves:
            fails = move.pool is NodePool.DOWN
            expected.append(fails or not down.isdisjoint(move.nodes))
            down = down | {*move.nodes} if fails else down - {*move.nodes}
        assert MoveTable.of(moves).are_failures().tolist() == expected


def test_no_moves_are_a_table_too():
    assert MoveTable.of(()) == ()
    assert [column.tolist() for column in MoveTable.of(()).changes()] == [[], []]


def test_node_time_is_that_of_the_steps():
    for seed in range(60):
        jobs, nodes = random_jobs(np.random.default_rng(seed), jobs=40)
        fails = {"mtbf_s": 1e-5, "repair_s": 1e-5} if seed % 2 else {}
        record, _ = simulate(jobs, nodes, STRATEGIES[seed % 6], warning_us=2, **fails)
        assert node_us_by_pool(record) == timeline(record).node_us(), seed
        assert list(node_us_by_pool(record)) == list(POOLS)
        # Looked at for a part of the time, with moves in a tuple, and with moves that do not tell of leases.
        part = replace(record, begin_us=record.horizon_us // 3, horizon_us=2 * record.horizon_us // 3 + 1)
        assert node_us_by_pool(part) == timeline(part).node_us(), seed
        assert node_us_by_pool(replace(part, moves=tuple(part.moves))) == timeline(part).node_us(), seed
        silent = replace(record, moves=())
        assert node_us_by_pool(silent) == timeline(silent).node_us(), seed
        nothing = replace(record, horizon_us=0)
        assert node_us_by_pool(nothing) == timeline(nothing).node_us(), seed


def told(of, record):
    """What a function makes of a record, or what it says against it."""
    try:
        return of(record)
    except InconsistentRecordError as error:
        return str(error)


def test_a_node_that_is_taken_twice_is_told_of_as_by_the_steps():
    refused = 0
    for seed in range(40):
        jobs, nodes = random_jobs(np.random.default_rng(seed), jobs=40)
        record, _ = simulate(jobs, nodes, STRATEGIES[seed % 6])
        rng = np.random.default_rng(seed)
        at_us = int(rng.integers(0, record.horizon_us + 1))
        taken = tuple(range(int(rng.integers(1, nodes + 1))))
        broken = replace(record, moves=(*record.moves, PoolMove(at_us, taken, NodePool.DOWN)))
        found = told(node_us_by_pool, broken)
        assert found == told(lambda one: timeline(one).node_us(), broken), seed
        refused += isinstance(found, str)
    assert 5 < refused < 35


def slow_most(changes, before_us):
    """The highest of a sum before a time; what changes at one time is one step."""
    now, most = 0, 0
    for at_us in sorted({at for at, _ in changes if at < before_us}):
        now += sum(change for at, change in changes if at == at_us)
        most = max(most, now)
    return most


def some_changes(rng, least, most):
    """Times that often meet, and changes in these bounds."""
    count = int(rng.integers(0, 12))
    return rng.integers(0, 8, count) * int(rng.choice([1, 1 << 58])), rng.integers(least, most + 1, count)


def test_the_most_at_once_is_that_of_the_changes_one_by_one(monkeypatch):
    """Blocks of three, so that changes of one time are in two of them; times so far apart that no number holds both."""
    monkeypatch.setattr(pools, "AT_ONCE", 3)
    seen = []
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        starts, moves, ends = some_changes(rng, 0, 5), some_changes(rng, -5, 5), some_changes(rng, 0, 5)
        before_us = int(rng.choice([0, 3, 7, 8, 1 << 60, (1 << 63) - 1]))
        more = pools._Steps.of(*starts), pools._Steps.of(*moves)
        found = pools._most_at_once(more, pools._Steps.of(*ends), before_us)
        changes = [
            (at, sign * by)
            for (times, changes), sign in ((starts, 1), (moves, 1), (ends, -1))
            for at, by in zip(times.tolist(), changes.tolist(), strict=True)
        ]
        assert found == slow_most(changes, before_us), seed
        seen.append(found)
    assert sum(each > 0 for each in seen) > 1500


def test_times_and_changes_are_put_in_order():
    for seed in range(500):
        rng = np.random.default_rng(seed)
        at_us, change = some_changes(rng, -5, 5)
        pairs = sorted(zip(at_us.tolist(), change.tolist(), strict=True))
        found = pools._in_order(at_us - 3, change)
        assert np.array_equal(found[0], np.sort(at_us) - 3)
        assert sorted(zip((found[0] + 3).tolist(), found[1].tolist(), strict=True)) == pairs
