"""Run worlds: `scripts/simulate --seed N` replays one, `--seeds N` runs many.

Exit status: 0 nothing found, 2 bad arguments, 3 the product crashed, 4 stuck (no progress after healing),
5 wrong (an invariant does not hold).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that this folder is the package `simulation`

from balancer.clock import US, seconds, wall_us
from simulation.parts import Size
from simulation.seeds import CRASHED, FINE, STUCK, WRONG, Outcome, run_seed
from simulation.world import scratch

_SAY_US = 10 * US
_NAMES = {CRASHED: "crash", STUCK: "stuck", WRONG: "wrong"}


def _print(outcome: Outcome) -> None:
    print(f"seed {outcome.seed}: {_NAMES[outcome.status]}: {outcome.what}")
    print(outcome.story)
    print(f"again: scripts/simulate --seed {outcome.seed}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="run this world and print its digest")
    parser.add_argument("--seed", type=int, dest="one", help="the same")
    parser.add_argument("--seeds", type=int, metavar="N", help="run N worlds")
    parser.add_argument("--first", type=int, default=1, help="number of the first of them (default 1)")
    parser.add_argument("--nodes", type=int, default=Size().nodes)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=float, default=Size().hours, help="virtual hours with faults")
    length.add_argument("--days", type=float, help="the same in days")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failing seed")
    options = parser.parse_args(arguments)
    size = Size(nodes=options.nodes, hours=options.hours if options.days is None else 24 * options.days)
    seed = options.seed if options.seed is not None else options.one
    if (seed is None) == (options.seeds is None):
        parser.error("give a seed, or --seeds N")
    if seed is not None:
        outcome = run_seed(seed, size)
        if outcome.status:
            _print(outcome)
        print(
            f"seed {seed}: digest {outcome.digest}, {outcome.steps} steps, {seconds(outcome.took_us):.2f} s"
        )
        return outcome.status
    return _many(range(options.first, options.first + options.seeds), size, options)


def _many(seeds: range, size: Size, options: argparse.Namespace) -> int:
    tally = _Tally(len(seeds), size)
    with scratch() as folder, multiprocessing.Pool(options.jobs) as pool:
        for outcome in pool.imap_unordered(partial(run_seed, size=size, parent=folder), seeds):
            tally.add(outcome)
            if outcome.status and not options.keep_going:
                break
        pool.terminate()
        pool.join()
    print(tally)
    return tally.worst


class _Tally:
    """What the seeds so far came to; findings are printed at once, progress every few seconds."""

    def __init__(self, planned: int, size: Size) -> None:
        self._planned, self._size = planned, size
        self._start_us = self._said_us = wall_us()
        self._done = self._failed = self._steps = self._busy_us = 0
        self.worst = FINE

    def add(self, outcome: Outcome) -> None:
        self._done, self._steps = self._done + 1, self._steps + outcome.steps
        self._busy_us += outcome.took_us
        if outcome.status:
            self._failed, self.worst = self._failed + 1, max(self.worst, outcome.status)
            _print(outcome)
            sys.stdout.flush()
        if wall_us() - self._said_us > _SAY_US:
            self._said_us = wall_us()
            print(
                f"{self._done} of {self._planned} seeds, {self._failed} failed", file=sys.stderr, flush=True
            )

    def __str__(self) -> str:
        took_s = seconds(wall_us() - self._start_us)
        return (
            f"{self._done} seeds of {self._size.nodes} nodes and {self._size.hours:g} h: {self._failed} failed; "
            f"{self._steps} steps; {seconds(self._busy_us) / max(self._done, 1):.2f} s a seed, {took_s:.0f} s in all"
        )


if __name__ == "__main__":
    sys.exit(main())
