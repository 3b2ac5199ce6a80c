"""A run in the files of other simulators: they say what the run says, and evalys reads Batsim's."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from evalys.mstates import MachineStatesChanges

from balancer.clock import US
from command_line import emulate
from emulator.report import files
from emulator.report.exports import accasim, batsim
from emulator.report.rules import explain
from emulator.report.theirs import read_theirs
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from oracle.reference import Job
from oracle.workloads import job_table, random_workload

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord

TWO = [Job(1, 0, 10 * US, 12 * US, 2, user=7), Job(2, 4 * US, 5 * US, 5 * US, 3)]
"""On four nodes: job 2 waits from 4 to 10."""


def run_of(jobs: list[Job], nodes: int) -> RunRecord:
    return replace(
        simulate(job_table(jobs), nodes, SchedulerConfig()), scenario={"scheduler": "fcfs+easy", "name": "w"}
    )


def test_batsims_files_say_what_nodes_and_jobs_did():
    found = batsim(run_of(TWO, 4))
    assert found["_machine_states.csv"] == (
        "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing\n"
        "0.0,0,0,0,2,2\n10.0,0,0,0,1,3\n"
    )
    (schedule,) = csv.DictReader(found["_schedule.csv"].splitlines())
    assert schedule == {
        "consumed_joules": "", "makespan": "15.0",
        "max_slowdown": "2.2", "max_turnaround_time": "11.0", "max_waiting_time": "6.0",
        "mean_slowdown": "1.6", "mean_turnaround_time": "10.5", "mean_waiting_time": "3.0",
        "nb_computing_machines": "4", "nb_jobs": "2", "nb_jobs_finished": "2", "nb_jobs_killed": "0",
        "nb_jobs_rejected": "0", "nb_jobs_success": "2", "success_rate": "1.0",
        "time_computing": "35.0", "time_idle": "25.0", "time_unavailable": "0.0",
    }  # fmt: skip


def test_accasims_plan_has_a_line_a_job_in_order_of_end():
    assert accasim(run_of(TWO, 4)) == {
        "": "1;7;1970-01-01 00:00:00__1;1#2;1#__1970-01-01 00:00:00;1970-01-01 00:00:10;2;2;NA;12;\n"
        "2;-1;1970-01-01 00:00:04__1;1#2;1#3;1#__1970-01-01 00:00:10;1970-01-01 00:00:15;3;3;NA;5;\n"
    }


def test_what_is_written_as_accasims_is_read_as_the_same_run(tmp_path: Path):
    rng = np.random.default_rng(5)
    for _ in range(10):
        jobs, nodes = random_workload(rng)
        record = run_of(jobs, nodes)
        (tmp_path / "plan").write_text(accasim(record)[""])
        assert explain(record, read_theirs(tmp_path / "plan")).is_same


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # as in test_evalys.py
def test_evalys_reads_the_machines_states_that_the_command_writes(tmp_path: Path):
    files.write(run_of(TWO, 4), tmp_path / "run", report=False)
    done = emulate("export", tmp_path / "run", "batsim", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    states = MachineStatesChanges(str(tmp_path / "out_machine_states.csv")).df
    assert states.nb_computing.tolist() == [2, 3]
    assert (tmp_path / "out_jobs.csv").read_bytes() == (tmp_path / "run/jobs.csv").read_bytes()


def test_what_is_not_known_is_refused_and_nothing_is_written(tmp_path: Path):
    record = run_of(TWO, 4)
    asleep = replace(record, scenario={"energy": {"busy_w": 1, "idle_w": 1, "sleep_after_s": 5}})
    with pytest.raises(files.ResultsError, match="the nodes of this run sleep"):
        batsim(asleep)
    nowhere = replace(record.runs, node=record.runs.node[:0], first=np.zeros_like(record.runs.first))
    with pytest.raises(files.ResultsError, match="those of this run were not recorded"):
        accasim(replace(record, runs=nowhere))
    done = emulate("export", tmp_path / "gone", "accasim", "--out", tmp_path / "plan")
    assert (done.exit_code, sorted(tmp_path.iterdir())) == (2, [])
