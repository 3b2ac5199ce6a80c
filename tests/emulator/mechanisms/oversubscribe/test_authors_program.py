"""`rules: program`: the schedule of the paper's own program on its log, and that of the slow reference anywhere."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest

from balancer.clock import NEVER_US, US
from emulator.experiments.oversubscribe.runs import UNILU, conventional, unilu_workload
from emulator.mechanisms.oversubscribe import DedicatedNodes
from emulator.mechanisms.oversubscribe.machine import Demands, NodeShape, OversubscribedMachine
from emulator.mechanisms.oversubscribe.workload import CoreJobs
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable
from oracle.pinned_head import Job, PinnedHead
from oracle.workloads import smallest_part
from testdata import RECORDED, TRACES

EACH_EVENT = SchedulerConfig.from_mapping({"order": "fcfs", "backfill": "easy", "pass": "event"})
NODES, CORES = 4, 3


def test_the_18555_normal_jobs_of_the_log_wait_as_long_as_in_the_program():
    wanted = {
        "nodes": UNILU.nodes,
        "workload": unilu_workload(TRACES),
        "scheduler": {"order": "fcfs", "backfill": "easy", "pass": "event"},
        "mechanism": conventional(UNILU, 5, rules="program"),
    }
    scenario = from_mapping(wanted)
    record = run_virtual(scenario, prepare(scenario))
    wait_s = (record.start_us - record.jobs.submit_us) / US
    ours = dict(zip(record.jobs.number.tolist(), wait_s.tolist(), strict=True))
    with gzip.open(RECORDED / "schedules" / "minami_unilu_normal_143x12_easy.csv.gz", "rt") as file:
        program = {int(row["job_id"]): float(row["wait_s"]) for row in csv.DictReader(file)}
    assert len(program) == 18_555
    assert {number: ours[number] for number in program} == program
    # What the paper prints of the whole log (Table 3, section 4.3.3).
    assert record.figures["slowdown_100"] == 650
    assert ours[9087] == 127_072


def kernel_starts(jobs):
    table = JobTable.build(
        number=[each.number for each in jobs],
        submit_us=[each.submit * US for each in jobs],
        run_us=[each.run * US for each in jobs],
        estimate_us=[each.estimate * US for each in jobs],
        nodes=[each.nodes for each in jobs],
        extra={"cores": [each.cores for each in jobs]},
    )
    shape = NodeShape(CORES, 1, rules="program")
    cluster = OversubscribedMachine(NODES, shape, EACH_EVENT, table, Demands.of(table, shape, {}))
    cluster.advance(NEVER_US)
    return {
        number: start // US
        for number, start in zip(table.number.tolist(), cluster.start_us.tolist(), strict=True)
    }


def reference_starts(jobs):
    return PinnedHead(NODES, CORES, jobs).run()


def random_jobs(rng):
    """Full of ties; half of the estimates are exact."""
    gap, longest = int(rng.choice((0, 1, 4))), int(rng.choice((3, 15)))
    submit, jobs = 0, []
    for number in range(1, int(rng.integers(2, 30))):
        submit += int(rng.integers(0, gap + 1))
        run = int(rng.integers(1, longest + 1))
        jobs.append(
            Job(
                number,
                submit,
                run,
                run * int(rng.choice((1, 1, 2, 3))),
                int(rng.integers(1, NODES + 1)),
                int(rng.integers(1, CORES + 1)),
            )
        )
    return jobs


@pytest.mark.parametrize("seed", range(8))
def test_every_job_starts_when_it_does_in_the_reference(seed):
    rng = np.random.default_rng([17, seed])
    for _ in range(60):
        jobs = random_jobs(rng)
        if kernel_starts(jobs) != reference_starts(jobs):
            part = smallest_part(jobs, lambda some: kernel_starts(some) != reference_starts(some))
            pytest.fail(f"{part}: kernel {kernel_starts(part)}, reference {reference_starts(part)}")


def test_the_program_wants_a_pass_after_each_event_and_looks_at_no_memory():
    jobs = JobTable.build(submit_us=[0], run_us=[US], nodes=[1], extra={"cores": [1]})
    with pytest.raises(ValueError, match="want a scheduler with backfill easy and pass event"):
        DedicatedNodes(cores=2, rules="program").make_machine(20, SchedulerConfig(), jobs, 1)
    with pytest.raises(ValueError, match="leave memory_gib out"):
        DedicatedNodes(cores=2, rules="program", memory_gib=4)
    with pytest.raises(ValueError, match="rules is paper or program, not 'mine'"):
        DedicatedNodes(cores=2, rules="mine")


@pytest.mark.parametrize(
    ("spread", "nodes", "cores"), [("fewest", [17, 2, 1], [12, 7, 12]), ("divisor", [20, 13, 1], [10, 1, 12])]
)
def test_a_job_has_the_fewest_nodes_or_those_that_divide_its_cores(tmp_path, spread, nodes, cores):
    log = tmp_path / "log.swf"
    log.write_text(
        "".join(
            f"{number} 0 0 10 {procs} -1 -1 {procs} 10 -1 1 1 1 1 1 -1 -1 -1\n"
            for number, procs in enumerate((200, 13, 12), 1)
        )
    )
    jobs = CoreJobs(trace=str(log), cores=12, spread=spread).generate(np.random.default_rng(1), nodes=143)
    assert (jobs.nodes.tolist(), jobs.column("cores").tolist()) == (nodes, cores)
