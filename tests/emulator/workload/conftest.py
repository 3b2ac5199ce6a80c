"""Builders for the workload tests."""

from __future__ import annotations

import pytest

from emulator.workload.usage_columns import USAGE_COLUMN, NamedColumn
from testdata import RECORDED


@pytest.fixture
def swf_line():
    """A builder of job lines: unnamed fields are unknown."""

    def build(number=1, submit=0, *, run=60, requested=4, estimate=120, wait=0, user=-1):
        fields = [number, submit, wait, run, -1, -1, -1, requested, estimate, -1, 1, user, *[-1] * 6]
        return " ".join(map(str, fields))

    return build


@pytest.fixture
def swf_file(tmp_path):
    """A builder of log files from lines."""

    def build(*lines, name="log.swf"):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return build


@pytest.fixture
def output_of(tmp_path):
    """What a recorded command printed, as a file: a builder by the reference file's name."""

    def build(name):
        lines = (RECORDED / name).read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("$ ", "--- "))]
        path = tmp_path / "recorded.txt"
        path.write_text("".join(f"{line}\n" for line in kept))
        return path

    return build


@pytest.fixture
def text_file(tmp_path):
    """A builder of files from lines."""

    def build(*lines, name="log.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return build


@pytest.fixture
def rows_of():
    """The rows of a log as tuples of the named columns."""

    def build(log, *names):
        return list(zip(*(log.column(name).tolist() for name in names), strict=True))

    return build


@pytest.fixture
def column_named():
    """Says, for one test, which column of a table over time is usage."""
    tokens = []
    yield lambda name: tokens.append(USAGE_COLUMN.set(NamedColumn(name)))
    for token in tokens:
        USAGE_COLUMN.reset(token)
