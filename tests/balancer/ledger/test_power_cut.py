"""The power fails: of SQLite's write-ahead log only a beginning is on the disk (T4).

Whatever is left, the history in it is a prefix of the true one, everything that was acknowledged when the log
had reached that length is in it, and the log still gives the state.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState
from gates import GATE
from ledger_kit.places import Place, entry, node, replayed, request

_HEADER, _FRAME = 32, 24 + 4096


pytestmark = pytest.mark.slow


def workload(ledger, wal, chance):
    """Random batches; (number of the last event, length of the write-ahead log) after each acknowledgement."""
    states = list(NodeState)
    nodes, waiting, seq = {}, {}, 0
    acknowledged = []
    for _ in range(40):
        batch = []
        for _ in range(chance.randint(1, 4)):
            seq += 1
            name = f"n{chance.randint(1, 40):02d}"
            nodes[name] = nodes.get(name, -1) + 1
            changes = {"nodes": (node(name, chance.choice(states), generation=nodes[name]),)}
            if chance.random() < 0.5:
                changes["requests"] = (request(seq, at_us=seq),)
                waiting[seq] = seq
            elif waiting:
                number = waiting.pop(chance.choice(list(waiting)))
                granted = request(number, at_us=number, status=RequestStatus.GRANTED, generation=1)
                changes["requests"] = (granted,)
            batch.append(entry(seq, at_us=seq, **changes))
        ledger.commit(batch)
        acknowledged.append((seq, wal.stat().st_size))
    return acknowledged


def test_after_a_power_cut_the_history_is_a_prefix_with_all_that_was_acknowledged(memory):
    for seed in range(GATE.power_cut_workloads):
        chance = random.Random(seed)
        place = Place(memory / f"{seed}.db")
        ledger = place.open()
        wal = Path(f"{place.target}-wal")
        acknowledged = workload(ledger, wal, chance)
        whole = list(ledger.log(0))
        database, log = place.target.read_bytes(), wal.read_bytes()
        place.close()
        cuts = [_HEADER + _FRAME * number for number in range((len(log) - _HEADER) // _FRAME + 1)]
        cuts += [chance.randint(0, len(log)) for _ in range(200)]
        assert len(cuts) > 300
        first = None
        for cut in cuts:
            left = Place(memory / "cut.db")
            left.target.write_bytes(database)
            # The rest of the block is what the disk happened to hold: zeros, or an older log's bytes.
            rest = chance.choice([b"", bytes(_FRAME), chance.randbytes(_FRAME)])
            Path(f"{left.target}-wal").write_bytes(log[:cut] + rest)
            Path(f"{left.target}-shm").unlink(missing_ok=True)
            opened = left.open(writes=False)
            history = list(opened.log(0))
            assert history == whole[: len(history)]
            kept = max((seq for seq, length in acknowledged if length <= cut), default=0)
            assert len(history) >= kept, cut
            assert opened.last_seq() == len(history)
            if history:
                assert replayed(opened) == opened.load()
            first = len(history) if first is None else min(first, len(history))
            left.close()
        assert first < len(whole)
