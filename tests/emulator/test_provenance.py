"""What results say of the code and the files that they were made with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import emulator
from emulator.record import provenance
from emulator.record.provenance import file_digest, sources, traces

ROOT = Path(emulator.__file__).parents[1]


def test_a_changed_line_of_our_code_is_another_code(tmp_path):
    for package in ("balancer", "emulator"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))

    def told():
        asked = [sys.executable, "-c", "from emulator.record.provenance import sources; print(sources())"]
        return subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    assert told() == sources()
    with (tmp_path / "balancer" / "lifecycle" / "nodes.py").open("a") as patched:
        patched.write("# patched\n")
    assert told() != sources()


def test_the_code_is_read_once_for_all_runs_as_long_as_it_stays_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("EMULATOR_CACHE_DIR", str(tmp_path))
    first = sources.__wrapped__()
    monkeypatch.setattr(provenance, "_read_sources", lambda: pytest.fail("the code was read"))
    assert sources.__wrapped__() == first == sources()


def test_files_of_a_workload_are_known_by_their_content_wherever_they_are_named(tmp_path):
    one, other = tmp_path / "one.swf", tmp_path / "other.swf"
    one.write_text("1 0 0 10\n")
    other.write_text("1 0 0 10\n")
    workload = {
        "trace": str(one),
        "transforms": [{"inject": {"trace": str(other), "rate": 2}}, {"trace": "gone.swf"}],
    }
    assert traces(workload) == (one, other)
    assert file_digest(one) == file_digest(other)


def test_a_file_that_changes_while_the_process_goes_on_has_another_hash(tmp_path):
    """A notebook lives for days: rows of a sweep over the log as it was are not those of the log as it is."""
    log, folder = tmp_path / "logs" / "a.swf", tmp_path / "logs"
    folder.mkdir()
    log.write_text("1 0 0 10\n")
    before = file_digest(log), file_digest(folder)
    assert (file_digest(log), file_digest(folder)) == before
    log.write_text("1 0 0 11\n")
    after = file_digest(log), file_digest(folder)
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, True]
    (folder / "b.swf").write_text("1 0 0 10\n")
    assert file_digest(folder) != after[1]
