"""The Standard Workload Format: what is read, what is refused, and what comes back after writing."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.workload import swf
from emulator.workload.formats import TraceError, TraceFormat, load
from emulator.workload.rules import to_jobs
from emulator.workload.swf import FIELDS, SwfFormat, SwfLog, write_swf

LINE = "1 0 5 60 4 -1 -1 4 120 -1 1 7 8 -1 2 -1 -1 -1"


def read(path, *, lenient=False):
    return SwfFormat().read(path, lenient=lenient)


def rows(log):
    return [list(row) for row in zip(*(column.tolist() for column in log.columns), strict=True)]


def test_swf_satisfies_the_protocol_of_a_trace_format():
    assert isinstance(SwfFormat(), TraceFormat)


def test_a_line_becomes_a_row_and_header_lines_are_kept_as_they_are(swf_file):
    log = read(
        swf_file("; Computer: A", ";  MaxNodes: 338 (batch partition)", LINE, ";Queue: 1 x", "; Queue: 2 y")
    )
    assert rows(log) == [[1, 0, 5, 60, 4, -1, -1, 4, 120, -1, 1, 7, 8, -1, 2, -1, -1, -1]]
    assert log.header == (
        "; Computer: A",
        ";  MaxNodes: 338 (batch partition)",
        ";Queue: 1 x",
        "; Queue: 2 y",
    )
    assert log.keys["Queue"] == ("1 x", "2 y")
    assert log.key_int("MaxNodes") == 338
    assert log.key_int("MaxProcs") is None


def test_columns_are_found_by_name(swf_file):
    log = read(swf_file(LINE))
    assert {name: log.column(name).tolist() for name in ("run_s", "requested_s", "queue", "think_s")} == {
        "run_s": [60],
        "requested_s": [120],
        "queue": [2],
        "think_s": [-1],
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LINE.replace(" ", "   \t"), id="runs of blanks"),
        pytest.param("  " + LINE + "  ", id="blanks around"),
        pytest.param(LINE + "\r", id="windows line end"),
        pytest.param(LINE + " ; restarted by hand", id="comment after the numbers"),
        pytest.param(LINE.replace(" 60 ", " 60.00 "), id="fraction of zero"),
        pytest.param(LINE.replace(" 60 ", " 6e1 "), id="exponent"),
        pytest.param(LINE.replace(" 60 ", " +60 "), id="plus sign"),
        pytest.param(LINE.replace(" 60 ", " 00000000000000000000000060 "), id="leading zeros"),
        pytest.param("\ufeff" + LINE, id="byte order mark"),
        pytest.param("\n\n" + LINE + "\n\n", id="empty lines"),
    ],
)
def test_harmless_variations_of_a_line_are_read(tmp_path, text):
    path = tmp_path / "log.swf"
    path.write_bytes(text.encode())
    assert rows(read(path)) == [[1, 0, 5, 60, 4, -1, -1, 4, 120, -1, 1, 7, 8, -1, 2, -1, -1, -1]]


def test_fractions_and_big_numbers_keep_their_value(swf_file):
    log = read(swf_file(LINE.replace(" 60 ", " 60.25 "), LINE.replace(" 7 8 ", " 9007199254740993 8 ")))
    assert log.column("run_s").tolist() == [60.25, 60]
    assert log.column("user").tolist() == [7, 9007199254740993]
    assert log.column("user").dtype == np.int64


def test_more_than_eighteen_columns_are_kept_and_shorter_lines_filled_with_unknown(swf_file):
    log = read(swf_file(LINE + " 30", LINE, LINE + " 31 32"))
    assert [row[18:] for row in rows(log)] == [[30, -1], [-1, -1], [31, 32]]


def test_lines_stay_in_order_when_odd_ones_stand_between(swf_file):
    lines = [LINE.replace("1 0", f"{n} {n}", 1) + (" ; odd" if n % 3 == 0 else "") for n in range(1, 20)]
    assert read(swf_file(*lines)).column("number").tolist() == list(range(1, 20))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(
            LINE.replace(" 60 ", " 12abc "), "field 4 (run_s) is '12abc', not a number", id="letters"
        ),
        pytest.param(
            LINE.replace(" 60 ", " 1-2 "), "field 4 (run_s) is '1-2', not a number", id="two in one"
        ),
        pytest.param(
            LINE.replace(" 60 ", " 1.2.3 "), "field 4 (run_s) is '1.2.3', not a number", id="two points"
        ),
        pytest.param(LINE.replace(" 60 ", " - "), "field 4 (run_s) is '-', not a number", id="a lone sign"),
        pytest.param(LINE.replace(" 60 ", " nan "), "field 4 (run_s) is 'nan', not a number", id="nan"),
        pytest.param(
            LINE.replace(" 60 ", " 1_0 "), "field 4 (run_s) is '1_0', not a number", id="underscore"
        ),
        pytest.param(LINE.replace(" 60 ", " 1e99 "), "field 4 is too large", id="too large"),
        pytest.param(
            LINE.replace(" 60 ", f" {'9' * 5000} "), "field 4 is too large", id="thousands of digits"
        ),
        pytest.param(LINE[:-3], "17 fields where the Standard Workload Format has 18", id="a field short"),
        pytest.param("1 " * 65, "65 fields where the Standard Workload Format has 18", id="far too many"),
    ],
)
def test_a_malformed_line_is_an_error_with_file_and_line_or_is_counted_when_lenient(swf_file, bad, reason):
    path = swf_file("; Computer: A", LINE, "", bad, LINE)
    with pytest.raises(TraceError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:4: {reason}; ")
    log = read(path, lenient=True)
    assert (len(log), log.malformed, log.complaints) == (2, 1, (f"{path}:4: {reason}",))


def test_only_the_first_ten_complaints_are_kept(swf_file):
    log = read(swf_file(LINE, *["x"] * 30), lenient=True)
    assert (len(log), log.malformed, len(log.complaints)) == (1, 30, 10)


def test_line_numbers_count_over_all_blocks(swf_file, monkeypatch):
    monkeypatch.setattr(swf, "_BLOCK_BYTES", 100)
    path = swf_file(*[LINE] * 50, "oops", *[LINE] * 3)
    with pytest.raises(TraceError, match=r":51: field 1 \(number\) is 'oops'"):
        read(path)
    assert len(read(path, lenient=True)) == 53


def test_a_file_without_line_ends_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(swf, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(swf, "_LONGEST_LINE_BYTES", 1000)
    path = tmp_path / "log.swf"
    path.write_text("1 " * 5000)
    with pytest.raises(TraceError, match="a line of more than 1000 bytes"):
        read(path)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_compressed_files_are_known_by_their_content(tmp_path, compress):
    path = tmp_path / "log.swf"
    path.write_bytes(compress(f"{LINE}\n".encode() * 3))
    assert len(load(path)) == 3


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_a_truncated_compressed_file_is_an_error_that_names_it(tmp_path, compress):
    path = tmp_path / "log.swf.gz"
    text = "".join(f"{n} {n * 37 % 101} {LINE[4:]}\n" for n in range(1000))
    path.write_bytes(compress(text.encode())[:-20])
    with pytest.raises(TraceError, match=r"log\.swf\.gz: the compressed data is cut off"):
        load(path)


def test_a_damaged_compressed_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "log.swf.gz"
    data = bytearray(gzip.compress("".join(f"{n} {LINE}\n" for n in range(1000)).encode()))
    data[-8:-4] = b"abcd"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"log\.swf\.gz: the compressed data is damaged"):
        load(path)


def test_an_empty_an_absent_and_an_unknown_file_are_errors_that_name_them(tmp_path):
    empty, strange = tmp_path / "empty.swf", tmp_path / "strange.txt"
    empty.touch()
    strange.write_text("Job_name Submit Runtime\n1 2 3\n")
    with pytest.raises(TraceError, match=r"empty\.swf: the file is empty"):
        load(empty)
    with pytest.raises(TraceError, match=r"absent\.swf: No such file"):
        load(tmp_path / "absent.swf")
    with pytest.raises(TraceError, match=r"strange\.txt: not a trace in a known format \(known: .*swf"):
        load(strange)
    with pytest.raises(ValueError, match="there is no trace format 'swff'; did you mean 'swf'"):
        load(strange, trace_format="swff")


def test_a_log_is_known_by_its_content_when_its_name_says_nothing(swf_file):
    assert len(load(swf_file("; Computer: A", LINE, name="jobs"))) == 1
    assert len(load(swf_file(LINE, name="jobs2"))) == 1
    with pytest.raises(TraceError, match="not a trace in a known format"):
        load(swf_file("", "", name="jobs3"))


@pytest.mark.parametrize("name", ["out.swf", "out.swf.gz", "out.swf.xz"])
def test_writing_and_reading_gives_the_same_log(tmp_path, swf_file, name):
    log = read(swf_file("; Computer: Größe", LINE + " 30", LINE.replace(" 60 ", " 60.25 "), ";;odd "))
    write_swf(log, tmp_path / name)
    again = read(tmp_path / name)
    assert (rows(again), again.header) == (rows(log), log.header)


def test_equal_logs_are_written_as_equal_bytes(tmp_path, swf_file):
    log = read(swf_file(LINE))
    write_swf(log, tmp_path / "a.swf.gz")
    write_swf(log, tmp_path / "b.swf.gz")
    assert (tmp_path / "a.swf.gz").read_bytes() == (tmp_path / "b.swf.gz").read_bytes()


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, swf_file, monkeypatch):
    path = swf_file(LINE)
    log = read(path)

    def explode(*_):
        raise OSError("disk full")

    monkeypatch.setattr(swf, "range", explode, raising=False)  # behind the header
    with pytest.raises(OSError, match="disk full"):
        write_swf(log, path)
    assert path.read_text() == f"{LINE}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_checks_what_it_is_built_from():
    with pytest.raises(ValueError, match="at least 18 columns, not 1"):
        SwfLog(columns=(np.zeros(1, np.int64),))
    with pytest.raises(ValueError, match="equal length"):
        SwfLog.build(2, number=[1])
    with pytest.raises(ValueError, match="no such column: nodes"):
        SwfLog.build(1, nodes=[1])
    with pytest.raises(ValueError, match="finite"):
        SwfLog.build(1, run_s=[float("inf")])
    with pytest.raises(ValueError, match="a header line starts with ';'"):
        SwfLog.build(0, ["Computer: A"])


numbers = st.one_of(
    st.integers(-1, 10**6),
    st.integers(-(2**62), 2**62),
    st.floats(-1e12, 1e12, allow_nan=False).map(lambda value: value + 0.0),
)


@given(st.integers(18, 21).flatmap(lambda width: st.lists(st.lists(numbers, min_size=width, max_size=width))))
def test_any_numbers_survive_writing_and_reading(tmp_path_factory, table):
    width = len(table[0]) if table else 18
    columns = tuple(swf._narrow(np.array([row[index] for row in table])) for index in range(width))
    log = SwfLog(columns=columns, header=("; Note: any",))
    path = tmp_path_factory.mktemp("any") / "log.swf"
    write_swf(log, path)
    again = read(path)
    if table:
        assert rows(again) == rows(log)
    assert (len(again), again.header) == (len(table), log.header)


lines = st.one_of(
    st.just(LINE),
    st.just(""),
    st.just("; a comment"),
    st.lists(st.from_regex(r"[-+0-9.eE;a]{1,6}", fullmatch=True), max_size=20).map(" ".join),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").decode("latin-1")),
)


@given(st.lists(lines, max_size=20))
@example(["\xef\xbb\xbf"])
def test_every_line_is_a_row_a_comment_blank_or_counted_as_malformed(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "log.swf"
    # The first line keeps the rest from looking like a compressed file.
    path.write_bytes(b";\n" + b"".join(line.encode("latin-1") + b"\n" for line in text))
    log = read(path, lenient=True)
    # Files that were put together have a byte-order mark each.
    data = [line.removeprefix(b"\xef\xbb\xbf") for line in path.read_bytes().split(b"\n")]
    with_words = sum(bool(line.lstrip()[:1] != b"#" and line.partition(b";")[0].split()) for line in data)
    assert len(log) + log.malformed == with_words
    assert all(np.isfinite(column).all() for column in log.columns)


@given(st.lists(st.lists(numbers.map(repr), min_size=18, max_size=18).map(" ".join), min_size=1, max_size=10))
def test_blocks_parsed_at_once_and_lines_parsed_with_care_agree(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("any")
    (folder / "fast.swf").write_text("\n".join(text))
    (folder / "careful.swf").write_text("".join(f"{line} ; odd\n" for line in text))
    assert rows(read(folder / "fast.swf")) == rows(read(folder / "careful.swf"))


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_end_as_the_system_has_them_that_wrote_them(tmp_path, end):
    path = tmp_path / "log.swf"
    path.write_bytes(end.join(["; MaxNodes: 4", LINE, LINE.replace("1", "2", 1), ""]).encode())
    log = read(path)
    assert (log.column("number").tolist(), log.key_int("MaxNodes")) == ([1, 2], 4)


def test_the_eighteen_names_are_different():
    assert len(set(FIELDS)) == 18


@pytest.mark.parametrize(
    ("written", "number"),
    [("1,152", 1152), ("12,345,678 (all)", 12_345_678), ("4,16", 4), ("1" * 5000, int("1" * 18))],
)
def test_numbers_of_the_header_may_be_in_groups(swf_file, written, number):
    assert SwfFormat().read(swf_file(f"; MaxNodes: {written}", LINE)).key_int("MaxNodes") == number


HEADER = ("; Computer: A", "; MaxNodes: 8", "; UnixStartTime: 100", "; Queue: 1 day")


def test_files_that_were_put_together_are_one_log_whose_header_came_again(tmp_path):
    one = "".join(f"{line}\n" for line in (*HEADER, LINE))
    path = tmp_path / "both.swf"
    path.write_text(f"\ufeff{one}\ufeff{one}\ufeff{LINE}\n{one}; Queue: 2 night\n{LINE}\n")
    log = read(path)
    assert (len(log), log.malformed, log.passed_over) == (5, 0, {"heading again": 2})
    assert log.header == (*HEADER, "; Queue: 2 night")
    assert log.records == 7
    assert sum(part.records for part in SwfFormat().read_blocks(path)) == 7


def test_a_size_of_the_cluster_that_is_no_number_is_named_where_it_is_missed(swf_file):
    path = swf_file("; MaxProcs: four", LINE)
    with pytest.raises(
        TraceError, match=r"the cluster has \(MaxProcs of its header is 'four'\); pass --nodes N"
    ):
        to_jobs(read(path), nodes=None)


@pytest.mark.parametrize("key", ["MaxProcs", "MaxNodes", "UnixStartTime"])
def test_headers_above_all_jobs_that_contradict_each_other_are_refused(swf_file, key):
    path = swf_file(f"; {key}: 4", f"; {key}: 4 (batch)", f"; {key}: 8", LINE)
    with pytest.raises(
        TraceError, match=rf"{path}:3: {key} is '8' here and '4' above: keep the one that is right"
    ):
        read(path)


def test_a_log_without_sizes_is_refused_without_a_number_of_nodes_that_nobody_gave(swf_file):
    path = swf_file("1 0 0 60 -1 -1 -1 -1 60 -1 1 1 1 -1 1 -1 -1 -1")
    with pytest.raises(TraceError, match=rf"{path}: no job can be replayed \(1 no size\)"):
        to_jobs(read(path), nodes=2**31 - 1)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("; UnixStartTime: 200", "UnixStartTime is '200' and not '100'"),
        ("; MaxNodes: 9", "MaxNodes is '9' and not '8'"),
        (";Queue: 1 night", "Queue 1 is 'night' and not 'day'"),
    ],
)
def test_a_second_header_that_says_something_else_makes_two_logs_of_a_file(swf_file, line, says):
    path = swf_file(*HEADER, LINE, "; Computer: B", line, LINE)
    with pytest.raises(TraceError, match=f"{path}:7: a second header, whose {says}: these are two logs"):
        read(path, lenient=True)
