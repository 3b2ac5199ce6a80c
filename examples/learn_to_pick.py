"""A small policy learns which job to start next, and is held against the usual orders on windows it has not seen.

    python examples/learn_to_pick.py [LOG] [--seconds 45] [--windows 40] [--seed 1]

The policy gives each waiting job a score from what is seen of it, as the kernel network of RLScheduler does (Zhang et
al., SC'20), by a layer of a few hidden units; the best score starts next. Its weights are found by the cross-entropy
method: try some around the best so far, keep the best quarter. Numpy only. It trains on the first 80 % of the log.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from emulator.metrics.jobs import bounded_slowdown
from emulator.rl import PickEnv, PickVectorEnv
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate

LOG = Path(__file__).parents[1] / "traces" / "SDSC-SP2-1998-4.2-cln.swf.xz"
USED, HIDDEN = 6, 4
"""Features of a job after the first, which only says that there is one; hidden units."""
SIZE = USED * HIDDEN + 2 * HIDDEN
CANDIDATES, WINDOWS = 32, 8
OTHERS = ("fcfs+none", "sjf+none", "smallest+none", "f1+none", "wfp3+none", "fcfs+easy", "sjf+easy")


def scores(weights, seen):
    """Of each waiting job, for one policy per environment: weights (E, SIZE), seen (E, window, features)."""
    first = weights[:, : USED * HIDDEN].reshape(-1, USED, HIDDEN)
    offset, last = weights[:, USED * HIDDEN : -HIDDEN], weights[:, -HIDDEN:]
    hidden = np.tanh(seen[:, :, 1:] @ first + offset[:, None])
    return (hidden @ last[:, :, None])[:, :, 0]


def play(env, weights, first):
    """One episode of each policy, all on the window that begins in the row `first`; the mean bounded slowdowns."""
    seen, infos = env.reset(options={"first": first})
    is_over = np.zeros(len(weights), bool)
    found = np.zeros(len(weights))
    while not is_over.all():
        picks = np.where(infos["action_mask"] == 1, scores(weights, seen["jobs"]), -np.inf).argmax(axis=1)
        seen, rewards, over, _, infos = env.step(picks)
        found = np.where(over & ~is_over, -rewards, found)
        is_over |= over
    return found


def learn(log, seconds, seed):
    """The weights, found in so many seconds."""
    rng = np.random.default_rng(seed)
    env = PickVectorEnv(log, num_envs=CANDIDATES, overrun="kill", part=(0.0, 0.8), window=128)
    middle, spread = np.zeros(SIZE, np.float32), np.full(SIZE, 1.0, np.float32)
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        tried = (middle + spread * rng.standard_normal((CANDIDATES, SIZE))).astype(np.float32)
        slowdowns = np.zeros(CANDIDATES)
        for _ in range(WINDOWS):
            found = play(env, tried, env.log.draw(rng))
            slowdowns += found
        best = tried[slowdowns.argsort()[: CANDIDATES // 4]]
        middle = 0.3 * middle + 0.7 * best.mean(axis=0)
        spread = 0.3 * spread + 0.7 * best.std(axis=0) + 0.05
        rounds += 1
    print(f"{rounds} rounds of {CANDIDATES} policies on {WINDOWS} windows")
    return middle


def of_scheduler(env, text, first):
    """The mean bounded slowdown of a scheduler on a window."""
    record = simulate(env.log.episode(first)[0], env.log.nodes, SchedulerConfig.parse(text))
    response = record.end_us - record.jobs.submit_us
    return bounded_slowdown(response, record.end_us - record.start_us).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path, nargs="?", default=LOG)
    parser.add_argument("--seconds", type=float, default=45, help="to learn")
    parser.add_argument("--windows", type=int, default=40, help="unseen ones to compare on")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    weights = learn(given.log, given.seconds, given.seed)[None]
    unseen = PickEnv(given.log, overrun="kill", part=(0.8, 1.0))
    rng = np.random.default_rng(given.seed)
    firsts = [unseen.log.draw(rng) for _ in range(given.windows)]
    rows = {}
    for name, backfill in (("learned", "none"), ("learned+easy", "easy")):
        env = PickVectorEnv(given.log, num_envs=1, overrun="kill", window=256, backfill=backfill)
        rows[name] = np.mean([play(env, weights, first)[0] for first in firsts])
    rows |= {text: np.mean([of_scheduler(unseen, text, first) for first in firsts]) for text in OTHERS}
    print(f"mean bounded slowdown on {given.windows} unseen windows of 256 jobs")
    for name, value in sorted(rows.items(), key=lambda row: row[1]):
        print(f"{name:14}{value:9.1f}")


if __name__ == "__main__":
    main()
