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
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FOUND = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class Bug:
    """`old` in `file` becomes `new`. `first`: of the seeds that are tried; the one that found it, if it is rare.

    `seed`: from here on a change tries, since this one found it when all bugs were last planted.
    """

    name: str
    file: str
    old: str
    new: str
    first: int = field(default=1, kw_only=True)
    seed: int = field(default=1, kw_only=True)


BUGS = (
    Bug(
        "reply before commit",
        "balancer/service/writer.py",
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
        seed=6,
    ),
    Bug(
        "what cannot be read means offline and empty",
        "balancer/service/commands.py",
        "work, status = self._open.get(node), states.get(node, UNKNOWN)",
        'work, status = self._open.get(node), states.get(node, NodeStatus("offline", marked=True))',
        seed=18,
    ),
    Bug(
        "wall clock for deadlines",
        "balancer/clock.py",
        "self._now_us = steady_us - max(0, min(most_us, ahead_us))",
        "self._now_us = utc_us()",
        seed=14,
    ),
    Bug(
        "missing intent",
        "balancer/service/writer.py",
        "            self._ledger.commit([each.entry for each in batch])",
        "            self._ledger.commit(\n"
        "                [replace(e.entry, changes=replace(e.entry.changes, nodes=tuple(\n"
        '                    n for n in e.entry.changes.nodes if n.state != "RECLAIMING"))) for e in batch])',
    ),
    Bug("exit 1 in the prologue", "balancer/hooks/torque.py", "REQUEUE = 2", "REQUEUE = 1"),
    Bug(
        "dropped event",
        "balancer/service/engine.py",
        "            self._write(lambda at_us, _: replace(event, at_us=at_us))",
        "            if self.clock.now_us() % 10:\n"
        "                self._write(lambda at_us, _: replace(event, at_us=at_us))",
    ),
    Bug(
        "one look is enough",
        "balancer/service/confirmation.py",
        "if looked_us - since_us >= poll_us else None",
        "if poll_us else None",
    ),
    Bug(
        "handed over although it runs a job",
        "balancer/service/confirmation.py",
        "return NodeReading.DRAINING if runs else NodeReading.DRAINED",
        "return NodeReading.DRAINED",
    ),
    Bug(
        "a lost mark is not set again",
        "balancer/service/reconciler.py",
        "            orders.append(Mark(nodes=difference.unmarked))",
        "            pass",
    ),
    Bug(
        "an operator's mark counts as ours",
        "balancer/service/reconcile.py",
        '"left_marked" if (status or UNKNOWN).is_ours else "by_hand"',
        '"left_marked"',
        seed=15,
    ),
    Bug(
        "the key is not stored",
        "balancer/service/writer.py",
        "            entry = replace(entry, answer=kept_answer(key, entry.changes, answer))",
        "            pass",
    ),
    Bug(
        "a grant that nobody confirms stays",
        "balancer/lifecycle/leases.py",
        "        due_us = now_us + confirm_us if confirm_us else _end_us(request.record, now_us)",
        "        due_us = now_us + 400 * confirm_us if confirm_us else _end_us(request.record, now_us)",
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
        seed=10,
    ),
    Bug(
        "anybody may end what is others'",
        "balancer/lifecycle/requests.py",
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
        "balancer/service/callers.py",
        '        self._leave(request_id, self._settings.hangup_s, "its caller hung up and did not come back")',
        "        pass",
        seed=34,
    ),
    Bug(
        "a job reported on a lent node is forgotten",
        "balancer/service/node_calls.py",
        "                    self._contest(busy, job, event_id)",
        "                    pass",
    ),
    Bug(
        "a look that is old will do",
        "balancer/lifecycle/looks.py",
        "        if fresh_us is None:\n            return True",
        "        if fresh_us is not None:\n            return True",
        seed=20,
    ),
    Bug(
        "a node that somebody else has marked is handed over",
        "balancer/service/confirmation.py",
        '    if status.is_foreign and status.state not in ("idle", "busy"):',
        '    if status.is_foreign and not status.note and status.state not in ("idle", "busy"):',
        seed=19,
    ),
    Bug(
        "somebody else's mark on a reserved node does not count",
        "balancer/service/reconcile.py",
        '    if batch.is_foreign and batch.state in ("offline", "down"):',
        '    if batch.is_foreign and batch.state == "down":',
    ),
    Bug(
        "a granted node that was down once has failed",
        "balancer/service/failure_detector.py",
        "at_us - since_us >= self._after_us",
        "at_us >= self._after_us",
    ),
)

MUSEUM = (
    Bug(
        "a clock set back before a restart stops all deadlines",
        "balancer/service/writer.py",
        "        clock.not_before(self._lifecycle.now_us)\n",
        "",
    ),
    Bug(
        "a reserved node on which a job was started is granted",
        "balancer/service/reconcile_table.py",
        "Seen.BATCH_BUSY, Seen.DRAINED_BUSY, Seen.FOREIGN, Seen.FOREIGN_BUSY), Action.ABANDON)",
        "Seen.FOREIGN, Seen.FOREIGN_BUSY), Action.ABANDON)\n"
        "    | dict.fromkeys((Seen.BATCH_BUSY, Seen.DRAINED_BUSY), Action.NOTHING)",
    ),
    Bug(
        "the command of a commit that failed and was stored is lost",
        "balancer/service/reconcile.py",
        "            if name not in in_hand:",
        "            if not name:",
    ),
    Bug(
        "a mark of ours that was left behind keeps its node down for ever",
        "balancer/service/reconcile.py",
        '"left_marked" if (status or UNKNOWN).is_ours else "by_hand"',
        '"by_hand"',
    ),
    Bug(
        "a look in between that contradicts does not count",
        "balancer/service/commands.py",
        "                if not states.get(node, UNKNOWN).is_handed_over:",
        "                if not node:",
    ),
    Bug(
        "an operator's own mark is taken off when a loan ends",
        "balancer/service/commands.py",
        'if status.state != "unknown" and not status.is_foreign]',
        "]",
    ),
    Bug(
        "an operator's own mark is taken off unread",
        "balancer/service/commands.py",
        'if status.state != "unknown" and not status.is_foreign]',
        "if not status.is_foreign]",
    ),
    Bug(
        "after a long outage a node is given up only when its job ends",
        "balancer/service/confirmation.py",
        "        if conclusion is Step.GIVE_BACK:",
        "        if conclusion is Step.GIVE_BACK and not self.is_late:",
    ),
    Bug(
        "a granted node that is not listed counts as looked at when it is given back",
        "balancer/service/reconcile.py",
        "is_unseen = _is_unseen(record, status, action)",
        "is_unseen = False",
        first=600_052,
    ),
    Bug(
        "a mark is renewed on a node that the same look gave back to batch",
        "balancer/service/commands.py",
        "isinstance(each, Mark) and self._is_kept_off(node)}",
        "isinstance(each, Mark)}",
        first=601_186,
    ),
    Bug(
        "a node that a person took offline after our last look is put online",
        "balancer/drivers/pbs.py",
        "            if not status.is_foreign:",
        "            if node:",
        first=604_416,
    ),
)
"""Bugs that the product once had (T28): the simulator still finds them in code that is patched back."""


@dataclass(frozen=True, slots=True)
class Survivor(Bug):
    """A bug that all tests once let pass; `test` finds it now (the arguments of pytest)."""

    test: tuple[str, ...]


_FAILURES = "tests/balancer/engine/test_failures.py"
_WHO = "tests/balancer/api/test_who_may_do_what.py"

SURVIVORS = (
    Survivor(
        "decisions made while a commit fails are forgotten",
        "balancer/service/writer.py",
        "                self._queue = batch + self._queue",
        "                self._queue = batch",
        (_FAILURES, "-k", "acknowledged"),
    ),
    Survivor(
        "our note is found anywhere in a foreign note",
        "balancer/drivers/marks.py",
        "    match = re.fullmatch(",
        "    match = re.search(",
        ("tests/balancer/drivers/test_marks.py", "-k", "contains"),
    ),
    Survivor(
        "a reading is compared with the state after it",
        "balancer/service/reconciler.py",
        "is_news=lambda node: changed_at.get(node, 0) <= before",
        "is_news=lambda node: before >= 0",
        (_FAILURES, "-k", "reading"),
    ),
    Survivor(
        "a failed timer is not tried again",
        "balancer/service/timers.py",
        "            self.wake_at(min(self._wake_us, now_us + _AGAIN_US))",
        "            pass",
        (_FAILURES, "-k", "timer"),
    ),
    Survivor(
        "an outcome that cannot be stored is dropped",
        "balancer/service/commands.py",
        "                self._open |= {",
        "                _ = {",
        (_FAILURES, "-k", "outcome"),
    ),
    Survivor(
        "a time-out kills only the parent process",
        "balancer/drivers/programs.py",
        "        os.killpg(process.pid, signal.SIGKILL)",
        "        os.kill(process.pid, signal.SIGKILL)",
        (_FAILURES, "-k", "killed"),
    ),
    Survivor(
        "on-demand may report jobs",
        "balancer/auth/policy.py",
        '    "POST /v1/update_nodes": _REPORTERS,',
        '    "POST /v1/update_nodes": _REPORTERS | _TAKERS,',
        (_WHO,),
    ),
    Survivor(
        "read-only may withdraw requests",
        "balancer/auth/policy.py",
        '    "DELETE /v1/requests/<request_id>": _TAKERS,',
        '    "DELETE /v1/requests/<request_id>": _READERS,',
        (_WHO,),
    ),
    Survivor(
        "a ledger that is older than the marks decides",
        "balancer/service/ledger_conflict.py",
        "        elif stamp.seq > last_seq or not",
        "        elif not",
        ("tests/balancer/engine/test_doubt.py", "-k", "without"),
    ),
    Survivor(
        "the mark of a quarantined node comes off",
        "balancer/service/engine.py",
        "        return record is None or record.state not in _MARKED",
        "        return True",
        ("tests/balancer/engine/test_doubt.py", "-k", "order_to_take"),
    ),
    Survivor(
        "reserves last over an event that holds nodes",
        "balancer/lifecycle/lifecycle.py",
        "                # No move is made while it is being found out which nodes may be moved.\n"
        "                self._hints.end(self.now_us)",
        "                pass",
        ("tests/balancer/lifecycle/test_conflict.py", "-k", "reserve"),
    ),
    Survivor(
        "a job whose end was lost stays on its node",
        "balancer/lifecycle/reports.py",
        "            if node is not None and node.state is NodeState.OA_BUSY and node.jobs != jobs:",
        "            if node is not None and not node.jobs:",
        ("tests/balancer/lifecycle/test_reports.py", "-k", "listed"),
    ),
    Survivor(
        "a lost tail is not noticed",
        "balancer/ledger/reader.py",
        "        if noted.seq > writer.seq:",
        "        if noted.seq < 0:",
        ("tests/balancer/ledger/test_bit_flips.py", "-k", "not_copied"),
    ),
    Survivor(
        "a file that is gone is written on",
        "balancer/ledger/store.py",
        "            self._watch.check()",
        "            pass",
        ("tests/balancer/engine/test_lost_file.py",),
    ),
)
"""Bugs that no test found when they were planted by somebody else, and bugs in what was built because of them."""


def plant(bug: Bug, folder: Path) -> Path:
    """A copy of product and tests with the bug in it. Raises ValueError when the text is not there."""
    tests = ("tests",) if isinstance(bug, Survivor) else ("tests/simulation", "tests/ledger_kit")
    for name in ("balancer", *tests):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
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
        which = ("--first", str(bug.first), "--seeds", str(limit))
        process = subprocess.run(
            (sys.executable, str(copy / "tests/simulation"), *which, "--jobs", "1"),
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    first = process.stdout.splitlines()[0] if process.stdout else process.stderr
    if process.returncode not in _FOUND:
        return None, first
    return int(first.split()[1].rstrip(":")) - bug.first + 1, first


def found_by_its_test(bug: Survivor) -> tuple[int | None, str]:
    """1 and the test that failed; None when all passed."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = plant(bug, Path(folder))
        process = subprocess.run(
            (sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *bug.test),
            env={**os.environ, "PYTHONPATH": str(copy)},
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
    failed = [line for line in process.stdout.splitlines() if line.startswith("FAILED")]
    if process.returncode != 1 or not failed:
        return None, (process.stdout + process.stderr).strip()[-150:]
    return 1, failed[0].removeprefix("FAILED ")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/planted-bugs", description="How soon planted bugs are found."
    )
    parser.add_argument("--seeds", type=int, default=100, help="look at no more than this many (default 100)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="bugs whose name has this in it")
    parser.add_argument("--museum", action="store_true", help="instead: bugs that the product once had")
    parser.add_argument(
        "--survivors", action="store_true", help="instead: bugs that a test other than this finds"
    )
    options = parser.parse_args(arguments)
    chosen: tuple[Bug, ...] = SURVIVORS if options.survivors else MUSEUM if options.museum else BUGS
    bugs = [bug for bug in chosen if not options.only or options.only in bug.name]

    def look(bug: Bug) -> tuple[int | None, str]:
        return found_by_its_test(bug) if isinstance(bug, Survivor) else seeds_to_detection(bug, options.seeds)

    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for bug, (seeds, what) in zip(bugs, pool.map(look, bugs), strict=True):
            missed += seeds is None
            print(f"{'missed' if seeds is None else seeds:>6}  {bug.name}: {what[:150]}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
