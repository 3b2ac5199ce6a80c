"""Mechanisms on the real Slurm: it preempts, shrinks and expands jobs, and their outputs prove their work."""

import os
import signal

import numpy as np
import pytest

from balancer.clock import US as S
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.job.control import HEARD
from emulator.validation.laws import check
from emulator.workload.hybrid_kinds import JobClass
from emulator.workload.table import JobTable, Kind
from fleet_kit.both_clocks import of_a_table, proofs_of, run_live
from slurm_releases import batch, each_root

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
REALTIME = {"realtime": {"scheme": "pre_ckpt", "jobs": [2], "data_gb": 60, "node_gb_s": 1}}
PREEMPTED = JobTable.build(submit_us=[0, 1200 * S], run_us=[2400 * S, 300 * S], nodes=[3, 2])


def scenario(mechanism, speed, root, **slurm):
    return of_a_table(mechanism, nodes=4, batch=batch(root, **slurm), speed=speed, jobs="emulator-job")


def on_slurm(tmp_path, mechanism, jobs, root, *, speed=300, meddle=None, **slurm):
    record = run_live(tmp_path, scenario(mechanism, speed, root, **slurm), jobs, meddle)
    assert check(record) == []
    assert record.interrupted == ""
    assert set(record.state) == {JobState.ENDED}
    proofs = proofs_of(tmp_path)
    assert {number: proof.finished for number, proof in proofs.items()} == dict.fromkeys(
        jobs.number.tolist(), True
    )
    return record, proofs


def outcomes(record, number):
    runs = record.runs
    rows = np.flatnonzero(record.jobs.number[runs.job] == number)
    return [(RunOutcome(runs.outcome[row]).name, int(runs.first[row + 1] - runs.first[row])) for row in rows]


@pytest.fixture(params=each_root("libfaketime", by_night=True))
def root(request):
    return request.param


@pytest.fixture
def death():
    """Kills a process once, as soon as the first job does its work, and slurmctld not before it has saved that.

    Slurm forgets what it has not saved: after such a death the job would wait again, held for ever.
    """

    class Death:
        of = ""
        has_come = False

        def __call__(self, fleet):
            heard = fleet.work / "slurm" / "orders" / HEARD
            if self.has_come or not heard.exists() or not heard.read_text():
                return
            saved = fleet.work / "slurm" / "state" / "job_state"  # anew every 300 s of its clock
            if self.of != "slurmctld" or saved.stat().st_mtime_ns > heard.stat().st_mtime_ns:
                self.has_come = True
                os.kill(fleet.processes[self.of].pid, signal.SIGKILL)

    return Death()


@pytest.mark.parametrize(("scheme", "loses"), [("pre_ckpt", False), ("pre_rest", True)])
def test_a_real_time_job_has_its_nodes_and_a_preempted_one_does_all_its_work(tmp_path, root, scheme, loses):
    mechanism = {"realtime": {"scheme": scheme, "jobs": [2], "data_gb": 60, "node_gb_s": 1}}

    record, proofs = on_slurm(tmp_path, mechanism, PREEMPTED, root)

    assert outcomes(record, 1) == [("REQUEUED", 3), ("FINISHED", 3)]
    assert outcomes(record, 2) == [("FINISHED", 2)]
    assert proofs[1].runs == 2
    assert (proofs[1].lost > 0) == loses
    assert proofs[2].lost == 0
    waited = np.diff(record.runs.start_us[record.runs.job == 0])
    assert waited[0] < 3000 * S  # and not the two minutes more that a requeue costs


@pytest.mark.parametrize(
    "accounting", ["jobcomp", pytest.param("slurmdbd", marks=pytest.mark.needs("slurmdbd"))]
)
def test_a_malleable_job_shrinks_for_an_on_demand_job_and_expands_again_and_a_rigid_one_is_preempted(
    tmp_path, root, accounting
):
    jobs = JobTable.build(
        submit_us=[0, 0, 1200 * S, 4800 * S],  # long after the first is over: a busy machine expands late
        run_us=[6000 * S, 6000 * S, 600 * S, 400 * S],
        nodes=[3, 1, 2, 3],
        kind=[Kind.BATCH, Kind.BATCH, Kind.ON_DEMAND, Kind.ON_DEMAND],
    ).with_extra(
        job_class=np.array([JobClass.MALLEABLE, *[JobClass.RIGID] * 3]),
        min_nodes=np.array([1, 1, 2, 3]),
        max_nodes=np.array([3, 1, 2, 3]),
    )

    mechanism = {"hybrid": {"strategy": "n+spaa", "warning_s": 60}}
    record, proofs = on_slurm(tmp_path, mechanism, jobs, root, accounting=accounting)

    assert outcomes(record, 1) == [("RESIZED", 3), ("RESIZED", 1), ("REQUEUED", 3), ("FINISHED", 3)]
    assert sorted(lease.granted for lease in record.leases) == [True, True]
    assert proofs[1].runs == 2


def test_a_slurmctld_that_dies_is_started_again_and_does_what_the_mechanism_decides_from_then_on(
    tmp_path, root, death
):
    death.of = "slurmctld"
    # Long enough that it is back on a busy machine before anything is decided.
    jobs = JobTable.build(submit_us=[0, 3600 * S], run_us=[7200 * S, 300 * S], nodes=[3, 2])

    record, proofs = on_slurm(tmp_path, REALTIME, jobs, root, meddle=death)

    assert [mark.text for mark in record.marks if "slurmctld" in mark.text] == [
        "slurmctld ended with status -9 and was started again"
    ]
    assert outcomes(record, 1) == [("REQUEUED", 3), ("FINISHED", 3)]
    assert outcomes(record, 2) == [("FINISHED", 2)]
    assert (proofs[1].runs, proofs[1].lost) == (2, 0)


@pytest.mark.parametrize("root", each_root("libfaketime"))
def test_a_slurmd_that_dies_ends_the_run_which_says_so_and_has_what_ran_until_then(tmp_path, root, death):
    death.of = "slurmd-n004"
    jobs = JobTable.build(submit_us=[0, 36_000 * S], run_us=[36_000 * S, 300 * S], nodes=[3, 2])

    record = run_live(tmp_path, scenario(REALTIME, 300, root), jobs, death)

    assert check(record) == []
    assert record.interrupted == (
        "slurmd-n004 ended with status -9, and the mechanism has planned with its node"
    )
    assert outcomes(record, 1) == [("RUNNING", 3)]
    assert [JobState(state).name for state in record.state] == ["RUNNING", "FUTURE"]
