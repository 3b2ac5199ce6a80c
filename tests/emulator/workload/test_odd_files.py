"""Files as they come from sites: put together, written anew by other programs, damaged by machines that stopped."""

from __future__ import annotations

import json
import re

import pytest

from emulator.workload.files import TraceError
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs
from testdata import RECORDED

SACCT = "JobIDRaw|Submit|Start|End|ElapsedRaw|NNodes|State\n"
ROW = "{}|100|160|460|300|2|COMPLETED\n"
USAGE = json.dumps({
    "tenant_usage": {"server_usages": [{"started_at": "2026-01-01T00:00:00", "ended_at": "2026-01-02T00:00:00"}]}
})  # fmt: skip
FILES = {
    "sacct": SACCT + ROW.format(1),
    "lsf": (RECORDED / "lsf/lsb.acct.txt").read_text(),
    "grid_engine": (RECORDED / "sites/grid_engine").read_text(),
    "pbs": (RECORDED / "sites/accounting").read_text(),
    "oar": (RECORDED / "oar/oarstat.json").read_text(),
    "nova_usage": USAGE,
    "nova_servers": "uuid,created_at,deleted_at,vcpus\na,2026-01-01 00:00:00,2026-01-02 00:00:00,2\n",
    "usage_series": "timestamp,nodes\n2026-01-01T00:00:00,2\n2026-01-01T01:00:00,3\n",
}
SWF = "1 0 5 60 4 -1 -1 4 120 -1 1 1 1 -1 1 -1 -1 -1\n"
JSON = ("oar", "nova_usage")


def times_of(log):
    return sorted(zip(log.column("submit_s").tolist(), log.column("run_s").tolist(), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_files_with_a_byte_order_mark_each_may_be_put_together(tmp_path, name):
    path, both = tmp_path / "one", tmp_path / "both"
    path.write_text(FILES[name])
    both.write_text(f"\ufeff{FILES[name]}\ufeff{FILES[name]}")
    one, log = load(path), load(both, trace_format=name)
    assert log.malformed == 0
    if name == "nova_usage":  # servers without an id
        assert set(times_of(log)) == set(times_of(one))
    else:
        assert times_of(log) == times_of(one)


@pytest.mark.parametrize("name", [*FILES, "swf"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_whatever_it_is_of(tmp_path, name, encoding):
    path = tmp_path / "log"
    path.write_bytes((FILES | {"swf": SWF})[name].encode(encoding))
    with pytest.raises(TraceError, match=r"text in UTF-16.*: write it again as UTF-8"):
        load(path)


@pytest.mark.parametrize("name", [name for name in FILES if name != "grid_engine"])
def test_bytes_of_nothing_in_front_are_named(tmp_path, name):
    path = tmp_path / "log"
    path.write_bytes(b"\0" * 512 + FILES[name].encode())
    with pytest.raises(TraceError, match=r"its beginning is NUL bytes.*: remove them \(tr -d '\\000'\)"):
        load(path)


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("above", ["oarstat: error: no answer\n", "a: b\nWARNING: c\n"])
def test_messages_above_json_are_named(tmp_path, name, above):
    path = tmp_path / "log"
    path.write_text(above + FILES[name])
    with pytest.raises(
        TraceError, match="JSON below messages of its program: leave out what stands above it"
    ):
        load(path)


def test_names_in_errors_are_short_and_can_be_printed(tmp_path):
    path = tmp_path / "servers.csv"
    path.write_bytes(FILES["nova_servers"].encode() + b"\x01\x1b" + b"\xe4" * 4096)
    with pytest.raises(TraceError, match=r"server \\x01\\x1b\\udce4") as raised:
        load(path)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        (["5|0|0|0|0|2|COMPLETED"], [(0, 0)]),
        (["5|100|Unknown|Unknown|0|2|PENDING"], [(100, -1)]),
        (["5|100|None|460|0|2|CANCELLED by 7"], [(100, -1)]),
        (["5|100|160|Unknown||2|RUNNING"], [(100, -1)]),
        (
            ["5_[1-9%2]|100|Unknown|Unknown|0|2|PENDING", "5_1|100|160|460|300|2|COMPLETED"],
            [(100, -1), (100, 300)],
        ),
        (["5+0|100|160|460|300|2|COMPLETED", "5+1|100|160|460|300|1|COMPLETED"], [(100, 300)]),
        (["5|100|160|460|300|2|REQUEUED", "5|460|500|800|300|2|COMPLETED"], [(100, 300)]),
        (["5|460|500|800|300|2|COMPLETED", "5|100|160|460|300|2|REQUEUED"], [(100, 300)]),
        (["469762054|100|160|460|300|2|REVOKED", "469762054|100|160|460|300|2|COMPLETED"], [(100, 300)]),
        (["5|100|160|460|300|2|COMPLETED", "5.batch|100|160|460|300|2|COMPLETED"], [(100, 300)]),
        (["5|100|160|460|300|2|COMPLETED"] * 3, [(100, 300)]),
        (["5|100|160|460|300|2|COMPLETED", SACCT.strip(), "6|100|160|460|300|2|COMPLETED"], [(100, 300)] * 2),
    ],
)
def test_rows_of_sacct_are_the_jobs_that_they_tell_of(text_file, rows, times):
    log = load(text_file(SACCT.strip(), *rows))
    assert (times_of(log), len(log) + sum(log.passed_over.values())) == (times, len(rows))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("5|100|160|100||2|COMPLETED", "End 100 is before Start 160"),
        ("5|100|160|460|-300|2|COMPLETED", "ElapsedRaw is '-300', out of range"),
        ("5|100|160|460|300|-2|COMPLETED", "NNodes is '-2', out of range"),
        ("5|100|160|460|300|two|COMPLETED", "NNodes is 'two', not a whole number"),
        ("5|100|160|460|300|2|", "State is missing"),
        ("5|1767262000000|160|460|300|2|COMPLETED", "Submit is '1767262000000', not a time"),
        ("5|01/02/2026 10:00:00|160|460|300|2|COMPLETED", "Submit is '01/02/2026 10:00:00', not a time"),
        ("x" * 200_000, "1 fields where the header has 7"),
    ],
)
def test_rows_of_sacct_that_cannot_be_are_named_or_counted(text_file, row, reason):
    path = text_file(SACCT.strip(), row)
    with pytest.raises(TraceError, match=f"log.txt:2: {reason}.*; mend the line, or read leniently"):
        load(path)
    assert load(path, lenient=True).malformed == 1


@pytest.mark.parametrize("name", [b"b\xe4r", "b\u00e4r".encode()])
def test_what_is_told_of_names_in_any_encoding_can_be_written(tmp_path, name):
    path = tmp_path / "log"
    rows = (
        b"%d|100|160|460|300|2|COMPLETED|%s\n" % (job, cluster) for job, cluster in ((1, b"a"), (2, name))
    )
    path.write_bytes(SACCT.strip().encode() + b"|Cluster\n" + b"".join(rows))
    (told,) = load(path).remarks
    assert told.startswith("of cluster b")
    assert told.encode()


LONG_ADS = "\nClusterId = 1\nQDate = 5\n\nClusterId = 2\nQDate = 6\n\n"
LINES = {name: text for name, text in FILES.items() if name not in {*JSON, "usage_series"}}
LINES |= {"swf": SWF, "condor": LONG_ADS}


def with_nuls(text, where):
    """A text with NUL bytes, and how many records more it has."""
    content, block = text.encode(), b"\0" * 512 + b"\n\n"
    if where == "in a record":
        at = len(content.rstrip()) - len(content.split()[-1]) // 2 - 1
        return content[:at] + b"\0" + content[at:], 0
    if where == "one at the end":
        return content + b"\n\0", 1
    at = content.index(b"\n") + 1 if where == "in the middle" else len(content)
    return content[:at] + block + content[at:], 1


@pytest.mark.parametrize("where", ["in a record", "in the middle", "at the end", "one at the end"])
@pytest.mark.parametrize("name", LINES)
def test_bytes_of_nothing_are_named_and_counted(tmp_path, name, where):
    path = tmp_path / "log"
    path.write_text(LINES[name])
    whole = load(path, trace_format=name)
    content, more = with_nuls(LINES[name], where)
    path.write_bytes(content)
    with pytest.raises(TraceError, match=rf"{path}(:\d+)?: .*(NUL bytes|\\x00)"):
        load(path, trace_format=name)
    log = load(path, trace_format=name, lenient=True)
    assert (log.malformed, log.records) == (1, whole.records + more)


@pytest.mark.parametrize("name", JSON)
def test_bytes_of_nothing_behind_json_are_named(tmp_path, name):
    path = tmp_path / "log"
    path.write_text(FILES[name] + "\0" * 512)
    with pytest.raises(TraceError, match=r"NUL bytes in it \(line .*: remove them \(tr -d '\\000'\)"):
        load(path, trace_format=name)


LATE = {
    "pbs": r"( end=)\d+",
    "lsf": r'("JOB_FINISH" "[\d.]+" )\d+',
    "grid_engine": r"(?m)^((?:[^:#\n]*:){10})\d+",
    "sacct": r"(?m)^(1\|)\d+",
    "oar": r'("stop_?[tT]ime" ?: ?"?)\d+',
    "nova_servers": r"(a,)[^,]+",
    "condor": r"(QDate = )6",
}


@pytest.mark.parametrize("name", LATE)
def test_a_year_in_which_no_job_ran_is_named(tmp_path, name):
    path = tmp_path / "log"
    late, count = re.subn(LATE[name], r"\g<1>9999999999", (FILES | LINES)[name], count=1)
    assert count
    path.write_text(late)
    with pytest.raises(
        TraceError, match=rf"{path}:.*\w+ is 9999999999, later than the year 2099: a wrong time; mend the"
    ):
        load(path, trace_format=name)
    assert load(path, trace_format=name, lenient=True).malformed == 1


@pytest.mark.parametrize(
    ("submit_s", "run_s", "is_kept"),
    [
        (1_780_000_000, 60, True),
        (86_400, 60, False),
        (3_000_000_000, 60, False),
        (1_780_000_000, 10**9, False),
    ],
)
def test_a_job_decades_from_the_rest_of_its_log_is_left_out_and_counted(swf_file, submit_s, run_s, is_kept):
    lines = [f"{at} {1_767_225_600 + at} 5 60 4 -1 -1 4 120 -1 1 1 1 -1 1 -1 -1 -1" for at in (1, 2)]
    odd = f"3 {submit_s} 5 {run_s} 4 -1 -1 4 120 -1 1 1 1 -1 1 -1 -1 -1"
    work = to_jobs(load(swf_file(*lines, odd)), nodes=8)
    left_out = {} if is_kept else {"20 years or more from the rest of the log": 1}
    assert (len(work.jobs), work.left_out) == (2 + is_kept, left_out)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["JobID|State|Submit|Start|End|NNodes|JobID", "5|COMPLETED|100|160|460|2|6"], "1: the column 'JobID'"),
        (["jobid,State,Submit,Start,End,NNodes,JobID", "5,COMPLETED,100,160,460,2,6"], "1: the column 'JobID'"),
        (["JobID State Submit Start Elapsed NNodes State", "----- ----- ------ ----- ------- ------ -----"],
         "1: the column 'State'"),
        ([SACCT + ROW.format(1) + SACCT.strip() + "|End"], "3: the column 'End'"),
        (["uuid,created_at,Created At", "a,2026-01-01 00:00:00,2026-02-01 00:00:00"], "1: the column 'created_at'"),
        (["submit_time,start_time,end_time,run_time,wait_time,run_time", "1,2,3,1,1,1"], "1: the column 'run_time'"),
        (["timestamp,value,value", "2026-01-01T00:00:00,2,3"], "1: the column 'value'"),
    ],
)  # fmt: skip
def test_a_column_that_is_there_twice_is_named(text_file, lines, says):
    path = text_file(*lines)
    with pytest.raises(TraceError, match=f"{path}:{says} is there twice; write the table with one of them"):
        load(path, lenient=True)


def test_a_column_that_is_not_read_may_be_there_twice(text_file):
    path = text_file(SACCT.strip() + "|JobName|JobName", ROW.format(1).strip() + "|a|b")
    assert times_of(load(path)) == [(100, 300)]
