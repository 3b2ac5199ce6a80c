"""Jobs that share nodes live: the run is that of virtual time, and on real processors they get their shares."""

import json
import os
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from emulator.kernel.job_states import JobState
from emulator.live.fleet import Fleet
from emulator.runs.preparation import Prepared
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.validation.laws import check
from emulator.workload.table import JobTable
from fleet_kit.both_clocks import assert_same, of_a_table, run_both, run_live

S = 1_000_000
pytestmark = pytest.mark.live
needs_two = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two jobs beside each other need two processors"
)


def workload(seed, jobs=40):
    draw = np.random.default_rng(seed)
    run_us = draw.integers(10 * S, 900 * S, jobs)
    return JobTable.build(
        submit_us=np.sort(draw.integers(0, 2000, jobs) * S),
        run_us=run_us,
        estimate_us=(run_us * draw.uniform(1, 3, jobs)).astype(np.int64),
        nodes=draw.choice([1, 1, 1, 2, 3], jobs),
        queue=draw.integers(0, 2, jobs),
        extra={"cores": draw.integers(1, 5, jobs), "share_limit": draw.choice([-1, -1, 1], jobs)},
    )


scenario = partial(of_a_table, nodes=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "scheduler"),
    [
        pytest.param({"oversubscribe": {"cores": 4, "multiplicity": 2}}, "fcfs+none", id="fcfs"),
        pytest.param({"oversubscribe": {"cores": 4, "multiplicity": 4}}, "fcfs+easy", id="easy"),
        pytest.param(
            {"dedicated_nodes": {"cores": 4, "percent": 34, "refuse_too_wide": True}},
            "fcfs+easy",
            id="dedicated",
        ),
    ],
)
def test_it_is_the_run_of_virtual_time(tmp_path, mechanism, scheduler):
    virtual, live = run_both(tmp_path, scenario(mechanism, scheduler=scheduler), workload(1))
    assert_same(virtual, live)
    assert live.node_names == virtual.node_names
    assert live.figures == virtual.figures
    assert {name: column.tolist() for name, column in live.jobs.extra.items()} == {
        name: column.tolist() for name, column in virtual.jobs.extra.items()
    }


class TestRealProcessors:
    """One node of two cores: jobs 1 and 3 share one for all of their lives, 2 has the other, then 4 has both."""

    jobs = JobTable.build(
        submit_us=[0, 0, 0, 85 * S],
        run_us=[40 * S, 80 * S, 40 * S, 40 * S],
        nodes=[1, 1, 1, 1],
        extra={"cores": [1, 1, 1, 2]},
    )

    def wanted(self, **live):
        mechanism = {"oversubscribe": {"cores": 2, "multiplicity": 2}}
        return scenario(mechanism, nodes=1, speed=15, jobs="cpu-bound", pace="free", **live)

    @pytest.mark.slow
    @needs_two
    def test_jobs_get_the_shares_of_their_cores_that_the_model_gives_them(self, tmp_path):
        live = run_live(tmp_path, self.wanted(), self.jobs)
        assert (live.interrupted, check(live), set(live.state.tolist())) == ("", [], {JobState.ENDED})
        shares = json.loads(live.figures["processor_shares"])
        model = [(share["job"], share["cores"], share["model_slowdown"]) for share in shares]
        assert model == [(1, 1, 2), (2, 1, 1), (3, 1, 2), (4, 2, 1)]
        for share in shares:
            # Whatever else this machine does: strangers take from all jobs of a processor alike.
            assert share["slowdown_by_shares"] == pytest.approx(share["model_slowdown"], rel=0.35), share
            # How much a processor does in its time is the machine's affair: only that it was measured.
            assert share["measured_slowdown"] > 0

    @pytest.mark.slow
    @needs_two
    def test_a_run_that_is_stopped_at_once_has_a_record_without_shares(self, tmp_path):
        fleet = Fleet(self.wanted(), Prepared(self.jobs, 1), tmp_path)
        record = fleet.run(SimpleNamespace(reason="SIGINT"), quiet=True)
        assert record.interrupted == "stopped by SIGINT"
        assert "processor_shares" not in record.figures

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"mechanism": None}, "need a mechanism under which jobs share cores"),
            ({"live": {"jobs": "cpu-bound"}}, "set live.pace to free"),
            ({"nodes": 4096}, r"need a processor for each core: this machine has \d+, the scenario 8192"),
            (
                {"mechanism": {"oversubscribe": {"cores": 1, "gpus": 1}}, "nodes": 1},
                "leave out GPUs and interactive phases",
            ),
        ],
    )
    def test_what_cannot_be_measured_is_refused_before_anything_starts(self, tmp_path, changes, problem):
        document = self.wanted().as_json() | changes
        jobs = JobTable.build(submit_us=[0], run_us=[30 * S], nodes=[1], extra={"cores": [1]})
        with pytest.raises(ScenarioError, match=problem):
            run_live(tmp_path, from_mapping(document), jobs)
