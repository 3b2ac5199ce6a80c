"""A place for a ledger, in each database."""

from __future__ import annotations

import shutil
import tempfile
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
