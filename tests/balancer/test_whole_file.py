"""A file appears whole or not at all, and nothing is left beside it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from balancer.whole_file import replacing, write_bytes, write_text


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_the_new_text_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "state"
    write_text(path, "old")
    write_text(path, "neü", durable=True)
    assert path.read_text(encoding="utf-8") == "neü"
    assert names(tmp_path) == ["state"]


def test_what_raises_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "state"
    write_text(path, "old")

    def write_half():
        with replacing(path) as draft:
            draft.write_text("ne", encoding="utf-8")
            raise RuntimeError("it ends here")

    with pytest.raises(RuntimeError):
        write_half()
    assert (path.read_text(encoding="utf-8"), names(tmp_path)) == ("old", ["state"])


def test_an_error_names_the_file_that_was_meant(tmp_path):
    path = tmp_path / "missing" / "state"
    with pytest.raises(FileNotFoundError) as raised:
        write_bytes(path, b"")
    assert raised.value.filename == str(path)


def test_an_error_of_a_file_without_room_names_the_file_that_was_meant(tmp_path):
    path = tmp_path / "state"
    with (
        pytest.raises(OSError, match="No space left") as raised,
        replacing(path),
        Path("/dev/full").open("wb") as full,
    ):
        full.write(b"x")
    assert raised.value.filename == str(path)


def test_a_reader_beside_many_writers_finds_a_whole_file_each_time(tmp_path):
    path = tmp_path / "state"
    texts = [letter * 5000 for letter in "abc"]
    write_text(path, texts[0])

    def write_often(text):
        for _ in range(50):
            write_text(path, text)

    writers = [threading.Thread(target=write_often, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_text(encoding="utf-8") in texts
    for writer in writers:
        writer.join()
    assert names(tmp_path) == ["state"]
