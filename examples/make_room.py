"""A mechanism that makes room: batch jobs stand still while an on-demand job runs on their nodes, and lose nothing."""

from dataclasses import dataclass, field

import numpy as np

from emulator.kernel.job_states import JobState
from emulator.workload.table import Kind


@dataclass(slots=True)
class MakeRoom:
    """Suspends the batch jobs that started last; when the on-demand job is over they go on as soon as they can."""

    _away: dict[int, list[int]] = field(init=False, default_factory=dict)
    _back: list[int] = field(init=False, default_factory=list)

    def on_arrival(self, job, act):
        cluster, wanted = act.cluster, act.cluster.nodes_wanted(job)
        nodes = np.flatnonzero((cluster.node_job < 0) & (cluster.node_offline == 0)).tolist()
        is_batch = cluster.job_table().kind == Kind.BATCH
        running = np.flatnonzero(is_batch & (cluster.state == JobState.RUNNING))
        victims, away = sorted(running.tolist(), key=lambda one: cluster.start_us[one]), []
        while len(nodes) < wanted and victims:
            away.append(victims.pop())
            nodes += act.suspend(away[-1], free_nodes=True)
        if len(nodes) < wanted:
            act.reject(job, "other on-demand jobs have the nodes")
            self._go_on(away, act)
            return
        self._away[job] = away
        act.reserve(nodes[-wanted:])
        act.start(job, nodes[-wanted:])

    def on_completion(self, job, nodes, act):
        act.release(nodes)
        self._go_on(self._away.pop(job), act)

    def _go_on(self, jobs, act):
        self._back += jobs
        for job in jobs:
            act.reserve(act.cluster.nodes_of(job), when_free=True)  # another job may run there by now
        self.on_job_end(act)

    def on_job_end(self, act):
        for job in list(self._back):
            nodes = act.cluster.nodes_of(job)
            if (act.cluster.node_job[nodes] < 0).all():
                act.resume(job)
                act.release(nodes)
                self._back.remove(job)
