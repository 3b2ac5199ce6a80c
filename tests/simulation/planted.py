"""Bugs planted into a copy of the product, to see that the simulator finds them (T24).

Each is a replacement of text in one file. `scripts/planted-bugs` runs all and prints the seeds to detection.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FOUND = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class Bug:
    """`old` in `file` becomes `new`."""

    name: str
    file: str
    old: str
    new: str


BUGS = (
    Bug(
        "reply before commit",
        "balancer/writer.py",
        "        self._commit(decided)\n        return decided",
        '        if type(event).__name__ == "NodesRequested" and len(self._queue) < 2:\n'
        "            return decided\n"
        "        self._commit(decided)\n        return decided",
    ),
    Bug(
        "generation does not rise",
        "balancer/lifecycle/nodes.py",
        "            node.generation += 1",
        "            node.generation += node.state is not NodeState.OD_ALLOC",
    ),
    Bug(
        "what cannot be read means offline and empty",
        "balancer/commands.py",
        "work, status = self._open.get(node), states.get(node, UNKNOWN)",
        'work, status = self._open.get(node), states.get(node, NodeStatus("offline", marked=True))',
    ),
    Bug(
        "wall clock for deadlines",
        "balancer/clock.py",
        "return self._epoch_us + wall_us() - self._start_us",
        "return time.time_ns() // 1000",
    ),
    Bug(
        "missing intent",
        "balancer/writer.py",
        "                    self._ledger.commit([each.entry for each in batch])",
        "                    self._ledger.commit(\n"
        "                        [replace(e.entry, changes=replace(e.entry.changes, nodes=tuple(\n"
        '                            n for n in e.entry.changes.nodes if n.state != "RECLAIMING"))) for e in batch])',
    ),
    Bug("exit 1 in the prologue", "balancer/hooks.py", "REQUEUE = 2", "REQUEUE = 1"),
    Bug(
        "dropped event",
        "balancer/engine.py",
        "                self._write(lambda at_us, _: replace(event, at_us=at_us))",
        "                if self.clock.now_us() % 10:\n"
        "                    self._write(lambda at_us, _: replace(event, at_us=at_us))",
    ),
    Bug(
        "one look is enough",
        "balancer/confirmation.py",
        "if looked_us - since_us >= poll_us else None",
        "if poll_us else None",
    ),
    Bug(
        "handed over although it runs a job",
        "balancer/drivers/base.py",
        'return self.state == "offline" and not self.jobs',
        'return self.state == "offline"',
    ),
    Bug(
        "a lost mark is not set again",
        "balancer/reconciler.py",
        "            orders.append(Mark(nodes=difference.unmarked))",
        "            pass",
    ),
    Bug(
        "an operator's mark counts as ours",
        "balancer/reconcile.py",
        '"left_marked" if (status or UNKNOWN).is_ours else "by_hand"',
        '"left_marked"',
    ),
    Bug(
        "the key is not stored",
        "balancer/writer.py",
        "        kept = _kept(key, changes, answer) if key is not None else None",
        "        kept = None",
    ),
    Bug(
        "a grant that nobody confirms stays",
        "balancer/lifecycle/leases.py",
        "        due_us = now_us + confirm_us if confirm_us else _end_us(record, now_us)",
        "        due_us = now_us + 400 * confirm_us if confirm_us else _end_us(record, now_us)",
    ),
    Bug(
        "a lease never ends",
        "balancer/lifecycle/leases.py",
        "                self._end(lease, [node for node in lease.nodes if node in empty], now_us)",
        "                pass",
    ),
    Bug(
        "a lease ends although a server runs",
        "balancer/lifecycle/leases.py",
        "            if self._settings.has_cloud:",
        "            if not self._settings:",
    ),
    Bug(
        "anybody may end what is others'",
        "balancer/lifecycle/leases.py",
        '    if record.owner not in ("", event.by) and not event.as_operator:',
        "    if not record.owner and not event.as_operator:",
    ),
    Bug(
        "W does not bound a wait for the batch system",
        "balancer/lifecycle/requests.py",
        "        return self.end_us is not None and now_us > self.end_us",
        "        return False",
    ),
    Bug(
        "who hangs up is waited for",
        "balancer/callers.py",
        '        self._leave(request_id, self._settings.hangup_s, "its caller hung up and did not come back")',
        "        pass",
    ),
    Bug(
        "a job reported on a lent node is forgotten",
        "balancer/engine.py",
        "                    self._contest(busy, job, event_id)",
        "                    pass",
    ),
    Bug(
        "a look that is old will do",
        "balancer/lifecycle/lifecycle.py",
        "        if fresh_us is None:\n            return True",
        "        if fresh_us is not None:\n            return True",
    ),
    Bug(
        "a node that somebody else has marked is handed over",
        "balancer/confirmation.py",
        '    if status.is_foreign and status.state not in ("idle", "busy"):',
        '    if status.is_foreign and not status.note and status.state not in ("idle", "busy"):',
    ),
    Bug(
        "somebody else's mark on a reserved node does not count",
        "balancer/reconcile.py",
        '    if batch.is_foreign and batch.state in ("offline", "down"):',
        '    if batch.is_foreign and batch.state == "down":',
    ),
)

MUSEUM = (
    Bug(
        "a clock set back before a restart stops all deadlines",
        "balancer/writer.py",
        "        clock.not_before(self._lifecycle.now_us)\n",
        "",
    ),
    Bug(
        "a reserved node on which a job was started is granted",
        "balancer/reconcile_table.py",
        "Seen.BATCH_BUSY, Seen.DRAINED_BUSY, Seen.FOREIGN, Seen.FOREIGN_BUSY), Action.GIVE_UP)",
        "Seen.FOREIGN, Seen.FOREIGN_BUSY), Action.GIVE_UP)\n"
        "    | dict.fromkeys((Seen.BATCH_BUSY, Seen.DRAINED_BUSY), Action.NOTHING)",
    ),
    Bug(
        "the command of a commit that failed and was stored is lost",
        "balancer/reconcile.py",
        "            if name not in in_hand:",
        "            if not name:",
    ),
    Bug(
        "a mark of ours that was left behind keeps its node down for ever",
        "balancer/reconcile.py",
        '"left_marked" if (status or UNKNOWN).is_ours else "by_hand"',
        '"by_hand"',
    ),
    Bug(
        "a look in between that contradicts does not count",
        "balancer/commands.py",
        "                if not states.get(node, UNKNOWN).is_handed_over:",
        "                if not node:",
    ),
    Bug(
        "an operator's own mark is taken off when a loan ends",
        "balancer/commands.py",
        'if status.state != "unknown" and not status.is_foreign]',
        "]",
    ),
    Bug(
        "an operator's own mark is taken off unread",
        "balancer/commands.py",
        'if status.state != "unknown" and not status.is_foreign]',
        "if not status.is_foreign]",
    ),
    Bug(
        "after a long outage a node is given up only when its job ends",
        "balancer/confirmation.py",
        "        if conclusion is Step.GIVE_BACK:",
        "        if conclusion is Step.GIVE_BACK and not self.is_late:",
    ),
)
"""Bugs that the product once had (T28): the simulator still finds them in code that is patched back."""


def plant(bug: Bug, folder: Path) -> Path:
    """A copy of product and simulator with the bug in it. Raises ValueError when the text is not there."""
    for name in ("balancer", "tests/simulation"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / bug.file
    text = file.read_text(encoding="utf-8")
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.name}: {bug.file} has the text {text.count(bug.old)} times, not once")
    file.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
    return folder


def seeds_to_detection(bug: Bug, limit: int) -> tuple[int | None, str]:
    """How many seeds it took and what was found; None: not found within `limit` seeds."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = plant(bug, Path(folder))
        process = subprocess.run(
            (sys.executable, str(copy / "tests/simulation"), "--seeds", str(limit), "--jobs", "1"),
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    first = process.stdout.splitlines()[0] if process.stdout else process.stderr
    if process.returncode not in _FOUND:
        return None, first
    return int(first.split()[1].rstrip(":")), first


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/planted-bugs", description="How soon planted bugs are found."
    )
    parser.add_argument("--seeds", type=int, default=100, help="look at no more than this many (default 100)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="bugs whose name has this in it")
    parser.add_argument("--museum", action="store_true", help="instead: bugs that the product once had")
    options = parser.parse_args(arguments)
    bugs = [
        bug for bug in (MUSEUM if options.museum else BUGS) if not options.only or options.only in bug.name
    ]
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for bug, (seeds, what) in zip(
            bugs, pool.map(partial(seeds_to_detection, limit=options.seeds), bugs), strict=True
        ):
            missed += seeds is None
            print(f"{'missed' if seeds is None else seeds:>6}  {bug.name}: {what[:150]}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
