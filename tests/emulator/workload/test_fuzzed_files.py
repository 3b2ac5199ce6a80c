"""Whatever a log has become on its way, it is read or refused in one clear line, and no record is lost uncounted."""

from __future__ import annotations

import pytest

from emulator.workload.files import TraceError
from emulator.workload.formats import find_format, load
from emulator.workload.rules import to_jobs
from emulator.workload.workload import is_not_read
from fuzzed import fuzzed
from gates import GATE
from log_files import MAKERS

IDLE = '{"phases": [{"tasks": [{"type": "idle", "delay": 5}]}]}'


@pytest.fixture
def account(tmp_path):
    """How many records of a file are not accounted for, None if it is refused."""
    (tmp_path / "m.json").write_text(IDLE)
    path = tmp_path / "log"

    def of(content, trace_format, *, lenient):
        path.write_bytes(content)
        try:
            found = find_format(path, trace_format=trace_format).name
            log = load(path, trace_format=trace_format, lenient=lenient)
            work = to_jobs(log, nodes=1000)
        except TraceError as error:
            is_clear = str(error).startswith(str(path)) and "\n" not in str(error)
            return None if is_clear else str(error)
        not_read = sum(count for what, count in work.counted.items() if is_not_read(what))
        rows = 0 if found == "usage_series" else len(work.jobs) + sum(work.left_out.values())
        return log.records - rows - not_read

    return of


@pytest.mark.parametrize("name", MAKERS)
def test_a_file_is_read_with_every_record_accounted_for_or_refused(account, name):
    read = 0
    for seed in range(GATE.fuzzed_files):
        content = fuzzed(MAKERS[name], name, seed)
        for trace_format in (name.split()[0], None):
            for lenient in (True, False):
                lost = account(content, trace_format, lenient=lenient)
                assert lost in {0, None}, f"seed {seed}"
                read += lost == 0
    assert read > GATE.fuzzed_files // 10


def lines_in(content):
    end = b"\n" if b"\n" in content else b"\r"
    lines = (line.removeprefix(b"\xef\xbb\xbf") for line in content.split(end))
    return [line for line in lines if line.decode("utf-8", "surrogateescape").strip()]


def rows_in(content):
    """None where a quote is open at the end of a line: the row may go on in the next."""
    lines = lines_in(content)
    return None if any(line.count(b'"') % 2 for line in lines) else lines[1:]


RECORDS = {
    "pbs": lines_in,
    "lsf": lambda content: [line for line in lines_in(content) if not line.startswith(b"#")],
    "grid_engine": lambda content: [
        line for line in lines_in(content) if not line.startswith(b"#")
        and (len(line.decode("utf-8", "surrogateescape").strip()) > 1 or b"\0" in line)  # NULs: a damaged file
    ],
    "sacct": lambda content: lines_in(content)[1:],
    "nova_servers table": rows_in,
}  # fmt: skip
"""What the records of a file are, counted without its reader."""


@pytest.mark.parametrize("name", RECORDS)
def test_the_records_of_such_a_file_are_its_lines(tmp_path, name):
    path, read = tmp_path / "log", 0
    for seed in range(GATE.fuzzed_files):
        path.write_bytes(content := fuzzed(MAKERS[name], name, seed))
        try:
            log = find_format(path, trace_format=name.split()[0]).read(path, lenient=True)
        except TraceError:
            continue
        if (records := RECORDS[name](content)) is None:
            continue
        assert log.records == len(records), f"seed {seed}"
        read += 1
    assert read > GATE.fuzzed_files // 2
