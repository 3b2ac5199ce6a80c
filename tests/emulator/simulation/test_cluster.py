"""The machine by itself: what it tells of its nodes, and of jobs that are sent back to the queue."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import JobState
from emulator.machine.running import RunningJobs
from emulator.schedulers.config import SchedulerConfig
from oracle.workloads import job_table, random_workload


@pytest.mark.parametrize("seed", range(20))
def test_nodes_that_are_looked_at_late_tell_the_same_as_nodes_that_were_always_watched(seed: int) -> None:
    jobs, nodes = random_workload(np.random.default_rng([5, seed]))
    late = Cluster(nodes, SchedulerConfig(), job_table(jobs))
    watched = Cluster(nodes, SchedulerConfig(), job_table(jobs))
    assert watched.node_job.tolist() == [-1] * nodes
    for until_us in (max(job.submit_us for job in jobs) // 2, max(job.submit_us for job in jobs) + US):
        for cluster in (late, watched):
            cluster.advance(until_us)
            cluster.finish_instant(until_us)
    for cluster in (late, watched):
        offline = [0, nodes - 1]
        cluster.take_offline(offline, cluster.now_us)
        cluster.advance(cluster.now_us + 5 * US)
        cluster.finish_instant(cluster.now_us)
        cluster.bring_online(offline, cluster.now_us)
        cluster.advance(cluster.now_us + 5 * US)
    assert late.node_job.tolist() == watched.node_job.tolist()
    assert late.node_since_us.tolist() == watched.node_since_us.tolist()
    assert late.run_table().node.tolist() == watched.run_table().node.tolist()


def test_a_requeued_job_gets_a_new_reservation_even_where_reservations_are_kept() -> None:
    cluster = Cluster(2, SchedulerConfig(reservation="kept"), simulated=False)
    narrow = cluster.add(number=1, submit_us=0, estimate_us=10 * US, nodes=1)
    wide = cluster.add(number=2, submit_us=1 * US, estimate_us=10 * US, nodes=2)
    for row, now_us in ((narrow, 0), (wide, 1 * US)):
        cluster.submit(row, now_us)
        cluster.schedule_pass(now_us)
    cluster.end(narrow, 5 * US)
    assert cluster.schedule_pass(5 * US).tolist() == [wide]

    cluster.requeue(wide, 20 * US)
    cluster.take_offline([0], 20 * US)
    other = cluster.add(number=3, submit_us=20 * US, estimate_us=100 * US, nodes=1)
    cluster.submit(other, 20 * US)
    # The wide job does not fit at any time now. By the reservation of its first wait (10 s) nobody may pass it.
    assert cluster.schedule_pass(20 * US).tolist() == [other]


def test_what_a_mechanism_may_look_at_cannot_be_written() -> None:
    cluster = Cluster(2, SchedulerConfig(), simulated=False)
    rows = [cluster.add(number=number, submit_us=0, estimate_us=US, nodes=1) for number in range(100)]
    cluster.submit(rows[99], 0)  # the tables have grown meanwhile
    shown = ("table", "state", "start_us", "end_us", "queue", "node_job", "node_since_us", "node_offline")
    for name in shown:
        with pytest.raises(ValueError, match="read-only"):
            getattr(cluster, name)[0] = 0
    for column in (cluster.job_table().run_us, RunningJobs(cluster).work):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    before = cluster.node_job
    cluster.schedule_pass(0)
    assert before.tolist() == cluster.node_job.tolist() == [99, -1]
    assert cluster.state[99] == JobState.RUNNING


def test_no_class_inherits_from_the_cluster() -> None:
    """What differs is a selection or rules, which it is given."""
    package = Path(__file__).parents[3] / "emulator"
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
    bases = [
        (path.name, node.name, ast.unparse(base))
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    ]
    assert ("cluster.py", "Cluster", "ClusterTables") in bases
    assert [each for each in bases if each[2].split(".")[-1] == "Cluster"] == []
