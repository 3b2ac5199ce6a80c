"""The swarm (T1, T16), its repeatability (I16), and whether it finds planted bugs (T24)."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gates import GATE
from simulation.__main__ import main
from simulation.parts import Rates, Size, Stuck, Violation
from simulation.planted import BUGS, MUSEUM, plant, seeds_to_detection
from simulation.seeds import FINE, STUCK, WRONG, run_seed
from simulation.world import World

_CHUNK = 5
_SMALL, _LARGE = Size(), Size(nodes=64, hours=24.0)
_HERE = Path(__file__).parent
_IN_TURN = 3


def _run(seeds, size=_SMALL):
    failed = [outcome for outcome in (run_seed(seed, size) for seed in seeds) if outcome.status != FINE]
    assert not failed, f"scripts/simulate --seed {failed[0].seed}: {failed[0].what}\n{failed[0].story}"


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_world_in_which_anything_may_break_is_never_wrong_and_ends_its_work(seed):
    _run([seed])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5, 5 + GATE.small_worlds, _CHUNK))
def test_the_swarm(first):
    _run(range(first, first + _CHUNK))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + GATE.large_worlds))
def test_a_large_world(seed):
    """As many nodes as the list of invariants wants, for a day; for a week by `scripts/simulate --days`."""
    _run([seed], _LARGE)


@pytest.mark.slow
def test_a_seed_repeats_its_world_in_any_process_with_any_hash_seed():
    size = Size(hours=1.0)
    digests = {run_seed(7, size).digest}
    for hash_seed in ("0", "1"):
        said = subprocess.run(
            (sys.executable, str(_HERE), "--seed", "7", "--hours", "1"),
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(_HERE.parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        digests.add(said.split("digest ")[1].split(",")[0])
    assert len(digests) == 1


def test_after_a_lie_about_a_node_its_next_answer_is_true_whatever_else_was_asked_meanwhile(tmp_path):
    """Seed 13521: a true answer about another node came between two lies, which then agreed."""
    torque = World(1, tmp_path, rates=Rates(lie=1.0)).torque
    torque.hosts["n01"].jobs = ("1.server",)
    said = ["1.server" in torque.listing([name]) for name in ("n01", "n02", "n01")]
    assert said == [False, False, True]


@pytest.mark.parametrize(
    ("error", "status"), [(Violation("I1", "made up", "n01"), WRONG), (Stuck("I10", "x"), STUCK)]
)
def test_a_finding_has_its_exit_status_and_is_one_command_to_replay(monkeypatch, capsys, error, status):
    def fails(world):
        world.trace("n01 did something")
        raise error

    monkeypatch.setattr(World, "run", fails)
    assert main(["--seed", "3"]) == status
    said = capsys.readouterr().out
    assert "n01 did something" in said
    assert "again: scripts/simulate --seed 3" in said


def test_a_crash_of_the_product_has_its_own_exit_status(monkeypatch):
    def fails(_):
        raise ZeroDivisionError

    monkeypatch.setattr(World, "run", fails)
    assert main(["--seed", "3"]) == 3


@pytest.mark.parametrize("bug", [*BUGS, *MUSEUM], ids=lambda bug: bug.name)
def test_a_planted_bug_still_fits_the_code_it_is_planted_in(bug, tmp_path):
    plant(bug, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs("git")
@pytest.mark.parametrize("place", range(_IN_TURN))
def test_a_planted_bug_is_found(place):
    """Three in turn: which ones depends on the number of commits, so that the next change has the next three."""
    counted = subprocess.run(
        ("git", "rev-list", "--count", "HEAD"), cwd=_HERE, capture_output=True, text=True, check=False
    )
    turn = int(counted.stdout or "0") * _IN_TURN
    bug = BUGS[(turn + place) % len(BUGS)]
    seeds, what = seeds_to_detection(replace(bug, first=bug.seed), limit=100)
    assert seeds is not None, f"{bug.name} is not found: {what}"


def test_every_connection_of_a_world_is_closed_by_who_opened_it(monkeypatch):
    """Of two Balancers with one file too: Python 3.13 warns of a connection that nobody closed."""
    is_open = []

    class Told(sqlite3.Connection):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            self.opened_by = traceback.format_stack(limit=20)
            is_open.append(self.opened_by)

        def close(self):
            super().close()
            if self.opened_by in is_open:
                is_open.remove(self.opened_by)

    connect = sqlite3.connect
    for module in ("sqlite3", "sqlite3.dbapi2"):
        monkeypatch.setattr(f"{module}.connect", partial(connect, factory=Told))
    _run([2])
    assert not is_open, "".join(is_open[0])
