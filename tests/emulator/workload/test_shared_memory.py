"""One process reads a log, the others map what it found; none sees what another changes."""

from __future__ import annotations

import multiprocessing
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest

from emulator.workload.shared_memory import FOLDER, shared
from emulator.workload.table import JobTable
from emulator.workload.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path


def made() -> Workload:
    jobs = JobTable.build(
        submit_us=[0, 5, 9], run_us=[1, 2, 3], nodes=[4, 5, 6], extra={"min_nodes": [1, -1, 2]}
    )
    return Workload(jobs, 8, np.array([2, 0, 1]), 1.5, {"too wide": 3}, {"extended": 1}, "a.swf")


def not_made() -> Workload:
    raise AssertionError("this was read already")


def columns(work: Workload) -> dict[str, object]:
    """All that is in it, in Python's types."""
    jobs = {each.name: getattr(work.jobs, each.name) for each in fields(JobTable)}
    extra = {name: values.tolist() for name, values in jobs.pop("extra").items()}
    of_jobs = {name: (values.tolist(), values.dtype.str) for name, values in jobs.items()}
    others = (work.nodes, work.rows.tolist(), work.shift_s, work.left_out, work.counted, work.source)
    return of_jobs | {"extra": extra, "others": others}


@pytest.fixture
def folder(tmp_path):
    token = FOLDER.set(tmp_path)
    yield tmp_path
    FOLDER.reset(token)


def seen_elsewhere(folder: Path) -> dict[str, object]:
    FOLDER.set(folder)
    work = shared("log", not_made)
    work.jobs.nodes[:] = 99
    return columns(shared("log", not_made))


def test_another_process_maps_what_one_has_read_and_its_changes_stay_its_own(folder):
    first = shared("log", made)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(seen_elsewhere, (folder,)) == columns(made())
    first.jobs.nodes[:] = 7
    assert columns(shared("log", not_made)) == columns(made())


def test_another_log_is_read(folder):
    shared("log", made)
    with pytest.raises(AssertionError, match="read already"):
        shared("another log", not_made)
    assert columns(shared("another log", made)) == columns(made())


def test_without_a_folder_everybody_reads():
    assert columns(shared("log", made)) == columns(made())
    with pytest.raises(AssertionError, match="read already"):
        shared("log", not_made)
