"""`python -m emulator.simulation.warm`: compile the kernels into the cache, so that nobody waits for it later."""

from __future__ import annotations

import multiprocessing
import os

from emulator.cluster.cluster import Cluster
from emulator.kernel.job_states import RunOutcome
from emulator.plugins import find_plugin, plugin_names
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.mechanism import GROUP
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable

_SECOND_US = 1_000_000


def warm() -> None:
    """Use every compiled function once, on a machine of two nodes."""
    jobs = JobTable.build(
        submit_us=[0, 0, 0, _SECOND_US],
        run_us=[_SECOND_US, 2 * _SECOND_US, _SECOND_US, 1],
        nodes=[1, 2, 1, 1],
    )
    asked = ("wfp3", "unicef", "multifactor")
    for text in ("fcfs+easy", "fcfs+easy+best_fit", "fcfs+conservative", *asked):
        cluster = Cluster(2, SchedulerConfig.parse(text), jobs)
        cluster.advance(_SECOND_US)
        cluster.finish_instant(_SECOND_US)
        cluster.take_offline([0, 1], _SECOND_US)
        cluster.bring_online([0, 1], _SECOND_US)
    live = Cluster(2, SchedulerConfig(), simulated=False)
    rows = [live.add(number=number, submit_us=0, estimate_us=_SECOND_US, nodes=1) for number in (1, 2)]
    for row in rows:
        live.submit(row, 0)
    live.hold(rows[1])
    live.release_hold(rows[1])
    live.schedule_pass(0)
    live.end(rows[0], _SECOND_US, RunOutcome.FINISHED)
    live.requeue(rows[1], _SECOND_US)
    live.cancel(rows[1], _SECOND_US)


def warm_mechanism(mechanism: object) -> None:
    """The same for one mechanism, or the class of one: from then on it does not keep anybody waiting."""
    warm_up = getattr(mechanism, "warm_up", None)
    if warm_up is not None:
        warm_up()


_BUILT_ON_THE_HARNESS = ("hybrid", "balancer")
"""Mechanisms that call most of the harness's kernels: warmed after them, in the same process."""


def _warm_named(*names: str) -> None:
    for name in names:
        warm_mechanism(find_plugin(GROUP, name))


def warm_slurm() -> None:
    """The twin of Slurm has loops of its own."""
    second = _SECOND_US
    jobs = JobTable.build(submit_us=[0, second], run_us=[second, second], nodes=[2, 1], user=[1, 2])
    weights = {"priority_type": "multifactor", "priority_weight_fairshare": 1}
    simulate(jobs, 2, SchedulerConfig(decide={"slurm": weights}))


def _warm_harness() -> None:
    warm()
    _warm_named(*_BUILT_ON_THE_HARNESS)


def warm_all() -> None:
    """The harness and all mechanisms, in two processes where there are two processors.

    A mechanism's kernels are compiled by one of them; of the harness's only the few that others call, by both.
    """
    others = [name for name in plugin_names(GROUP) if name not in _BUILT_ON_THE_HARNESS]
    processes = min(2, len(os.sched_getaffinity(0)))
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = [
            pool.apply_async(_warm_harness),
            pool.apply_async(warm_slurm),
            *(pool.apply_async(_warm_named, (name,)) for name in others),
        ]
        for result in results:
            result.get()


if __name__ == "__main__":
    warm_all()
