"""Scenarios whose leases are servers of a real Nova: it decides as virtual time does, and nobody is left behind."""

import pytest

from emulator.kernel.job_states import JobState
from emulator.live.fleet import Fleet
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import check
from emulator.workload.table import JobTable, Kind

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.needs("nova"),
    pytest.mark.timeout(570),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
US = 1_000_000


class Never:
    reason = ""

    def __bool__(self):
        return False


def a_scenario(*, nodes, jobs, **changes):
    """`jobs`: (kind, submit_s, nodes, run_s) of each."""
    scenario = from_mapping(
        {
            "name": "nova",
            "nodes": nodes,
            "workload": {"generate": [{"daily_batch": {"days": 1, "jobs": 1}}]},
            "mechanism": {"balancer": {"static_reserve": 1, "wait_s": 200, "idle_reserve_s": 30}},
            "live": {"ondemand": "nova", "speed": 20},
        }
        | changes
    )
    kinds, submits, widths, runs = zip(*jobs, strict=True)
    table = JobTable.build(
        submit_us=[each * US for each in submits],
        run_us=[each * US for each in runs],
        nodes=list(widths),
        kind=[int(each) for each in kinds],
        number=list(range(1, len(jobs) + 1)),
    )
    return scenario, Prepared(table, nodes)


@pytest.fixture
def live(tmp_path, processes):
    """Runs a scenario; nothing of it may be left, neither processes nor the folder of its PostgreSQL."""

    def run(scenario, prepared):
        work = tmp_path / "work"
        work.mkdir()
        fleet = Fleet(scenario, prepared, work)
        record = fleet.run(Never(), quiet=True)
        assert processes() == []
        assert not fleet._ondemand._postgres.folder.exists()
        assert check(record) == []
        return record

    return run


BATCH, LEASE = Kind.BATCH, Kind.ON_DEMAND
MORNING = (  # no decision hangs on how late a busy machine is
    (BATCH, 0, 3, 520),
    (BATCH, 0, 2, 150),
    (LEASE, 20, 1, 100),  # at once
    (LEASE, 40, 4, 100),  # waits for the second job
    (LEASE, 60, 6, 100),  # not within W: the first job has three of eight
    (LEASE, 450, 2, 40),
)


def decisions(record):
    return {lease.job: lease.granted for lease in record.leases}


def test_a_morning_is_decided_as_in_virtual_time(live, tmp_path):
    scenario, prepared = a_scenario(nodes=8, jobs=MORNING)
    virtual = run_virtual(scenario, prepared)
    record = live(scenario, prepared)
    print(record.pace)
    assert decisions(virtual) == {2: True, 3: True, 4: False, 5: True}
    assert decisions(record) == decisions(virtual)
    assert record.state.tolist() == virtual.state.tolist()
    (refused,) = (lease for lease in record.leases if not lease.granted)
    assert "No valid host was found" in refused.reason
    assert "not granted" in (tmp_path / "work" / "logs" / "nova.log").read_text()  # why, for people
    # A lease begins when its last server runs: that much later than the Balancer granted it, and all before it was.
    late_us = record.pace["lease_start_late_most_us"] + 2 * record.pace["lag_us"] * scenario.live.speed
    assert record.pace["lease_start_late_most_us"] > 0
    for row in (2, 3, 5):
        assert 0 <= record.start_us[row] - virtual.start_us[row] <= late_us


@pytest.mark.nightly
def test_64_hosts_of_which_a_lease_has_some_and_then_a_job_nearly_all(live):
    jobs = ((BATCH, 0, 48, 100), (LEASE, 20, 20, 60), (BATCH, 100, 63, 30))  # one is in reserve
    scenario, prepared = a_scenario(nodes=64, jobs=jobs)
    record = live(scenario, prepared)
    print(record.pace)
    assert decisions(record) == {1: True}
    assert record.state.tolist() == [JobState.ENDED] * 3
