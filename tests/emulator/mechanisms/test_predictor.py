"""The predictor in virtual time, and the static partition."""

from __future__ import annotations

import pytest

from emulator.metrics import summarize
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable, Kind

H = 3_600_000_000


def table(*jobs: tuple[float, float, int, Kind]) -> JobTable:
    """(submit_h, run_h, nodes, kind)."""
    return JobTable.build(
        submit_us=[round(job[0] * H) for job in jobs],
        run_us=[round(job[1] * H) for job in jobs],
        nodes=[job[2] for job in jobs],
        kind=[job[3] for job in jobs],
    )


def run(jobs: JobTable, nodes: int, mechanism: dict):
    scenario = from_mapping(
        {"nodes": nodes, "workload": {"generate": ["bursty_leases"]}, "mechanism": mechanism}
    )
    record = run_virtual(scenario, Prepared(jobs, nodes))
    assert_lawful(record)
    return summarize(record)


BUSY = table((0.5, 10, 4, Kind.BATCH), (2, 1, 2, Kind.ON_DEMAND), (20, 1, 1, Kind.BATCH))
"""A job that wants the whole cluster at 0:30, a lease at 2:00."""


def test_a_predicted_reserve_serves_the_lease_that_would_have_been_rejected():
    assert run(BUSY, 4, {"balancer": {}})["ondemand_rejected"] == 1
    figures = run(BUSY, 4, {"balancer": {"predictor": "peak", "history": [2, 0, 0, 0]}})
    assert figures["ondemand_rejected"] == 0
    # Two nodes from 0:00 to the request at 2:00, and for I = 10 minutes after the lease.
    assert figures["reserve_idle_node_h"] == pytest.approx(4 + 2 / 6)


def test_a_reserve_of_the_papers_text_is_gone_after_i():
    balancer = {"predictor": "peak", "history": [2, 0, 0, 0], "keep": "hold"}
    assert run(BUSY, 4, {"balancer": balancer})["ondemand_rejected"] == 1


def test_requests_of_the_run_itself_are_history_too():
    daily = [(24 * day + 2, 1, 2, Kind.ON_DEMAND) for day in range(3)]
    blocking = [(24 * day + 0.5, 10, 4, Kind.BATCH) for day in range(3)]
    figures = run(table(*daily, *blocking), 4, {"balancer": {"predictor": "peak"}})
    assert figures["ondemand_rejected"] == 1  # the first day, of which nothing was known


@pytest.mark.parametrize(
    ("balancer", "text"),
    [
        ({"predictor": "peak", "history": [1.5]}, "history is a list of whole numbers"),
        ({"predictor": "peak", "keep": "forever"}, "keep must be one of slot, hold, not 'forever'"),
        ({"predictor": "peak", "slots_per_day": 0}, "slots_per_day must be a whole number from 1"),
        ({"predictor": "peek"}, "did you mean 'peak'"),
        ({"keep": "hold"}, "keep: it is a predictor's"),
        ({"slots_per_day": 24}, "slots_per_day: it is a predictor's"),
        ({"history": [3]}, "history: it is a predictor's"),
        (
            {"predictor": {"peak": {"combin": "max"}}},
            "predictor peak has no parameter 'combin'; did you mean 'combine'",
        ),
    ],
)
def test_a_wrong_predictor_is_an_error_before_the_run(balancer, text):
    with pytest.raises(ValueError, match=text):
        run(BUSY, 4, {"balancer": balancer})


def test_a_static_partition_serves_leases_from_its_own_nodes_and_no_others():
    jobs = table((0, 1, 2, Kind.ON_DEMAND), (0.5, 1, 1, Kind.ON_DEMAND), (2, 1, 2, Kind.ON_DEMAND))
    figures = run(jobs, 4, {"static_partition": {"ondemand_nodes": 2}})
    assert (figures["ondemand_granted"], figures["ondemand_rejected"]) == (2, 1)
    assert figures["reserve_idle_node_h"] == 2  # from 1:00 to 2:00


def test_batch_jobs_never_use_the_on_demand_nodes():
    jobs = table((0, 1, 2, Kind.BATCH), (0, 1, 1, Kind.BATCH))
    assert run(jobs, 4, {"static_partition": {"ondemand_nodes": 2}})["makespan_s"] == 7200
    with pytest.raises(ValueError, match="job 1 wants 2 nodes, but only 1 are left for batch"):
        run(jobs, 4, {"static_partition": {"ondemand_nodes": 3}})
