"""Figures of a workload that a paper does not print and that may decide about its claims (`drawn` in `atlas.yaml`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from balancer.clock import US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable


def overlap(jobs: JobTable, which: NDArray[np.bool_]) -> float:
    """The most nodes that these jobs would have at a time if each began when it comes; 0 without any."""
    submit_us, run_us, nodes = jobs.submit_us[which], jobs.run_us[which], jobs.nodes[which].astype(np.int64)
    edges_us = np.concatenate((submit_us + run_us, submit_us))  # at one time ends come first
    change = np.concatenate((-nodes, nodes))
    return float(np.cumsum(change[np.argsort(edges_us, kind="stable")]).max(initial=0))


def mean_node_s(jobs: JobTable, which: NDArray[np.bool_]) -> float:
    """Node-seconds of these jobs in the mean; 0 without any."""
    node_s = jobs.nodes[which] * (jobs.run_us[which] / US)
    return float(node_s.mean()) if len(node_s) else 0.0
