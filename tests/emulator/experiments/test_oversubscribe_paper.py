"""The oversubscription paper: every claim has its runs, and the numbers of the real log that can be met are met."""

from __future__ import annotations

import json
from math import ceil
from time import process_time

import numpy as np
import pytest

from emulator.experiments.claims import judge, worlds
from emulator.experiments.oversubscribe import PAPER
from emulator.experiments.oversubscribe.runs import UNILU, conventional, shared, unilu_workload
from emulator.experiments.paper import Options, find_paper
from emulator.mechanisms.oversubscribe.figures import LEVELS
from emulator.metrics.heat import LENGTH_EDGES_S, SIZE_EDGES
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from testdata import TRACES


def options(*, quick: bool, log: bool) -> Options:
    return Options(quick=quick, traces=TRACES if log else None, seeds=1)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("log", [True, False])
def test_every_claim_can_be_judged_from_the_planned_runs(quick, log):
    labels = [run.varied["label"] for run in PAPER.sweep(options(quick=quick, log=log)).runs]
    assert len(labels) == len(set(labels))
    names = [f"{figure}_{kind}" for figure in ("max_wait_s", "mean_wait_s", "max_slowdown", "mean_slowdown", "waiting")
             for kind in ("responsive", "normal")]  # fmt: skip
    names += [
        f"job_{number}_{what}" for number in (2819, 918, 9087) for what in ("wait_s", "run_s", "slowdown")
    ]
    names += ["slowdown_100", "slowdown_100_share", "last_end_s", "completion_90_h", "completion_95_h"]
    names += ["jobs_responsive", *(f"slowdown_at_most_{level:g}" for level in LEVELS)]
    figures: dict = {f"mechanism.{name}": 2.0 for name in names}
    figures["mechanism.heat"] = json.dumps(np.ones((len(SIZE_EDGES), len(LENGTH_EDGES_S), 2)).tolist())
    figures["jobs_run"] = 1
    found = worlds([{"label": label, "seed": 1} | figures for label in labels])
    verdicts = judge(PAPER.claims(options(quick=quick, log=log)), found)
    assert [verdict.claim.id for verdict in verdicts if not verdict.values] == []
    assert [verdict.claim.id for verdict in verdicts if not all(verdict.also.values())] == []
    assert len({verdict.claim.id for verdict in verdicts}) == len(verdicts)
    assert all(table.row_count for table in PAPER.tables(found))


def test_the_paper_is_found_by_its_name():
    assert find_paper("oversubscribe") is PAPER


def figures_of(mechanism: dict) -> dict:
    workload = unilu_workload(TRACES)
    scenario = from_mapping({"nodes": UNILU.nodes, "workload": workload, "mechanism": mechanism})
    prepared = prepare(scenario)
    run_virtual(scenario, prepared)  # compiles
    begin_s = process_time()
    record = run_virtual(scenario, prepared)
    return {"cpu_s": process_time() - begin_s, **record.figures}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_log_with_m_4_starts_every_job_at_once_in_less_than_ten_seconds():
    found = figures_of(shared(UNILU, 4))
    assert found["cpu_s"] < 10
    assert (found["waiting_responsive"], found["waiting_normal"]) == (0, 0)
    assert found["max_slowdown_normal"] == 4.0
    assert (found["job_2819_wait_s"], found["job_2819_run_s"], found["job_2819_slowdown"]) == (0, 5876, 2.0)
    assert (found["job_918_run_s"], found["job_918_slowdown"]) == (119, 1.0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_tenth_of_the_nodes_lets_no_interactive_job_of_the_log_wait():
    found = figures_of(conventional(UNILU, 10))
    assert (found["max_wait_s_responsive"], found["max_slowdown_responsive"]) == (0, 1.0)
    # Table 4, in which hours are rounded up.
    assert (ceil(found["completion_90_h"]), ceil(found["completion_95_h"])) == (2094, 2105)
