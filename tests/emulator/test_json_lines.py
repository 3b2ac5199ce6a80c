"""JSON lines that a writer appends and another reads after its death."""

from __future__ import annotations

import pytest

from emulator.text.json_lines import JsonLines, read_json_lines


def written(path, *values, anew=False):
    lines = JsonLines(path, anew=anew)
    for value in values:
        lines.write(value)
    lines.close()


def read(path):
    return list(read_json_lines(path, lambda value: value, "a value"))


def test_what_is_appended_is_read_in_order(tmp_path):
    path = tmp_path / "log"
    written(path, 1, {"a": "ü"})
    written(path, [3])
    assert read(path) == [1, {"a": "ü"}, [3]]


def test_anew_begins_an_empty_file_and_no_file_has_no_lines(tmp_path):
    path = tmp_path / "log"
    assert read(path) == []
    written(path, 1)
    written(path, 2, anew=True)
    assert read(path) == [2]


def test_half_a_line_is_left_out_by_a_reader_and_cut_off_by_the_next_writer(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"1\n2\n[3, ")
    assert read(path) == [1, 2]
    assert path.read_bytes() == b"1\n2\n[3, ", "who reads changes nothing"
    written(path, 4)
    assert read(path) == [1, 2, 4]


def test_a_line_that_is_none_is_named(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"1\nx\n")
    with pytest.raises(ValueError, match=r"log:2: not a value: JSONDecodeError"):
        read(path)


def test_without_a_path_nothing_is_kept():
    written(None, 1)
