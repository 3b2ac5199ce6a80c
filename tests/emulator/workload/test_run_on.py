"""`overrun: run_on`: who cannot let jobs run past their estimate refuses, and ours does, live as in virtual time."""

import pytest

from emulator.kernel.job_states import RunOutcome
from emulator.live.own_cluster import OwnClusterError, Replay
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.validation.laws import check
from emulator.workload.table import JobTable
from fleet_kit.both_clocks import run_both

MINUTE = 60_000_000


@pytest.fixture
def trace(swf_file, swf_line):
    return swf_file("; MaxNodes: 4", swf_line(1), swf_line(2))


def scenario(trace=None, **keys):
    workload = {"generate": [{"daily_batch": {"days": 0.1}}]} if trace is None else {"trace": str(trace)}
    return from_mapping({"name": "over", "nodes": 4, "workload": workload | {"overrun": "run_on"}} | keys)


def test_the_slurm_scheduler_ends_jobs_at_their_limit_and_says_so(trace):
    wanted = scenario(trace, scheduler="slurm")
    with pytest.raises(ScenarioError, match=r"workload\.overrun: slurm ends jobs at their limit"):
        run_virtual(wanted, prepare(wanted))


def test_a_real_slurm_is_not_asked_to_let_jobs_run_on(trace):
    wanted = scenario(trace, live={"batch": "slurm"})
    with pytest.raises(ScenarioError, match=r"workload\.overrun: slurm ends jobs at their walltime"):
        check_live(wanted, prepare(wanted))


def test_nor_is_a_cluster_of_ones_own(trace, tmp_path):
    wanted = scenario(trace)
    with pytest.raises(OwnClusterError, match=r"workload\.overrun: a real cluster ends jobs at their limit"):
        Replay(tmp_path / "replay", "sbatch", 1).prepare(wanted, prepare(wanted))
    assert not (tmp_path / "replay").exists()


@pytest.mark.slow
@pytest.mark.live
def test_live_jobs_run_past_their_walltime_as_in_virtual_time(tmp_path):
    jobs = JobTable.build(
        number=[1, 2, 3, 4, 5],
        submit_us=[0, MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE],
        run_us=[30 * MINUTE, 5 * MINUTE, 9 * MINUTE, 20 * MINUTE, MINUTE],
        estimate_us=[10 * MINUTE, 6 * MINUTE, 9 * MINUTE, 8 * MINUTE, 2 * MINUTE],
        nodes=[3, 2, 4, 1, 1],
    )
    virtual, live = run_both(tmp_path, scenario(live={"speed": 600}), jobs)
    assert (live.start_us.tolist(), live.end_us.tolist()) == (
        virtual.start_us.tolist(),
        virtual.end_us.tolist(),
    )
    assert (check(virtual), check(live)) == ([], [])
    assert set(live.runs.outcome.tolist()) == {RunOutcome.FINISHED}
    assert (live.end_us - live.start_us).tolist() == jobs.run_us.tolist()
