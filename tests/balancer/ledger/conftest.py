"""A place for a ledger, in each database."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger_kit.places import Place
from ledger_kit.postgresql import BACKENDS, running


@pytest.fixture(scope="session")
def postgresql():
    """A PostgreSQL server of this test run."""
    with running() as server:
        yield server


@pytest.fixture
def sqlite_place(tmp_path):
    made = Place(tmp_path / "ledger.db")
    yield made
    made.close()


@pytest.fixture
def memory():
    """A folder in memory, for tests that write a great deal and never lose power; else on the disk."""
    folder = Path("/dev/shm")  # noqa: S108 - only where to look for it
    made = Path(tempfile.mkdtemp(dir=folder if folder.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=BACKENDS)
def fast_place(request, memory):
    """As `place`, with SQLite's file in memory."""
    if request.param == "sqlite":
        made = Place(memory / "ledger.db")
    else:
        made = Place(request.getfixturevalue("postgresql").new_database())
    yield made
    made.close()


@pytest.fixture(params=BACKENDS)
def place(request, tmp_path):
    """The same test for SQLite and PostgreSQL."""
    if request.param == "sqlite":
        made = Place(tmp_path / "ledger.db")
    else:
        made = Place(request.getfixturevalue("postgresql").new_database())
    yield made
    made.close()


@dataclass(frozen=True)
class Sizes:
    """How much of a test that could go on for ever is done: as `docs/testing.md` says for each gate."""

    race_steps: int = 150
    kills: int = 150
    power_cut_workloads: int = 1
    model_examples: int = 300
    model_steps: int = 50


_GATES = {
    "change": Sizes(),
    "night": Sizes(
        race_steps=5000, kills=5000, power_cut_workloads=50, model_examples=20_000, model_steps=100
    ),
}


@pytest.fixture(scope="session")
def ledger_sizes():
    """`BALANCER_TEST_GATE=night` runs the large sizes."""
    return _GATES[os.environ.get("BALANCER_TEST_GATE", "change")]
