"""How long a restart takes: a ledger of 10,000 nodes and 100,000 events is opened and its state restored.

    python benchmarks/ledger_recovery.py --nodes 10000 --events 100000

Also what a replay of the whole log takes (`balancer ledger verify`), and the size of the file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from speed_rows import print_rows, row

from balancer.algorithms.basic import Basic
from balancer.clock import US, wall_us
from balancer.ledger.replay import differences, replay
from balancer.ledger.store import Entry, Ledger, StoredEvent
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus
from balancer.lifecycle.states import NodeState
from balancer.policy_settings import Settings


def fill(path: Path, nodes: int, events: int) -> None:
    """Pairs of a granted request and a release, as under `balancer_load.py`."""
    ledger = Ledger(path)
    ledger.take_epoch()
    names = [f"n{number:05d}" for number in range(nodes)]
    records = [NodeRecord(name=name, state=NodeState.OD_RESERVE, since_us=0) for name in names]
    batch = [_entry(1, nodes=tuple(records))]
    for seq in range(2, events + 1):
        number = (seq // 2) % nodes
        node = records[number]
        is_request = seq % 2 == 0
        records[number] = NodeRecord(
            name=node.name,
            state=NodeState.OD_ALLOC if is_request else NodeState.OD_RESERVE,
            since_us=seq,
            reserved_for=f"r{seq}" if is_request else None,
            generation=node.generation + 1,
        )
        if is_request:
            asked = RequestRecord(
                request_id=f"r{seq}",
                count=1,
                arrived_us=seq,
                deadline_us=seq,
                order=seq,
                status=RequestStatus.GRANTED,
                nodes=(node.name,),
                decided_us=seq,
            )
        else:
            asked = replace(asked, ended_us=seq, generation=1)
        batch.append(_entry(seq, nodes=(records[number],), requests=(asked,)))
        if len(batch) == 1000 or seq == events:
            ledger.commit(batch)
            batch = []
    ledger.close()


def _entry(seq: int, nodes: tuple[NodeRecord, ...], requests: tuple[RequestRecord, ...] = ()) -> Entry:
    changes = Changes(nodes=nodes, requests=requests, now_us=seq, serial=seq)
    return Entry(StoredEvent(seq, seq, f"e{seq}", "nodes_requested", "{}"), changes)


def measure(path: Path) -> dict[str, float]:
    """Seconds for the recovery (open, take the epoch, read, restore the life cycle) and for a replay."""
    start_us = wall_us()
    ledger = Ledger(path)
    ledger.take_epoch()
    snapshot = ledger.load()
    assert snapshot is not None
    Lifecycle.restore(snapshot, Basic(), Settings(static_reserve=0, wait_us=0)).resume()
    recovery_s = (wall_us() - start_us) / US
    start_us = wall_us()
    with ledger.whole() as (base, log, stored, _):
        assert stored is not None
        assert differences(stored, replay(log, base)) == []
    replay_s = (wall_us() - start_us) / US
    ledger.close()
    return {"recovery_s": round(recovery_s, 3), "replay_s": round(replay_s, 3)}


def run(nodes: int, events: int, repeats: int = 1) -> dict[str, float]:
    """The best of some measurements on one ledger."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "ledger.db"
        fill(path, nodes, events)
        found = [measure(path) for _ in range(repeats)]
        best = {key: min(each[key] for each in found) for key in found[0]}
        return {"nodes": nodes, "events": events, "file_mb": round(path.stat().st_size / 1e6, 1), **best}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="as a row for the results file")
    options = parser.parse_args()
    found = run(options.nodes, options.events, repeats=3)
    if options.json:
        print_rows([row(f"{options.nodes} nodes, {options.events} events", found)])
    else:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
