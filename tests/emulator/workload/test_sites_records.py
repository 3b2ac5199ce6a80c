"""Records in the form that sites have them (`tests/recorded/README.md`, `sites/`), against a few lines of their own."""

from __future__ import annotations

import json
import re

from emulator.workload.formats import find_format, load
from emulator.workload.swf import GPUS_KEY
from testdata import RECORDED

SITES = RECORDED / "sites"


def lines(name):
    return (SITES / name).read_text().splitlines()


def test_lsf_of_three_versions(rows_of):
    log = load(SITES / "lsb.acct")
    finished = [line.split() for line in lines("lsb.acct") if line.startswith('"JOB_FINISH"')]
    assert (len(log), log.passed_over) == (len(finished), {"JOB_RESIZE record": 1})
    assert rows_of(log, "submit_s", "wait_s", "run_s", "requested_procs") == [
        (int(words[7]), int(words[10]) - int(words[7]), int(words[2]) - int(words[10]), int(words[6]))
        for words in finished
    ]
    assert rows_of(log, "requested_s", "allocated_procs", "status") == [
        (43_200, 128, 1),
        (-1, 1, 1),
        (-1, 16, 0),
    ]
    assert log.nodes.tolist() == [8, 1, 2]


def test_pbs_of_four_sites(rows_of):
    log = load(SITES / "accounting")
    ended = {}
    for line in lines("accounting"):
        _, kind, job, said = line.split(";")
        if kind == "E":
            ended[job] = dict(re.findall(r"(\w+)=(\d+)", said))
    assert rows_of(log, "submit_s", "wait_s", "run_s") == [
        (int(said["ctime"]), int(said["start"]) - int(said["ctime"]), int(said["end"]) - int(said["start"]))
        for said in ended.values()
    ]
    assert (len(log), log.records, log.passed_over) == (
        6, 8, {"A record": 1, "earlier run of a job that ran again": 1},
    )  # fmt: skip
    assert rows_of(log, "allocated_procs", "requested_s") == [
        (16, 14_400), (65, 163), (12, 163), (28, -1), (48, 36_000), (1, 172_800),
    ]  # fmt: skip
    assert log.nodes.tolist() == [2, 5, 2, 1, 1, 1]
    assert log.further(GPUS_KEY).tolist() == [-1, -1, -1, 4, 4, -1]


def test_grid_engine_of_four_releases(rows_of):
    log = load(SITES / "grid_engine")
    fields = [line.split(":") for line in lines("grid_engine")]
    unit = [1000 if len(each[8]) > 10 else 1 for each in fields]
    assert rows_of(log, "number", "wait_s", "run_s", "allocated_procs") == [
        (
            int(each[5]),
            (int(each[9]) - int(each[8])) / a_second,
            (int(each[10]) - int(each[9])) / a_second,
            int(each[34]),
        )
        for each, a_second in zip(fields, unit, strict=True)
    ]
    assert log.column("requested_s").tolist() == [36_000, -1, 180_300, -1]


def test_oar_of_three_sites(rows_of):
    assert find_format(SITES / "oarstat.json").name == "oar"
    log = load(SITES / "oarstat.json")
    jobs = json.loads((SITES / "oarstat.json").read_text())
    assert rows_of(log, "number", "submit_s", "wait_s", "allocated_procs") == [
        (
            int(number),
            int(job["submissionTime"]),
            int(job["startTime"]) - int(job["submissionTime"]),
            len(job["assigned_resources"]),
        )
        for number, job in jobs.items()
    ]
    assert rows_of(log, "run_s", "requested_s") == [(-1, 43_200), (200, 7200), (-1, 259_200)]
