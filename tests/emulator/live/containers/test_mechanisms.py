"""Mechanisms that act on running jobs, in containers: a node each, jobs real processes, checkpoints on a volume."""

import subprocess

import numpy as np
import pytest
import yaml

from balancer.clock import US
from emulator.kernel.job_states import RunOutcome
from emulator.report import files
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load
from fleet_kit.both_clocks import assert_proofs, assert_same, proofs_in

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.needs("fleet-images"), pytest.mark.timeout(900)]


def write(folder, *, name, workload, mechanism, seed=1, **live):
    document = {
        "name": name,
        "seed": seed,
        "nodes": 8,
        "workload": workload,
        "mechanism": mechanism,
        "live": {"jobs": "emulator-job"} | live,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def run_to_its_end(fleet):
    """The record of a run that is that of virtual time, and what its jobs' output proves."""
    fleet.fleet("follow")
    status, folder = fleet.result()
    assert status == 0, fleet("logs", "--tail", "50", check=False)
    record = files.load(folder)
    scenario = load(fleet.scenario)
    assert_same(run_virtual(scenario, prepare(scenario)), record)
    proofs = proofs_in(folder / "logs" / "jobs")
    assert_proofs(proofs, record)
    return record, proofs


def write_two_jobs(folder, **live):
    """A job of three nodes (row 0) and one of four (row 1), and what is done to them."""
    jobs = (
        "1 0 -1 300 3 -1 -1 3 3000 -1 1 1 1 -1 1 -1 -1 -1",
        "2 0 -1 400 4 -1 -1 4 4000 -1 1 1 1 -1 1 -1 -1 -1",
    )
    (folder / "two.swf").write_text("; MaxNodes: 8\n; MaxProcs: 8\n" + "".join(f"{job}\n" for job in jobs))
    steps = [
        [100, "nodes", 1, 3, 4],
        [100, "keep", 0, 1, 2],
        [100, "save_and_stop", 0, 20],
        [340, "nodes", 1, 3, 4, 5, 6],
    ]
    return write(
        folder,
        workload={"trace": "two.swf", "transforms": [{"flexible_jobs": {"malleable": 1}}]},
        mechanism={"scripted": {"steps": steps}},
        faults=[{"at_s": 150, "do": "kill", "target": "n001"}],
        speed=300,
        **live,
    )


def test_jobs_are_preempted_with_a_checkpoint_and_resized_and_their_output_proves_their_work(
    toy_images, compose
):
    record, proofs = run_to_its_end(compose("two", write=write_two_jobs, images=toy_images))
    assert [(mark.at_us / US, mark.text) for mark in record.marks] == [(150, "fault: kill n001")]
    # The first went on where no node of its first run was, one of which is dead; the second had 4, 2 and 4 nodes, and
    # its process moved to another container when it lost the node that it ran on.
    assert runs(record) == [
        (0, 0, 120, [0, 1, 2]), (0, 120, 320, [5, 6, 7]),
        (1, 0, 100, [3, 4, 5, 6]), (1, 100, 340, [3, 4]), (1, 340, 520, [3, 4, 5, 6]),
    ]  # fmt: skip
    assert {
        number: (proof.done, proof.lost, proof.runs, proof.times_us) for number, proof in proofs.items()
    } == {
        1: (900 * US, 0, 2, (120 * US, 320 * US)),
        2: (1600 * US, 0, 2, (0, 520 * US)),
    }


def runs(record):
    """(row, start_s, end_s, nodes) of each run, by row."""
    table = record.runs
    nodes = [
        sorted(table.node[one:other].tolist())
        for one, other in zip(table.first, table.first[1:], strict=False)
    ]
    times = ((times // US).tolist() for times in (table.start_us, table.end_us))
    return sorted(zip(table.job.tolist(), *times, nodes, strict=True))


def write_hybrid(strategy):
    """A busy hour and a half with on-demand jobs, rigid ones with checkpoints of their own, and malleable ones."""
    day = {
        "days": 0.04,
        "load": 1.0,
        "jobs": 18,
        "median_run_s": 500,
        "max_walltime_s": 3600,
        "widest_share": 0.6,
    }
    kinds = {"on_demand_share": 0.25, "rigid_share": 0.3, "checkpoint_s": 20, "mtbf_s": 3000}

    def write_it(folder, **live):
        return write(
            folder,
            workload={"generate": [{"daily_batch": day}], "transforms": [{"hybrid_kinds": kinds}]},
            mechanism={"hybrid": {"strategy": strategy}},
            seed=17,
            **live,
        )

    return write_it


def lost(record):
    """Work that each preempted run lost."""
    return record.runs.lost_node_us[record.runs.outcome == RunOutcome.PREEMPTED]


def limits_of(fleet, service):
    """(processors, bytes) that the control group of a service's first container allows it."""
    container = fleet("ps", "-q", service).split()[0]
    form = "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}}"
    shown = subprocess.run(
        ["docker", "inspect", "--format", form, container],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    processors, memory = map(int, shown.stdout.split())
    return processors / 1e9, memory


def test_hybrid_jobs_are_shrunk_and_expanded_and_preempted_for_announced_ones_under_limits(compose):
    small = {"version": "3.8", "services": {"node": {"cpus": 0.3, "mem_limit": "256m"}}}
    fleet = compose("hybrid", write=write_hybrid("cua+spaa"), changes=small)
    assert limits_of(fleet, "node") == (0.3, 256 << 20)
    record, _ = run_to_its_end(fleet)
    assert lost(record).size
    wide, table = np.diff(record.runs.first), record.runs
    changes = []
    for row in np.flatnonzero(table.outcome == RunOutcome.RESIZED):
        (following, *_) = np.flatnonzero(
            (table.job == table.job[row]) & (table.start_us >= table.end_us[row])
        )
        changes.append(int(wide[following] - wide[row]))
    assert min(changes) < 0 < max(changes)


@pytest.mark.nightly
def test_hybrid_jobs_are_preempted_for_those_that_nobody_announced(compose):
    record, _ = run_to_its_end(compose("hybrid", write=write_hybrid("n+paa")))
    assert lost(record).min() == 0 < lost(record).max()


def write_failing(plug_in):
    """Batch jobs, on-demand jobs, and a plug-in that fails when the first of those comes."""

    def write_it(folder, **live):
        leases = {
            "bursty_leases": {"days": 0.2, "utilisation": 0.1, "day_begin_s": 0, "mean_duration_s": 900}
        }
        return write(
            folder,
            workload={"generate": [{"daily_batch": {"days": 0.1, "jobs": 10, "load": 0.5}}, leases]},
            mechanism=plug_in,
            jobs="sleep",
            **live,
        )

    return write_it


def broken_off(fleet):
    """What ended the run, and the record."""
    status, folder = fleet.result()
    assert status == 1, fleet("logs", "--tail", "50", check=False)
    record = files.load(folder)
    return record.interrupted, record


@pytest.mark.nightly
def test_a_mechanism_that_fails_ends_the_run_as_in_virtual_time(toy_images, compose):
    fleet = compose("failing", write=write_failing({"failing": {"event": "on_arrival"}}), images=toy_images)
    reason, record = broken_off(fleet)
    scenario = load(fleet.scenario)
    virtual = run_virtual(scenario, prepare(scenario))
    assert reason == virtual.interrupted
    assert reason.startswith("mechanism failing failed in on_arrival of job ")
    assert record.horizon_us == virtual.horizon_us


@pytest.mark.nightly
def test_a_mechanism_that_fails_as_the_run_begins_ends_it(toy_images, compose):
    fleet = compose("begins", write=write_failing({"failing": {"event": "on_begin"}}), images=toy_images)
    reason, _ = broken_off(fleet)
    assert reason == "mechanism failing failed in on_begin at 0.000000 s: ValueError: that was too much"


@pytest.mark.nightly
def test_the_balancer_outlives_an_algorithm_that_fails_and_the_run_does_not(toy_images, compose):
    algorithm = {"balancer": {"algorithm": "failing_plan", "wait_s": 100}}
    fleet = compose("planless", write=write_failing(algorithm), images=toy_images)
    reason, _ = broken_off(fleet)
    assert reason.startswith("algorithm failing_plan failed in ")
    assert reason.endswith(" s: raised ValueError: that was too much")
