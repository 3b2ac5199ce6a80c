"""Generators, transforms and formats of a user's own that fail are told by name, file and line, with status 2."""

from __future__ import annotations

import pytest

from command_line import emulate

SOURCE = """\
class NoNodes:
    def generate(self, rng):
        return None

class MakesNumbers:
    def generate(self, rng, *, nodes):
        return [1, 2, 3]

class Divides:
    def generate(self, rng, *, nodes):
        return 1 / 0

class CannotBeMade:
    def __init__(self, jobs: int = 5):
        raise KeyError("no such thing")
    def generate(self, rng, *, nodes):
        return None

class Picks:
    def apply(self, jobs, *, nodes):
        return jobs.colour

class Forgets:
    def apply_random(self, jobs, *, nodes, rng):
        jobs.take(jobs.nodes > 1)

class Counts:
    def count(self, jobs):
        return {}["jobs"]
    def apply(self, jobs, *, nodes):
        return jobs

class Halves:
    name = "halves"
    def can_read(self, path):
        return path.suffix == ".half"
    def read(self, path, *, lenient=False):
        return {}[path.name]

class Reads:
    name = "reads"
    def can_read(self, path):
        return path.suffix == ".half"
    def read(self, path, *, lenient=False):
        return []

class Looks:
    name = "looks"
    def can_read(self, path):
        raise RuntimeError("no eyes")
    def read(self, path, *, lenient=False):
        return []
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "log.half").write_text("1 2 3\n")

    def run(name, workload):
        (tmp_path / "s.yaml").write_text(f"nodes: 8\nplugins: ['mine.py:{name}']\nworkload: {workload}\n")
        done = emulate("run", "s.yaml", "--quiet", "--out", "out")
        assert done.exit_code == 2, done.output
        assert not (tmp_path / "out").exists()
        return " ".join(done.stderr.split())

    return run


BATCH = "{daily_batch: {days: 0.2, jobs: 5, load: 0.2}}"


@pytest.mark.parametrize(
    ("name", "workload", "told"),
    [
        ("NoNodes", "{generate: [no_nodes]}", "workload.generate.0: generator no_nodes (|) failed in generate: Ty"),
        ("MakesNumbers", "{generate: [makes_numbers]}", "makes_numbers (|): generate must return a JobTable"),
        ("Divides", "{generate: [divides]}", "divides (|) failed in generate, line 11: ZeroDivisionError: div"),
        ("CannotBeMade", "{generate: [cannot_be_made]}", "cannot_be_made failed when it was made: KeyError: 'no"),
        ("Picks", f"{{generate: [{BATCH}], transforms: [picks]}}", "picks (|) failed in apply, line 21: Attri"),
        ("Forgets", f"{{generate: [{BATCH}], transforms: [forgets]}}", "a JobTable (emulator.workload.table), not N"),
        ("Counts", f"{{generate: [{BATCH}], transforms: [counts]}}", "counts (|) failed in count, line 29: KeyEr"),
        ("Halves", "{trace: log.half}", "log.half: trace format halves (|) failed in read, line 38: KeyError"),
        ("Reads", "{trace: log.half}", "trace format reads (|): read must return an SwfLog (emulator.workload"),
        ("Looks", "{trace: log.half}", "trace format looks (|) failed in can_read, line 50: RuntimeError: no eyes"),
    ],
)  # fmt: skip
def test_what_fails_in_a_plug_in_of_ones_own_is_told_with_its_name_and_place(
    name, workload, told, run, tmp_path
):
    assert told.replace("|", f"{tmp_path / 'mine.py'}:{name}") in run(name, workload)
