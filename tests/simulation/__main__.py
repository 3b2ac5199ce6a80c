"""Run worlds: `scripts/simulate --seed N` replays one, `--seeds N` runs many.

Exit status: 0 nothing found, 2 bad arguments, 3 the product crashed, 4 stuck (no progress after healing),
5 wrong (an invariant does not hold).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that this folder is the package `simulation`

from balancer.clock import seconds, wall_us
from simulation.parts import Size, Stuck, Violation
from simulation.world import World, describe, scratch

FINE, CRASHED, STUCK, WRONG = 0, 3, 4, 5
_NAMES = {CRASHED: "crash", STUCK: "stuck", WRONG: "wrong"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed ended. `status` is the exit status it leads to."""

    seed: int
    status: int
    digest: str
    steps: int
    took_us: int
    what: str = ""
    story: str = ""


def run_seed(seed: int, size: Size) -> Outcome:
    start_us = wall_us()
    with scratch() as folder:
        world = World(seed, folder, size)
        status, what, node = FINE, "", ""
        try:
            world.run()
        except Stuck as error:
            status, what, node = STUCK, str(error), error.node
        except Violation as error:
            status, what, node = WRONG, str(error), error.node
        except Exception:  # noqa: BLE001 - whatever the product raised is the finding
            status, what = CRASHED, traceback.format_exc()
    story = ""
    if status != FINE:
        lines = world.story(node) if node else world.lines[-60:]
        story = "\n".join([f"faults: {describe(world.rates)}", *lines])
    return Outcome(seed, status, world.digest, world.checks.done, wall_us() - start_us, what, story)


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
    parser.add_argument("--hours", type=float, default=Size().hours, help="virtual hours with faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failing seed")
    options = parser.parse_args(arguments)
    size = Size(nodes=options.nodes, hours=options.hours)
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
    start_us = wall_us()
    worst, failed, done, steps, busy_us = FINE, 0, 0, 0, 0
    with multiprocessing.Pool(options.jobs) as pool:
        for outcome in pool.imap_unordered(partial(run_seed, size=size), seeds):
            done, steps, busy_us = done + 1, steps + outcome.steps, busy_us + outcome.took_us
            if outcome.status:
                failed, worst = failed + 1, max(worst, outcome.status)
                _print(outcome)
                sys.stdout.flush()
                if not options.keep_going:
                    break
        pool.terminate()
    took_s = seconds(wall_us() - start_us)
    print(
        f"{done} seeds of {size.nodes} nodes and {size.hours:g} h: {failed} failed; {steps} steps; "
        f"{seconds(busy_us) / max(done, 1):.2f} s a seed, {took_s:.0f} s in all"
    )
    return worst


if __name__ == "__main__":
    sys.exit(main())
