"""Several jobs on a node, as users see them."""

import pytest

from balancer.clock import US
from emulator.live.torque.nodes import slots_text
from emulator.workload.store import save
from emulator.workload.table import JobTable


@pytest.mark.parametrize(
    ("slots", "text"), [((0,), "0"), ((0, 1), "0-1"), ((0, 1, 3), "0-1,3"), ((2, 4), "2,4")]
)
def test_slots_are_written_as_ranges(slots, text):
    assert slots_text(slots) == text


@pytest.fixture
def shared(make_world, tmp_path):
    """Two nodes of two cores that two jobs may share: job 1 has a whole node, 2 and 3 have one core of the other."""
    jobs = JobTable.build(
        submit_us=[0, 0, 0, 0], run_us=[100 * US] * 4, nodes=[1, 1, 1, 2], extra={"cores": [2, 1, 1, 2]}
    )
    save(jobs, tmp_path / "jobs.npz")
    world = make_world(
        nodes=("n1", "n2"), np=4, mechanism={"oversubscribe": {"cores": 2, "multiplicity": 2}},
        workload=tmp_path / "jobs.npz", queues=("batch", "ondemand"),
    )  # fmt: skip
    world.agents_up()
    for number, nodes in ((1, 1), (2, 1), (3, 1), (4, 2)):
        world.qsub(f"-v WORKLOAD_JOB={number} -l nodes={nodes}")
    return world


def line_of(world, command, name):
    return [
        line.strip() for line in world.do(command).stdout.splitlines() if line.strip().startswith(f"{name} =")
    ]


def test_each_job_has_its_slots_and_a_node_is_full_when_all_are_taken(shared):
    assert line_of(shared, "pbsnodes", "jobs") == [
        "jobs = 0,2/0.server, 1,3/3.server",
        "jobs = 0/1.server, 1,3/3.server, 2/2.server",
    ]
    assert line_of(shared, "pbsnodes", "state") == ["state = job-exclusive"] * 2
    assert line_of(shared, "qstat -f 3", "exec_host") == ["exec_host = n2/1,3+n1/1,3"]
    shared.at(199)
    assert set(shared.states().values()) == {"R"}
    shared.at(200)
    # Every core had two jobs all the time, so each took twice its 100 s.
    assert line_of(shared, "pbsnodes", "jobs") == []
    assert set(shared.states().values()) == {"C"}
