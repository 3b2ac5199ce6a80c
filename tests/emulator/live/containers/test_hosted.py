"""Mechanisms that act on running jobs, in containers: a node each, jobs real processes, checkpoints on a volume."""

from dataclasses import fields

import numpy as np
import pytest
import yaml

from balancer.clock import US
from emulator.harness.laws import check
from emulator.live.job.proof import prove
from emulator.report import files
from emulator.runner import prepare, run_virtual
from emulator.scenario import load

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]


def write_two_jobs(folder, *, name, **live):
    """A job of three nodes (row 0) and one of four (row 1), and what is done to them."""
    (folder / "two.swf").write_text(
        "; MaxNodes: 8\n; MaxProcs: 8\n"
        "1 0 -1 300 3 -1 -1 3 3000 -1 1 1 1 -1 1 -1 -1 -1\n"
        "2 0 -1 400 4 -1 -1 4 4000 -1 1 1 1 -1 1 -1 -1 -1\n"
    )
    steps = [
        [100, "nodes", 1, 3, 4],
        [100, "keep", 0, 1, 2],
        [100, "save_and_stop", 0, 20],
        [340, "nodes", 1, 3, 4, 5, 6],
    ]
    document = {
        "name": name,
        "nodes": 8,
        "workload": {"trace": "two.swf", "transforms": [{"flexible_jobs": {"malleable": 1}}]},
        "mechanism": {"scripted": {"steps": steps}},
        "live": {
            "speed": 60,
            "jobs": "emulator-job",
            "faults": [{"at_s": 150, "do": "kill", "target": "n001"}],
        }
        | live,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_jobs_are_preempted_with_a_checkpoint_and_resized_and_their_output_proves_their_work(
    toy_images, compose
):
    fleet = compose("two", write=write_two_jobs, images=toy_images)
    fleet.fleet("follow")
    status, folder = fleet.result()
    assert status == 0, fleet("logs", "--tail", "50", check=False)
    record = files.load(folder)
    assert [(mark.at_us / US, mark.text) for mark in record.marks] == [(150, "fault: kill n001")]
    scenario = load(fleet.scenario)
    assert_same_runs(run_virtual(scenario, prepare(scenario)), record)
    assert check(record) == []

    # The first went on where no node of its first run was, one of which is dead; the second had 4, 2 and 4 nodes, and
    # its process moved to another container when it lost the node that it ran on.
    assert runs(record) == [
        (0, 0, 120, [0, 1, 2]), (0, 120, 320, [5, 6, 7]),
        (1, 0, 100, [3, 4, 5, 6]), (1, 100, 340, [3, 4]), (1, 340, 520, [3, 4, 5, 6]),
    ]  # fmt: skip
    assert {path.name: proved(path) for path in (folder / "logs" / "jobs").glob("*.o*")} == {
        "j1.o0": (900 * US, 0, 2, True, (120 * US, 320 * US)),
        "j2.o1": (1600 * US, 0, 2, True, (0, 520 * US)),
    }


def assert_same_runs(virtual, live):
    for name in ("state", "start_us", "end_us"):
        np.testing.assert_array_equal(getattr(virtual, name), getattr(live, name), name)
    for column in fields(virtual.runs):
        both = (getattr(record.runs, column.name) for record in (virtual, live))
        np.testing.assert_array_equal(*both, column.name)


def runs(record):
    """(row, start_s, end_s, nodes) of each run, by row."""
    table = record.runs
    nodes = [
        sorted(table.node[one:other].tolist())
        for one, other in zip(table.first, table.first[1:], strict=False)
    ]
    times = ((times // US).tolist() for times in (table.start_us, table.end_us))
    return sorted(zip(table.job.tolist(), *times, nodes, strict=True))


def proved(path):
    with path.open() as output:
        proof = prove(output)
    return proof.done, proof.lost, proof.runs, proof.finished, proof.times_us
