"""Small helpers that exist once: files that appear whole (`whole_file.py`), JSON lines (`json_lines.py`); and of tests:
whether a process lives (`processes.py`), and waiting for a condition (`polling.py`).

Who writes one by hand gets the name of the temporary file, the sync, the half line or the end of a process between two
looks wrong sooner or later.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RENAMES = {
    "balancer/whole_file.py": "the one place",
    "balancer/ledger/backup.py": "moves a ledger with its log, and sets the old one aside",
    "emulator/live/nova/services.py": "runs where nothing of ours is installed",
    "emulator/live/replay_log.py": "a log that grows for as long as the replay gets its name at the end",
    "emulator/report/files.py": "moves a folder of results into its place",
}
SYNCS = {"balancer/whole_file.py", "balancer/ledger/backup.py"}
APPENDS = {
    "emulator/text/json_lines.py": "the one place",
    "emulator/live/containers/remote_exec.py": "appends what processes print, and speaks JSON to them",
    "emulator/live/process.py": "appends what processes print, and writes files that say that one is ready",
}
JSON_WORDS = {"dumps", "dump"}
READS_A_PROCESS = re.compile(r"/proc/\{\w+\}/(stat|status|cmdline|environ)\b")
READERS = {
    "tests/processes.py": "the one place",
    "tests/emulator/live/test_processes.py": "measures a job that lives as long as the test looks",
    "benchmarks/balancer_load.py": "adds up the time of children that may end",
    "benchmarks/live_events.py": "measures services that it started",
    "benchmarks/soak.py": "measures services that it started",
}
WAITS = re.compile(r"while not [^\n]*:\n(?:[^\n]*\n){0,3}?[^\n]*(?:pause|Event\(\))\.wait\(")
WORDS = re.compile(r"\.(replace|rename|move|fsync|fdatasync)\(|\bopen\(")


@cache
def modules():
    """Name -> tree of each module that has one of the words."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for package in ("balancer", "emulator")
        for path in (ROOT / package).rglob("*.py")
    }
    return {name: ast.parse(text) for name, text in texts.items() if WORDS.search(text)}


def calls(tree, *names):
    """Calls of a method or a function of a module with one of these names."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in names:
            yield each


def moves_a_file(call):
    """`Path.replace` and `Path.rename` take one thing, `str.replace` two, and those of dates and tables take names."""
    is_of_os = isinstance(call.func.value, ast.Name) and call.func.value.id in {"os", "shutil"}
    return is_of_os or (len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Dict))


def appends(call):
    return any(
        isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in {"a", "ab", "a+"}
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        for each in ast.walk(argument)
    )


def found(what):
    return {name for name, tree in modules().items() if what(tree)}


def test_no_module_moves_a_file_into_its_place_by_hand():
    assert found(lambda tree: any(map(moves_a_file, calls(tree, "replace", "rename", "move")))) == {*RENAMES}


def test_no_module_syncs_by_hand():
    assert found(lambda tree: any(calls(tree, "fsync", "fdatasync"))) == SYNCS


def test_no_module_appends_json_lines_by_hand():
    def does(tree):
        return any(map(appends, calls(tree, "open"))) and any(calls(tree, *JSON_WORDS))

    assert found(does) == {*APPENDS}


def test_no_test_waits_for_a_condition_by_hand():
    files = (ROOT / "tests").rglob("*.py")
    waits = {path.relative_to(ROOT).as_posix() for path in files if WAITS.search(path.read_text("utf-8"))}
    assert waits == {"tests/polling.py"}


def test_no_test_looks_by_hand_whether_a_process_lives():
    files = [path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    readers = {
        path.relative_to(ROOT).as_posix() for path in files if READS_A_PROCESS.search(path.read_text("utf-8"))
    }
    assert readers == {*READERS}


def test_the_search_finds_what_it_is_for():
    """A check that can find nothing says that all is well for ever."""
    by_hand = (
        "os.replace(a, b)", "beside.replace(path)", "draft.rename(folder / name)", "shutil.move(a, b)",
    )  # fmt: skip
    others = ("text.replace('a', 'b')", "at.replace(tzinfo=UTC)", "frame.rename({'a': 'b'})")
    assert [moves_a_file(ast.parse(each).body[0].value) for each in by_hand] == [True] * len(by_hand)
    assert [moves_a_file(ast.parse(each).body[0].value) for each in others] == [False] * len(others)
    assert appends(ast.parse("path.open('a', encoding='utf-8')").body[0].value)
    assert appends(ast.parse("path.open(mode='ab')").body[0].value)
    assert WAITS.search("while not is_so():\n    assert wall_us() < end_us\n    pause.wait(0.1)\n")
    assert READS_A_PROCESS.search("Path(f'/proc/{" + "pid}/stat')")
