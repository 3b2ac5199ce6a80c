"""What the cloud makes of grants: servers that take time to start and to go, and that do not start."""

import pytest

from emulator.kernel.job_states import JobState
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.mechanisms.balancer.cloud import seen_at
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import check
from emulator.workload.table import JobTable, Kind

US = 1_000_000
BATCH, LEASE = Kind.BATCH, Kind.ON_DEMAND


def run(*jobs, nodes=4, **cloud):
    """(decisions, begin of each job in s, record) of jobs as (kind, submit_s, nodes, run_s)."""
    scenario = from_mapping(
        {
            "nodes": nodes,
            "workload": {"generate": [{"daily_batch": {"days": 1, "jobs": 1}}]},
            "mechanism": {"balancer": {"idle_reserve_s": 0} | cloud},
        }
    )
    kinds, submits, widths, runs = zip(*jobs, strict=True)
    table = JobTable.build(
        submit_us=[each * US for each in submits],
        run_us=[each * US for each in runs],
        nodes=list(widths),
        kind=[int(each) for each in kinds],
    )
    record = run_virtual(scenario, Prepared(table, nodes))
    assert check(record) == []
    return record


def decisions(record):
    return [(lease.job, lease.granted, lease.decided_us / US) for lease in record.leases]


def starts(record):
    return [each / US for each in record.start_us.tolist()]


def test_a_lease_begins_when_its_servers_run_and_lasts_its_run_time_from_then_on():
    record = run((LEASE, 10, 2, 100), boot_s=30)
    assert decisions(record) == [(0, True, 40)]
    assert (starts(record), record.end_us.tolist()) == ([40], [140 * US])


def test_nodes_of_a_lease_come_home_when_its_servers_are_gone():
    record = run((LEASE, 0, 4, 100), (BATCH, 10, 4, 50), delete_s=25)
    assert starts(record) == [0, 125]


def test_a_lease_of_which_a_server_does_not_start_is_given_up_and_batch_has_its_nodes():
    fault = {"at_s": 0, "for_s": 300, "do": "fail_boots", "nodes": "n001"}
    record = run((LEASE, 0, 4, 100), (BATCH, 10, 4, 50), (LEASE, 400, 4, 10), cloud_faults=[fault], boot_s=60)
    # It is seen at the user's second look; the nodes of the others come home then.
    assert decisions(record) == [(0, False, 100), (2, True, 460)]
    assert record.state.tolist() == [JobState.REJECTED, JobState.ENDED, JobState.ENDED]
    assert starts(record)[1] == 100
    assert "Exhausted all hosts" in record.leases[0].reason


def test_hosts_that_are_down_are_not_asked_for():
    fault = {"at_s": 0, "for_s": 300, "do": "fail_hosts", "nodes": "n[001-003]"}
    record = run((LEASE, 0, 1, 100), (LEASE, 20, 2, 10), (LEASE, 300, 2, 10), cloud_faults=[fault])
    assert decisions(record) == [(0, True, 0), (1, False, 20), (2, True, 300)]
    assert record.node_names[record.runs.node[0]] == "n004"


@pytest.mark.parametrize(
    ("failed", "seen"),
    [(0, 1), (1, 50), (50, 50), (51, 100), (100, 100), (101, 120), (120, 120), (121, 170), (170, 170)],
)
def test_a_user_looks_every_pause_and_at_the_end_of_the_wait(failed, seen):
    assert seen_at(failed, 0, 50, 120) == seen


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"boot_s": -1}, "balancer: boot_s must be at least 0"),
        ({"cloud_faults": [{"at_s": 1, "do": "burn", "nodes": "n001"}]}, "balancer: cloud_faults.0.do: "),
    ],
    ids=str,
)
def test_wrong_values_are_named(given, said):
    with pytest.raises(ValueError, match=said):
        BalancerMechanism(**given)


def test_a_step_names_nodes_of_the_cluster():
    with pytest.raises(ValueError, match="cloud_faults: there is no node n9"):
        run((LEASE, 0, 1, 1), cloud_faults=[{"at_s": 0, "do": "fail_boots", "nodes": "n9"}])
