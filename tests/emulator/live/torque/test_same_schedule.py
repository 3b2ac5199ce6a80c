"""The live fleet makes the schedule of virtual time: start by start, end by end."""

import numpy as np
import pytest

from balancer.clock import NEVER_US, US
from emulator.clock.event_priority import EventPriority
from emulator.cluster.cluster import Cluster
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable

JOBS = 60
NODES = 6


def workload(seed):
    """Busy, with many submits and ends at the same instants, and some that are not whole seconds."""
    draw = np.random.default_rng(seed)
    run_us = draw.choice([10 * US, 20 * US, 30 * US, 45 * US, 12_345_678], JOBS)
    return JobTable.build(
        submit_us=np.sort(draw.integers(0, 40, JOBS) * 10 * US),
        run_us=run_us,
        estimate_us=np.maximum(run_us, draw.choice([15 * US, 30 * US, 90 * US], JOBS)),
        nodes=draw.integers(1, NODES + 1, JOBS),
        number=np.arange(JOBS),
        queue=draw.integers(0, 3, JOBS),
        user=draw.integers(0, 4, JOBS),
    )


FAIR = {"age_weight": 1, "max_age_s": 100, "half_life_s": 60, "queues": {1: 1, 2: 0.5}}


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    ["fcfs+easy", "sjf+none", "fcfs+conservative", "wfp3+easy", {"order": {"multifactor": FAIR}}],
    ids=str,
)
def test_every_job_starts_and_ends_when_it_does_in_virtual_time(make_fleet, scheduler):
    jobs = workload(sum(map(ord, str(scheduler))))
    is_short = isinstance(scheduler, str)
    config = SchedulerConfig.parse(scheduler) if is_short else SchedulerConfig.from_mapping(scheduler)
    simulated = Cluster(NODES, config, jobs)
    simulated.advance(NEVER_US)
    fleet = make_fleet(hooks=False, scheduler=scheduler, np=1, agent={"np": 1})
    submitter = fleet.clock.alarm(EventPriority.SUBMIT)
    submitter.set(0)
    fleet._alarm.set(NEVER_US)
    for job in range(JOBS):
        submitter.set(int(jobs.submit_us[job]))
        assert submitter.wait(60)
        seconds, rest = divmod(int(jobs.run_us[job]), US)
        estimate = f"{int(jobs.estimate_us[job]) / US:f}"
        fleet.qsub(
            "-l",
            f"nodes={jobs.nodes[job]},walltime={estimate}",
            "-v",
            f"TRACE_NUMBERS={jobs.queue[job]}/{jobs.user[job]}/{jobs.group[job]}",
            script=f"sleep {seconds}.{rest:06}\n",
        )
    fleet._alarm.set(fleet.clock.now_us())
    submitter.close()
    fleet.at(int(simulated.end_us.max()) / US + 1)
    found = [(job["runs"][0]["start_us"], job["runs"][0]["end_us"]) for job in fleet.export()["jobs"]]
    wanted = list(zip(simulated.start_us.tolist(), simulated.end_us.tolist(), strict=True))
    assert found == wanted
    nodes = [sorted(job["runs"][0]["nodes"]) for job in fleet.export()["jobs"]]
    runs = simulated.run_table()
    first, node = runs.first.tolist(), runs.node.tolist()
    nodes_of = {job: sorted(node[first[row] : first[row + 1]]) for row, job in enumerate(runs.job.tolist())}
    assert nodes == [nodes_of[job] for job in range(JOBS)]
