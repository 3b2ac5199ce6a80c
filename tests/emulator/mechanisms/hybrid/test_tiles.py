"""Who had the nodes of on-demand jobs before, against a look at each node's runs in turn."""

from __future__ import annotations

from collections import Counter

import numpy as np

from emulator.kernel.job_states import RunOutcome
from emulator.mechanisms.hybrid.tiles import Lender, lenders
from emulator.workload.table import Kind
from oracle.hybrid_kit import STRATEGIES, random_jobs, simulate


def looked_up(record):
    """How often a run of an on-demand job had a node of each lender."""
    runs, jobs, last, found = record.runs, record.jobs, {}, Counter()
    for run in range(len(runs.job)):
        for node in runs.node[runs.first[run] : runs.first[run + 1]].tolist():
            before, last[node] = last.get(node), run
            if jobs.kind[runs.job[run]] != Kind.ON_DEMAND:
                continue
            lender = Lender.IDLE
            if before is not None and jobs.kind[runs.job[before]] == Kind.BATCH:
                is_malleable = jobs.extra["job_class"][runs.job[before]] == 2
                lender = {
                    RunOutcome.PREEMPTED: Lender.MALLEABLE if is_malleable else Lender.RIGID,
                    RunOutcome.RESIZED: Lender.NARROWED,
                }.get(RunOutcome(int(runs.outcome[before])), Lender.IDLE)
            found[run, lender] += 1
    return found


def test_lenders_are_those_whose_run_on_the_node_was_stopped_or_narrowed_last():
    seen = Counter()
    for seed in range(60):
        rng = np.random.default_rng([48, seed])
        jobs, nodes = random_jobs(rng, jobs=30)
        record, _ = simulate(jobs, nodes, str(rng.choice(STRATEGIES)))
        run, lender = lenders(record)
        found = Counter((int(one), Lender(int(who))) for one, who in zip(run, lender, strict=True))
        assert found == looked_up(record)
        seen.update(who for _, who in found)
    assert set(seen) == set(Lender)
