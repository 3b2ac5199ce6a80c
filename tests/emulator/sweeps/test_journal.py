"""Lines of several processes in one folder: whole or not there, read once, named by file and line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from emulator.sweeps.journal import Journal

ADDING = """
import sys
from pathlib import Path
from emulator.sweeps.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(200):
    journal.add(f"{sys.argv[2]} {number} " + "x" * 3000)
"""


def texts(journal):
    return [line.text.decode().rstrip() for line in journal.new()]


def test_others_see_each_line_once_and_its_own_are_not_told_to_a_journal(tmp_path):
    one, other = Journal(tmp_path), Journal(tmp_path)
    one.add("first")
    assert (texts(one), texts(other), texts(other)) == ([], ["first"], [])
    one.add("second")
    other.add("third")
    assert (texts(one), texts(other)) == (["third"], ["second"])
    assert sorted(texts(Journal(tmp_path))) == ["first", "second", "third"]


def test_a_journal_makes_a_file_only_when_it_has_a_line(tmp_path):
    journal = Journal(tmp_path)
    assert texts(journal) == []
    assert list(tmp_path.iterdir()) == []
    journal.add("first")
    journal.add("second")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first\nsecond\n"]


def test_what_a_killed_process_was_writing_is_no_line_until_it_is_whole(tmp_path):
    file = tmp_path / "0.jsonl"
    file.write_text("first\nsec")
    journal = Journal(tmp_path)
    assert texts(journal) == ["first"]
    with file.open("a") as more:
        more.write("ond\nthi")
    assert [(line.path, line.number, line.text) for line in journal.new()] == [(file, 2, b"second\n")]


def test_a_line_for_which_there_is_no_room_is_not_there_at_all(tmp_path):
    limited = """
import resource, sys
from pathlib import Path
from emulator.sweeps.journal import Journal
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
journal.add("first")
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    journal.add("second line")
except OSError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", limited, str(tmp_path)], capture_output=True, text=True, check=True
    )
    (file,) = tmp_path.iterdir()
    assert done.stdout == f"[Errno 28] No space left on device: '{file}'\n"
    assert file.read_text() == "first\n"


@pytest.mark.slow
def test_processes_that_add_at_once_lose_no_line_of_each_other(tmp_path):
    names = ["a", "b", "c"]
    processes = [subprocess.Popen([sys.executable, "-c", ADDING, str(tmp_path), name]) for name in names]
    reading, seen = Journal(tmp_path), []
    while any(process.poll() is None for process in processes):
        seen += texts(reading)
    seen += texts(reading)
    assert [process.returncode for process in processes] == [0, 0, 0]
    expected = [f"{name} {number} {'x' * 3000}" for name in names for number in range(200)]
    assert sorted(seen) == sorted(expected)
