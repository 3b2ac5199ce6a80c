"""Time in which jobs were suspended is no run time where a log says it, and is told where it does not."""

from __future__ import annotations

import json

import pytest

from emulator.workload import grid_engine, oar
from emulator.workload.formats import load
from emulator.workload.rows import SUSPENDED, UNKNOWN_SUSPENSION
from testdata import RECORDED

LSF = (RECORDED / "lsf/lsb.acct.txt").read_text().splitlines()[0]
LSF_10, LSF_9 = '"" -1 "" -1 0 "" 0 0 "" {} "/tmp" 0', '"" -1 "" -1 0 "" "" {} "/tmp" 0'
"""What real records of 10.1 and 9.1.3 have behind the effective requirement."""
SACCT = "JobIDRaw|Submit|Start|NNodes|State"


@pytest.mark.parametrize("behind", [LSF_10, LSF_9])
@pytest.mark.parametrize(
    ("run_time", "run_s", "told"),
    [
        (600, 600, []),
        (590, 600, []),
        (200, 200, [SUSPENDED]),
        (0, 600, [UNKNOWN_SUSPENSION]),
        (9000, 600, []),
    ],
)
def test_lsf_has_the_time_that_a_job_ran(text_file, behind, run_time, run_s, told):
    assert LSF.endswith(' ""')
    log = load(text_file(LSF.removesuffix('""') + behind.format(run_time)))
    assert (log.column("run_s").tolist(), list(log.remarks)) == ([run_s], told)


def test_lsf_without_that_field_is_told(text_file):
    assert load(text_file(LSF)).remarks == {UNKNOWN_SUSPENSION: 1}


@pytest.mark.parametrize(
    ("columns", "said", "run_s", "told"),
    [
        ("End|Suspended", "1000|00:05:00", 600, {SUSPENDED: 1}),
        ("End|Suspended", "1000|00:00:00", 900, {}),
        ("End|Suspended", "1000|1-00:00:00", 0, {SUSPENDED: 1}),
        ("End", "1000", 900, {UNKNOWN_SUSPENSION: 1}),
        ("ElapsedRaw|Suspended", "600|00:05:00", 600, {SUSPENDED: 1}),
        ("ElapsedRaw", "600", 600, {}),
    ],
)
def test_sacct_is_without_it(text_file, columns, said, run_s, told):
    log = load(text_file(f"{SACCT}|{columns}", f"1|50|100|2|COMPLETED|{said}"))
    assert (log.column("run_s").tolist(), log.remarks) == ([run_s], told)


@pytest.mark.parametrize(("elapsed", "run_s"), [({"elapsed": 600}, 600), ({}, 600)])
def test_sacct_json_is_without_it(tmp_path, rows_of, elapsed, run_s):
    time = {"submission": 50, "start": 100, "end": 1000, "suspended": 300} | elapsed
    job = {
        "job_id": 1,
        "association": {},
        "allocation_nodes": 2,
        "state": {"current": ["COMPLETED"]},
        "time": time,
    }
    (tmp_path / "sacct.json").write_text(json.dumps({"jobs": [job]}))
    log = load(tmp_path / "sacct.json")
    assert (rows_of(log, "run_s"), log.remarks) == ([(run_s,)], {SUSPENDED: 1})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, {}),
        ({"suspended": "NO"}, {}),
        ({"suspended": "YES"}, {oar.SUSPENDED: 1}),
        ({"events": [{"type": "HOLD_RUNNING_JOB"}, {"type": "RESUME_JOB"}]}, {oar.SUSPENDED: 1}),
    ],
)
def test_oar_tells_it(tmp_path, change, told):
    job = json.loads((RECORDED / "oar/oarstat.json").read_text())["42"] | change
    (tmp_path / "oar.json").write_text(json.dumps({"42": job}))
    assert load(tmp_path / "oar.json").remarks == told


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({}, {UNKNOWN_SUSPENSION: 1}),
        ({"usage": {"usage": {"wallclock": 3599.5}}}, {}),
        ({"usage": {"wallclock": 1200.0}}, {grid_engine.PAUSED: 1}),
        ({"usage": {"usage": {"wallclock": 1200.0}}}, {grid_engine.PAUSED: 1}),
    ],
)
def test_grid_engine_tells_it(text_file, rows_of, usage, told):
    record = dict.fromkeys(grid_engine.FIELDS, "0") | {
        "qname": "all.q", "job_number": 7, "submission_time": 100, "start_time": 160, "end_time": 3760, "slots": 4,
        "pe_taskid": "NONE",
    }  # fmt: skip
    log = load(text_file(json.dumps(record | usage), name="accounting.jsonl"))
    assert (rows_of(log, "run_s"), log.remarks) == ([(3600,)], told)


@pytest.mark.parametrize(
    ("wallclock", "told"),
    [("12838.830000", {}), ("2838.830000", {grid_engine.PAUSED: 1}), ("X", {UNKNOWN_SUSPENSION: 1})],
)
def test_grid_engine_of_univa_writes_it_in_the_line(text_file, wallclock, told):
    line = (RECORDED / "sites/grid_engine").read_text().splitlines()[1]
    assert ":12838.830000:" in line
    assert load(text_file(line.replace(":12838.830000:", f":{wallclock}:"))).remarks == told
