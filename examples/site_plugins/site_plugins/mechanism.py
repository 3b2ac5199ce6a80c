"""A mechanism: what happens to on-demand jobs. It has `on_arrival` and whatever other handlers it wants."""

from dataclasses import dataclass


@dataclass(slots=True)
class IdleOnly:
    """Starts an on-demand job on idle nodes or rejects it; nodes go back at once.

    `keep_free`: so many idle nodes are left to batch jobs.
    """

    keep_free: int = 0

    def on_arrival(self, job, act):
        idle = [node for node, runs in enumerate(act.cluster.node_job) if runs < 0]
        wanted = act.cluster.nodes_wanted(job)
        if len(idle) - self.keep_free < wanted:
            act.reject(job, "not enough idle nodes")
            return
        taken, _ = act.reserve(idle[:wanted])
        act.start(job, taken)

    def on_completion(self, job, nodes, act):
        act.release(nodes)
