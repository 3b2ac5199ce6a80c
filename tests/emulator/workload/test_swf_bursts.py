"""SWF logs with lines of partial executions: the line that sums the job up is the job, the others are none."""

from __future__ import annotations

import emulator
from emulator.workload.formats import load

LINE = "{} {} 0 {} 2 -1 -1 2 60 -1 {} 1 1 -1 1 -1 -1 -1\n"


def log_of(folder, *rows):
    path = folder / "log.swf"
    path.write_text("; MaxProcs: 4\n" + "".join(LINE.format(*row) for row in rows))
    return path


def test_parts_of_a_job_that_has_a_line_of_its_own_are_passed_over(tmp_path):
    path = log_of(
        tmp_path, (1, 0, 30, 1), (1, 0, 10, 2), (1, -1, 20, 3), (2, 5, 7, 0), (3, 9, 8, 4), (4, 9, 8, 2)
    )
    log = load(path)
    assert log.column("number").tolist() == [1, 2, 3, 4], "3 and 4 have no other line"
    assert log.passed_over == {"partial executions of jobs (status 2, 3 or 4)": 2}
    assert log.records == 6
    summary = emulator.run(path).summary
    assert summary["jobs_run"] == 4
    assert summary["jobs_changed"] == {"no job of its own: partial executions of jobs (status 2, 3 or 4)": 2}


def test_a_key_that_asks_for_what_no_job_of_the_log_says_is_told(tmp_path):
    path = log_of(tmp_path, (1, 0, 30, 1), (2, 5, 7, 0))
    asked = {
        "workload.dependencies": "start",
        "workload.cancelled": "at_time",
        "workload.queue_field": "partition",
    }
    assert emulator.run(path, changes=asked).summary["jobs_changed"] == {
        "dependencies: the log says of no job which it waits for": 2,
        "cancelled: no job of the log has status 5": 2,
        "queue_field: the log says of no job in which partition it was": 2,
    }
    assert emulator.run(path).summary["jobs_changed"] == {}
