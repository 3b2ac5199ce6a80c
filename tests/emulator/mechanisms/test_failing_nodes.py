"""Nodes that fail under `static_partition` and `balancer`: by hand, like a slow reference, and by the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.events import node_failures
from emulator.events.external_events import ExternalEvents
from emulator.events.node_outages import NodeOutages
from emulator.kernel.job_states import JobState
from emulator.metrics.summary import figures
from emulator.record.run_record import NodePool
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.mechanism import HasFailures, mechanism_of
from emulator.simulation.run import make_cluster
from emulator.validation.laws import check
from emulator.workload.table import JobTable, Kind
from gates import GATE
from oracle.leased_nodes import Lease, Outage, Partition, is_down, lost_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.record.run_record import RunRecord

HOW = ("keep", "replace", "end")


def run(
    mechanism: dict[str, Any],
    nodes: int,
    leases: Sequence[Lease],
    outages: Sequence[Outage],
    *,
    batch: Sequence[Lease] = (),
    lost: bool = False,
) -> RunRecord:
    """Leases and batch jobs on nodes that are down when `outages` say; the laws hold."""
    asked = [*leases, *batch]
    jobs = JobTable.build(
        submit_us=[each.at * US for each in asked],
        run_us=[each.lasts * US for each in asked],
        nodes=[each.nodes for each in asked],
        kind=[Kind.ON_DEMAND] * len(leases) + [Kind.BATCH] * len(batch),
    )
    made = mechanism_of(mechanism)
    assert isinstance(made, HasFailures)
    made.expect_failures()
    told = [
        node_failures.Outage(each.begin * US, each.end * US, each.node)
        for each in sorted(outages, key=lambda each: each.begin)
    ]
    cluster = make_cluster(nodes, SchedulerConfig(), jobs)
    loop = Loop(
        cluster, made, external_events=ExternalEvents(None, NodeOutages(nodes, iter(told), lost=lost))
    )
    loop.run()
    record = loop.record()
    object.__setattr__(record, "scenario", {"failures": {"model": "by hand"}})
    assert check(record, jobs_in=len(asked)) == []
    return record


def rows_of(record: RunRecord, job: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """(from, to, nodes) of each time that a job had nodes, in seconds."""
    runs = record.runs
    return [
        (
            int(runs.start_us[row]) // US,
            int(runs.end_us[row]) // US,
            tuple(sorted(runs.node[runs.first[row] : runs.first[row + 1]].tolist())),
        )
        for row in np.flatnonzero(runs.job == job)
        if runs.start_us[row] < runs.end_us[row]
    ]


def row_of(record: RunRecord, number: int) -> int:
    return int(np.flatnonzero(record.jobs.number == number)[0])


def random_case(rng: np.random.Generator, nodes: int) -> tuple[list[Lease], list[Outage]]:
    """Up to nine leases and eight outages in a few minutes; a node fails again only when it is well."""
    count = int(rng.integers(1, 10))
    leases = [
        Lease(int(rng.integers(0, 200)), int(rng.integers(1, 90)), int(rng.integers(1, 4)))
        for _ in range(count)
    ]
    leases.sort(key=lambda each: each.at)
    outages: list[Outage] = []
    until = dict.fromkeys(range(nodes), 0)
    for begin in sorted(rng.integers(0, 260, int(rng.integers(0, 9))).tolist()):
        node = int(rng.integers(0, nodes))
        if until[node] < begin:
            until[node] = begin + int(rng.integers(1, 120))
            outages.append(Outage(begin, until[node], node))
    return leases, outages


def lost_by_the_record(record: RunRecord, outages: Sequence[Outage]) -> int:
    """Node-seconds that granted leases lack, counted from when they had which nodes and which were down."""
    lost = 0
    for lease in record.leases:
        if not lease.granted:
            continue
        width, run_s = int(record.jobs.nodes[lease.job]), int(record.jobs.run_us[lease.job]) // US
        had = sum(
            not is_down(node, second, outages)
            for begin, end, nodes in rows_of(record, lease.job)
            for second in range(begin, end)
            for node in nodes
        )
        lost += width * run_s - had
    return lost


# The partition.


def compare_partition(rng: np.random.Generator, how: str) -> None:
    batch, own = 3, range(3, 8)
    leases, outages = random_case(rng, batch + len(own))
    expected = Partition(own, how, leases, outages).run()
    record = run({"static_partition": {"ondemand_nodes": len(own), "on_failure": how}}, 8, leases, outages)
    for who, told in enumerate(expected):
        row = row_of(record, who + 1)
        assert (record.state[row] != JobState.REJECTED) == told.granted
        assert rows_of(record, row) == [each for each in told.rows if each[0] < each[1]]
        assert (record.state[row] == JobState.CANCELLED) == told.cut
    granted = [who for who, told in enumerate(expected) if told.granted]
    lost = sum(lost_s(leases[who], expected[who], outages) for who in granted)
    assert round(record.figures["lost_lease_node_h"] * 3600) == lost  # type: ignore[operator]
    assert record.figures["leases_cut"] == sum(told.cut for told in expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", HOW)
def test_a_partition_is_like_the_reference(how: str) -> None:
    rng = np.random.default_rng([61, *how.encode()])
    for _ in range(150):
        compare_partition(rng, how)


def test_a_lease_gets_a_free_node_for_one_that_fails() -> None:
    mechanism = {"static_partition": {"ondemand_nodes": 3, "on_failure": "replace"}}
    record = run(mechanism, 4, [Lease(0, 100, 2)], [Outage(40, 1000, 1)])
    assert rows_of(record, 0) == [(0, 40, (1, 2)), (40, 100, (2, 3))]
    assert record.figures["nodes_replaced"] == 1
    assert record.figures["lost_lease_node_h"] == 0


def test_without_a_free_node_it_goes_on_with_fewer_and_ends_at_its_time() -> None:
    mechanism = {"static_partition": {"ondemand_nodes": 2, "on_failure": "replace"}}
    record = run(mechanism, 3, [Lease(0, 100, 2)], [Outage(40, 1000, 1)])
    assert rows_of(record, 0) == [(0, 40, (1, 2)), (40, 100, (2,))]
    assert (record.figures["nodes_not_replaced"], record.state[0]) == (1, JobState.ENDED)
    assert record.figures["lost_lease_node_h"] == pytest.approx(60 / 3600)


def test_a_lease_whose_user_gives_it_up_is_cancelled() -> None:
    mechanism = {"static_partition": {"ondemand_nodes": 2, "on_failure": "end"}}
    record = run(mechanism, 3, [Lease(0, 100, 2)], [Outage(40, 50, 1)])
    assert rows_of(record, 0) == [(0, 40, (1, 2))]
    assert record.state[0] == JobState.CANCELLED
    assert record.figures["lost_lease_node_h"] == pytest.approx(120 / 3600)
    assert figures(record)["jobs_cancelled"] >= 0


def test_a_node_that_is_kept_works_again_when_it_is_repaired() -> None:
    record = run({"static_partition": {"ondemand_nodes": 2}}, 3, [Lease(0, 100, 2)], [Outage(40, 50, 1)])
    assert rows_of(record, 0) == [(0, 100, (1, 2))]
    assert record.figures["lost_lease_node_h"] == pytest.approx(10 / 3600)


def test_a_node_under_repair_is_nobodys() -> None:
    record = run({"static_partition": {"ondemand_nodes": 2}}, 3, [Lease(10, 20, 2)], [Outage(5, 50, 1)])
    assert record.state[0] == JobState.REJECTED


# The Balancer.


MECHANISMS = {
    "at-once": {"static_reserve": 2, "idle_reserve_s": 20},
    "waiting": {"static_reserve": 1, "wait_s": 30, "idle_reserve_s": 10},
    "refilled": {"static_reserve": 2, "reserve_rule": "refilled", "wait_s": 15, "idle_reserve_s": 5},
}


def balancer(how: str, **settings: Any) -> dict[str, Any]:
    return {"balancer": {"reconcile_period_s": 7, "failed_after_s": 10, "on_failure": how} | settings}


def compare_balancer(rng: np.random.Generator, how: str, settings: dict[str, Any]) -> None:
    """The laws hold, the figures say what the record says, and nodes that are down are nobody's."""
    nodes = 8
    leases, outages = random_case(rng, nodes)
    batch, _ = random_case(rng, nodes)
    lost = bool(rng.random() < 0.4)
    record = run(balancer(how, **settings), nodes, leases, outages, batch=batch, lost=lost)
    assert not record.interrupted
    assert round(record.figures["lost_lease_node_h"] * 3600) == lost_by_the_record(record, outages)  # type: ignore[operator]
    cut = np.isin(record.state, JobState.CANCELLED) & (record.jobs.kind == Kind.ON_DEMAND)
    assert record.figures["leases_cut"] == cut.sum()
    if how != "replace":
        assert record.figures["nodes_replaced"] == 0
    runs = record.runs
    for row in np.flatnonzero(record.jobs.kind[runs.job] == Kind.BATCH):
        for node in runs.node[runs.first[row] : runs.first[row + 1]].tolist():
            assert not any(
                each.node == node and runs.start_us[row] < each.begin * US < runs.end_us[row]
                for each in outages
            ), "a job has gone on on a node that had failed"
    expected_us = sum(down_us(record, each) for each in outages)
    assert figures(record)["node_time_us"][NodePool.DOWN] >= expected_us


def down_us(record: RunRecord, outage: Outage) -> int:
    """How long the node was down and in no lease, up to the end of the record."""
    runs, total = record.runs, 0
    until = min(outage.end, record.horizon_us // US)
    for second in range(outage.begin, until):
        leased = any(
            record.jobs.kind[runs.job[row]] == Kind.ON_DEMAND
            and runs.start_us[row] <= second * US < runs.end_us[row]
            and outage.node in runs.node[runs.first[row] : runs.first[row + 1]]
            for row in range(len(runs.job))
        )
        total += 0 if leased else US
    return total


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("settings", MECHANISMS.values(), ids=MECHANISMS)
def test_the_balancer_keeps_the_laws_on_failing_nodes(how: str, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng([62, *f"{how}{settings}".encode()])
    for _ in range(25):
        compare_balancer(rng, how, settings)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("settings", MECHANISMS.values(), ids=MECHANISMS)
def test_hundreds_of_workloads_keep_the_laws(how: str, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng([63, *f"{how}{settings}".encode()])
    for _ in range(GATE.reference_workloads):
        compare_balancer(rng, how, settings)


def test_a_node_fails_at_its_time_while_jobs_wait_for_the_balancer_to_give_nodes_back() -> None:
    """Nothing runs from 10 s to 60 s: found by the 20th case of seed 62, settings "refilled", "end"."""
    settings = {"static_reserve": 0, "wait_s": 0, "idle_reserve_s": 50}
    record = run(
        balancer("keep", **settings), 2, [Lease(0, 10, 2)], [Outage(20, 30, 0)], batch=[Lease(5, 10, 2)]
    )
    down = [(move.at_us // US, move.nodes) for move in record.moves if move.pool == NodePool.DOWN]
    assert down == [(20, (0,))]


def test_the_service_tells_of_a_failed_node_when_two_readings_found_it_down_for_long_enough() -> None:
    """Readings at 70, 77 and 84 s; the node must read down for 10 s, so the third one tells."""
    record = run(balancer("end", static_reserve=2), 4, [Lease(0, 600, 2)], [Outage(65, 500, 0)])
    rows = rows_of(record, 0)
    (begin, end, nodes) = rows[0]
    assert (begin, end, len(nodes), 0 in nodes) == (0, 84, 2, True)


def test_a_short_failure_is_never_told() -> None:
    record = run(balancer("end", static_reserve=2), 4, [Lease(0, 600, 2)], [Outage(65, 74, 0)])
    assert [row[:2] for row in rows_of(record, 0)] == [(0, 600)]
    assert (record.figures["leases_hit"], record.figures["leases_cut"]) == (1, 0)


def test_another_node_takes_the_place_of_one_that_failed() -> None:
    record = run(balancer("replace", static_reserve=2), 4, [Lease(0, 600, 2)], [Outage(65, 500, 0)])
    before, after = rows_of(record, 0)
    assert (before[:2], after[:2]) == ((0, 84), (84, 600))
    assert 0 in before[2]
    assert 0 not in after[2]
    assert len(after[2]) == 2
    assert record.figures["lost_lease_node_h"] == pytest.approx((84 - 65) / 3600)


def test_a_replacement_waits_as_long_as_the_request_did() -> None:
    """All other nodes run jobs until 100 s: the lease has one node until then."""
    settings = {"static_reserve": 2, "wait_s": 60}
    jobs = [Lease(0, 100, 1), Lease(0, 100, 1)]
    record = run(balancer("replace", **settings), 4, [Lease(0, 600, 2)], [Outage(65, 500, 0)], batch=jobs)
    lease = int(np.flatnonzero(record.jobs.kind == Kind.ON_DEMAND)[0])
    assert [(begin, end, len(nodes)) for begin, end, nodes in rows_of(record, lease)] == [
        (0, 84, 2),
        (84, 100, 1),
        (100, 600, 2),
    ]


def test_a_lease_without_any_node_is_over() -> None:
    jobs = [Lease(0, 1000, 1)]
    record = run(
        balancer("replace", static_reserve=1, wait_s=5),
        2,
        [Lease(0, 600, 1)],
        [Outage(65, 500, 0)],
        batch=jobs,
    )
    lease = int(np.flatnonzero(record.jobs.kind == Kind.ON_DEMAND)[0])
    assert record.state[lease] == JobState.CANCELLED
    assert [row[:2] for row in rows_of(record, lease)] == [(0, 84)]


def test_a_failed_node_comes_home_after_a_reading_has_found_it_well() -> None:
    """Down from 65 to 200 s; batch's own node is used at once, a job of four nodes waits for it."""
    record = run(balancer("keep"), 4, [], [Outage(65, 200, 0)], batch=[Lease(100, 10, 4)])
    assert rows_of(record, 0) == [(200, 210, (0, 1, 2, 3))]


# Scenarios.


def scenario(mechanism: dict[str, Any] | None, *, mtbf_s: float = 700, seed: int = 3, **more: Any) -> Any:
    """A busy day on 24 nodes. `mtbf_s` 0: nothing fails."""
    batch = {"days": 0.3, "jobs": 60, "load": 0.8, "median_run_s": 900, "max_walltime_s": 7200}
    leases = {"days": 0.3, "leases_per_day": 250, "utilisation": 0.4, "mean_nodes": 2}
    leases |= {"mean_duration_s": 1200, "max_duration_s": 2400, "day_begin_s": 0}
    failures = (
        {"failures": {"model": {"exponential": {"mtbf_s": mtbf_s, "repair_s": 3000}}}} if mtbf_s else {}
    )
    generate = [{"daily_batch": batch | {"widest_share": 0.5}}, {"bursty_leases": leases}]
    return from_mapping(
        {
            "name": "failing-day",
            "seed": seed,
            "nodes": 24,
            "workload": {"generate": generate},
            "mechanism": mechanism,
        }
        | failures
        | more
    )


def virtual(wanted: Any) -> RunRecord:
    prepared = prepare(wanted)
    record = run_virtual(wanted, prepared)
    assert check(record, jobs_in=len(prepared.jobs)) == []
    return record


@pytest.mark.parametrize(
    "mechanism",
    [
        {"static_partition": {"ondemand_nodes": 8}},
        {"balancer": {"static_reserve": 2, "wait_s": 300}},
        {"balancer": {"static_reserve": 3}},
        {"balancer": {"algorithm": "hint", "wait_s": 600, "notice_s": 1800}},
        {"balancer": {"predictor": "peak", "wait_s": 60}},
    ],
)
def test_with_a_model_under_which_nothing_fails_the_run_is_the_same(mechanism: dict[str, Any]) -> None:
    """The Balancer reads nodes then, as the service does; without failures it is told everything."""
    failing, plain = virtual(scenario(mechanism, mtbf_s=9e9)), virtual(scenario(mechanism, mtbf_s=0))
    assert failing.moves == plain.moves
    assert failing.leases == plain.leases
    assert (failing.runs.start_us == plain.runs.start_us).all()
    assert (failing.runs.node == plain.runs.node).all()


@pytest.mark.slow
def test_what_a_policy_for_failed_nodes_is_worth() -> None:
    """The figures of the docs: one day, seed 3; node-hours that granted leases lacked."""
    found = {}
    for name, settings in (
        ("balancer", {"static_reserve": 3, "wait_s": 300}),
        ("static_partition", {"ondemand_nodes": 8}),
    ):
        for how in HOW:
            figures_of = virtual(scenario({name: settings | {"on_failure": how}})).figures
            assert figures_of["leases_hit"] > 0  # type: ignore[operator]
            found[name, how] = figures_of["lost_lease_node_h"]
    assert found["balancer", "replace"] < found["balancer", "keep"] < found["balancer", "end"]  # type: ignore[operator]
    # A partition that is full has no other node, and who has given a node up does not get it back.
    assert found["static_partition", "end"] > found["static_partition", "replace"]  # type: ignore[operator]


def test_what_does_not_go_with_failures_is_refused_by_name() -> None:
    for mechanism, more, told in (
        ({"balancer": {"boot_s": 5}}, {}, "leave out boot_s, delete_s and cloud_faults"),
        ({"balancer": {"on_failure": "no such thing"}}, {}, "on_failure must be one of keep, replace, end"),
        ({"static_partition": {"ondemand_nodes": 2, "on_failure": 3}}, {}, "on_failure must be one of"),
        ({"balancer": {"failed_after_s": 0}}, {}, "failed_after_s"),
        ("balancer", {"maintenance": [{"begin_s": 1, "end_s": 2}]}, "maintenance goes with plain schedulers"),
        ("hybrid", {}, "the mechanism hybrid decides over its jobs itself"),
        (
            {"balancer": {"on_failure": "end"}},
            {"failures": None},
            "balancer: on_failure: no node fails in this run",
        ),
        (
            {"static_partition": {"ondemand_nodes": 2, "on_failure": "end"}},
            {"failures": None},
            "static_partition: on_failure: no node fails",
        ),
    ):
        wanted = scenario(mechanism, **more)  # type: ignore[arg-type]
        with pytest.raises(ScenarioError, match=told):
            run_virtual(wanted, prepare(wanted))
