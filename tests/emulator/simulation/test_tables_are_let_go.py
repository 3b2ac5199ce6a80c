"""A run that is over leaves nothing behind: its tables may be hundreds of megabytes, and a sweep does thousands."""

from __future__ import annotations

import gc
import weakref

from emulator.cluster.cluster import Cluster
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.table import JobTable


def test_the_machine_of_a_run_goes_with_it_and_waits_for_no_collection():
    jobs = JobTable.build(submit_us=[0, 1], run_us=[5, 5], estimate_us=[5, 5], nodes=[1, 2])
    gc.disable()
    try:
        cluster = Cluster(2, SchedulerConfig(), jobs)
        loop = Loop(cluster)
        loop.run()
        record, machine = loop.record(), weakref.ref(cluster)
        del cluster, loop
        assert machine() is None
    finally:
        gc.enable()
    assert list(record.runs.job) == [0, 1]
