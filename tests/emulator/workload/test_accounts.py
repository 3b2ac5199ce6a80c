"""Every record of a file is a job, part of one, no job, left out, or malformed: the readers account for all of them."""

from __future__ import annotations

import random

import pytest

from emulator.workload.condor import CondorFormat
from emulator.workload.files import TraceError
from emulator.workload.formats import find_format
from emulator.workload.rules import to_jobs
from emulator.workload.workload import is_not_read
from log_files import MAKERS


@pytest.mark.parametrize("name", MAKERS)
def test_each_record_of_a_random_file_ends_as_exactly_one_thing(text_file, name):
    rng, read = random.Random(name), 0
    text_file('{"phases": [{"tasks": [{"type": "idle", "delay": 5}]}]}', name="m.json")
    for _ in range(60):
        text, records = MAKERS[name](rng, rng.randrange(2, 30))
        path = text_file(text.removesuffix("\n"))
        try:
            log = find_format(path, trace_format=name.split()[0]).read(path, lenient=True)
            assert log.records == records
            work = to_jobs(log, nodes=1000)
        except TraceError:
            continue  # nothing in it can be read, or replayed, and that is said
        read += 1
        not_read = sum(count for what, count in work.counted.items() if is_not_read(what))
        rows = 0 if name == "usage_series" else len(work.jobs) + sum(work.left_out.values())
        assert rows + not_read == records
    assert read > 20


def test_records_of_the_long_form_are_accounted_for_too(text_file):
    path = text_file(
        "ClusterId = 1",
        "QDate = 5",
        "",
        "ClusterId = 2",
        "",
        "ClusterId = 3",
        "QDate = 5",
        "JobUniverse = 12",
    )
    log = CondorFormat().read(path, lenient=True)
    assert (len(log), log.malformed, log.passed_over) == (1, 1, {"job of the local universe": 1})
