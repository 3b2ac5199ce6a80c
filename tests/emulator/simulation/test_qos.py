"""QOS under the plain schedulers: equal to the slow reference job by job, and each rule by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.config.scenario_parts import QosPart
from emulator.events.job_limits import Limit, limits_of
from emulator.runs import job_qos as qos
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping, load
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.qos import Qos, read_qos
from emulator.validation.laws import assert_lawful, check
from emulator.workload.relations import ready_to_run
from emulator.workload.table import JobTable, Kind
from gates import GATE
from oracle import job_rules as oracle
from oracle.job_rules import RuledMachine
from oracle.reference import BACKFILLS, Options
from oracle.ruled_runs import random_rules, ruled_table, run_ruled, told
from oracle.workloads import random_workload

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.runs.scenario import Scenario

_ORDERS = ("fcfs", "sjf", "priority", "f1")
_BY = ("user", "group", "queue", "qos")
_LIMITS = ("jobs", "nodes", "node_us", "submitted")


def random_limits(rng: np.random.Generator, nodes: int, most_us: int) -> tuple[oracle.Limit, ...]:
    """One to four limits of all jobs of a QOS, or of each of its users or groups."""
    found = []
    for _ in range(int(rng.integers(1, 5))):
        said: dict[str, Any] = {
            "jobs": int(rng.integers(0, 4)),
            "nodes": int(rng.integers(1, nodes + 1)),
            "node_us": int(rng.integers(1, most_us + 1)),
            "submitted": int(rng.integers(0, 6)),
        }
        keeps = {name for name in _LIMITS if rng.random() < 0.4} or {"jobs"}
        found.append(
            oracle.Limit(
                by=int(rng.choice((0, 1, 3))),
                qos=int(rng.integers(3)),
                **{name: value for name, value in said.items() if name in keeps},
            )
        )
    return tuple(found)


def compare(rng: np.random.Generator, order: str, backfill: str) -> None:
    jobs, nodes = random_workload(rng, jobs=25)
    rules = random_rules(rng, jobs) if rng.random() < 0.5 else {}
    limits = random_limits(rng, nodes, 2 * max(job.nodes * job.estimate_us for job in jobs))
    thinks = any(each.kind == "think" for rule in rules.values() for each in rule.after)
    if thinks:
        limits = tuple(each._replace(submitted=None) for each in limits)
    whose = {job.number: (*rng.integers(-1, 3, 3).tolist(), int(rng.integers(3))) for job in jobs}
    priorities = rng.integers(0, 3, 3).tolist()
    table = ruled_table(jobs, rules) if rules else ready_to_run(ruled_table(jobs, {}))
    columns = np.array([whose[number] for number in table.number.tolist()], np.int64).T
    table = replace(table, **dict(zip(("user", "group", "queue"), columns.astype(np.int32), strict=False)))
    earliest = dict(zip(table.number.tolist(), table.submit_us.tolist(), strict=True))
    table = qos.with_qos(table, columns[3], [Qos(str(place), each) for place, each in enumerate(priorities)])
    ranks = sorted(set(priorities), reverse=True)
    tiers = tuple(ranks.index(each) for each in priorities)
    moved = [job._replace(submit_us=earliest[job.number], queue=whose[job.number][2]) for job in jobs]
    queues = {0: 5, 2: -3} if order == "priority" else {}
    scheduler = SchedulerConfig(order=order, backfill=backfill, priorities=queues)  # type: ignore[arg-type]
    ours = [
        Limit(_BY[each.by], each.jobs, each.nodes, None, each.node_us, each.submitted, each.qos)
        for each in limits
    ]
    record = run_ruled(table, nodes, scheduler, ours)
    options = Options(priorities=queues)
    expected = RuledMachine(moved, nodes, order, backfill, options, rules, limits, whose, tiers).run()
    found = told(record)
    wrong = {n: (found[n], expected[n], rules.get(n)) for n in found if found[n] != expected[n]}
    assert not wrong, (
        f"{order}+{backfill} on {nodes} nodes, {limits}, {tiers}: kernel, reference, rule: {wrong}"
    )
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_with_qos_start_and_end_when_the_reference_says(order: str, backfill: str) -> None:
    rng = np.random.default_rng([27, *f"{order}+{backfill}".encode()])
    for _ in range(25):
        compare(rng, order, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_with_qos_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([28, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        compare(rng, order, backfill)


# By hand: four nodes, jobs of ten seconds, all submitted at 0 unless it says otherwise.


def scenario(tmp_path: Path, rows: list[tuple[int, ...]], **keys: Any) -> Scenario:
    """A log of jobs: submit, run (s), nodes, user, group, queue; what they ask for is what they take."""
    log = tmp_path / "log.swf"
    lines = ["; MaxNodes: 4"]
    for number, (submit_s, run_s, nodes, user, group, queue) in enumerate(rows, 1):
        fields = [number, submit_s, -1, run_s, nodes, -1, -1, nodes, run_s, -1, 1, user, group, -1, queue]
        lines.append(" ".join(map(str, [*fields, -1, -1, -1])))
    log.write_text("\n".join(lines) + "\n")
    return from_mapping({"nodes": 4, "workload": {"trace": str(log)}, **keys})


def starts_s(given: Scenario) -> dict[int, float | None]:
    """When each job started; None: it never did."""
    prepared = prepare(given)
    record = run_virtual(given, prepared)
    assert_lawful(record)
    return {
        int(number): None if start_us < 0 else start_us / US
        for number, start_us in sorted(zip(record.jobs.number, record.start_us.tolist(), strict=True))
    }


def test_who_has_a_qos_of_higher_priority_comes_first_and_among_equals_the_order_counts(
    tmp_path: Path,
) -> None:
    rows = [(0, 10, 4, 1, 1, 1), (1, 10, 4, 2, 1, 1), (2, 10, 4, 3, 1, 1), (3, 8, 4, 3, 1, 1)]
    said = {"table": {"urgent": {"Priority": 100}}, "who": {"urgent": {"users": [3]}}}
    assert starts_s(scenario(tmp_path, rows, qos=said)) == {1: 0, 2: 28, 3: 10, 4: 20}
    shortest = scenario(tmp_path, rows, qos=said, scheduler="sjf+easy")
    assert starts_s(shortest) == {1: 0, 2: 28, 3: 18, 4: 10}
    assert starts_s(scenario(tmp_path, rows, qos=said, scheduler="priority+easy")) == {
        1: 0,
        2: 28,
        3: 10,
        4: 20,
    }


def test_in_multifactor_a_qos_is_a_factor_of_the_priority(tmp_path: Path) -> None:
    rows = [(0, 10, 4, 1, 1, 1), (1, 10, 4, 2, 1, 1), (2, 10, 4, 3, 1, 1)]
    said = {"table": {"a": {"Priority": 50}, "b": {"Priority": 100}}, "who": {"a": {"users": [3]}}}
    weights = {"age_weight": 0, "size_weight": 0, "fair_share_weight": 0, "queue_weight": 0}
    for weight, first in ((1000, 3), (0, 2)):
        order = {"multifactor": weights | {"qos_weight": weight}}
        found = starts_s(scenario(tmp_path, rows, qos=said, scheduler={"order": order, "backfill": "easy"}))
        assert found[first] == 10
    jobs = prepare(scenario(tmp_path, rows, qos=said)).jobs
    assert jobs.column("qos_factor_ppb").tolist() == [0, 0, 500_000_000]


@pytest.mark.parametrize(
    ("limit", "starts"),
    [
        ({"GrpJobs": 2}, [0, 0, 10, 10]),
        ({"GrpTRES": "node=3"}, [0, 0, 0, 10]),
        ({"GrpTRES": "cpu=25"}, [0, 0, 0, 10]),
        ({"GrpTRESRunMins": "node=1"}, [0, 0, 0, 0]),  # four nodes for ten seconds are 40 node-seconds
        ({"MaxJobsPU": 1}, [0, 10, 0, 10]),
        ({"MaxTRESPU": "node=1"}, [0, 10, 0, 10]),
        ({"MaxJobsPA": 1}, [0, 10, 20, 30]),
        ({"MaxTRESPerAccount": "node=2"}, [0, 0, 10, 10]),
        ({"GrpSubmit": 3}, [0, 0, 0, None]),
        ({"MaxSubmitPU": 1}, [0, None, 0, None]),
        ({"MaxSubmitJobsPA": 1, "MaxJobsPU": 1}, [0, None, None, None]),
        ({"GrpJobs": 0}, [None] * 4),
        ({"GrpJobs": -1, "MaxWall": "UNLIMITED"}, [0, 0, 0, 0]),
    ],
)
def test_a_limit_of_a_qos_holds_or_refuses_its_jobs(
    tmp_path: Path, limit: dict[str, Any], starts: list[float | None]
) -> None:
    rows = [(0, 10, 1, user, 1, 1) for user in (1, 1, 2, 2)]
    said = {"table": {"few": limit}, "default": "few", "cpus_per_node": 8}
    found = starts_s(scenario(tmp_path, rows, qos=said))
    assert list(found.values()) == starts


def test_a_limit_in_node_minutes_is_of_what_is_asked_for(tmp_path: Path) -> None:
    rows = [(0, 60, 1, 1, 1, 1), (0, 60, 2, 1, 1, 1), (0, 60, 1, 2, 1, 1)]
    said = {"table": {"few": {"MaxTRESRunMinsPU": "node=2"}}, "default": "few"}
    assert starts_s(scenario(tmp_path, rows, qos=said)) == {1: 0, 2: 60, 3: 0}


def test_a_qos_has_its_own_jobs_only_and_the_other_limits_count_too(tmp_path: Path) -> None:
    rows = [(0, 10, 1, 1, 1, queue) for queue in (1, 1, 2, 2, 2)]
    said = {"table": {"few": {"MaxJobsPU": 1}}, "who": {"few": {"queues": [1]}}}
    assert list(starts_s(scenario(tmp_path, rows, qos=said)).values()) == [0, 10, 0, 0, 0]
    limits = [{"by": "user", "jobs": 3}]
    both = starts_s(scenario(tmp_path, rows, qos=said, limits=limits))
    assert list(both.values()) == [0, 10, 0, 0, 10]


def test_jobs_that_their_qos_does_not_take_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [(0, 10, 1, 1, 1, 1), (0, 100, 2, 1, 1, 1), (0, 10, 3, 1, 1, 1), (0, 10, 3, 1, 1, 2)]
    table = {"few": {"MaxTRES": "node=2", "MinTRES": "node=2", "MaxWall": 1}}
    prepared = prepare(scenario(tmp_path, rows, qos={"table": table, "who": {"few": {"queues": [1]}}}))
    assert prepared.jobs.number.tolist() == [4]
    assert prepared.left_out == {
        "narrower than QOS few takes": 1,
        "longer than QOS few takes": 1,
        "wider than QOS few takes": 1,
    }


def test_who_names_a_job_goes_before_its_queue_its_partition_its_user_and_its_group(tmp_path: Path) -> None:
    whose = ((1, 1, 1), (1, 1, 1), (1, 1, 2), (1, 1, 3), (2, 1, 3), (2, 2, 3))
    rows = [(0, 10, 1, *each) for each in whose]
    who: dict[str, dict[str, list[Any]]] = {"j": {"jobs": [1]}, "q": {"queues": [1]}, "u": {"users": [1]}}
    who |= {"p": {"partitions": ["debug"]}, "g": {"groups": [1]}}
    partitions = {"debug": {"queues": [1, 2]}, "rest": {"default": True}}
    given = scenario(
        tmp_path, rows, partitions=partitions, qos={"table": {name: {} for name in who}, "who": who}
    )
    names = sorted([*who, "normal"])
    assert [names[place] for place in prepare(given).jobs.column("qos").tolist()] == [
        "j", "q", "p", "u", "g", "normal",
    ]  # fmt: skip
    given = scenario(
        tmp_path,
        rows,
        partitions=partitions,
        qos={"table": {"p": {}}, "who": {"p": {"partitions": ["rest"]}}},
    )
    assert prepare(given).jobs.column("qos").tolist() == [0, 0, 0, 1, 1, 1]


def test_a_table_in_a_file_is_that_of_sacctmgr_and_results_have_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "qos.txt").write_text(
        "Name|Priority|GraceTime|Preempt|Flags|UsageFactor|GrpTRES|GrpSubmit|MaxWall|MaxTRESPU|MaxJobsPU|MaxSubmitPU\n"
        "normal|0|00:00:00||||||||||\n"
        "debug|100|00:00:00||DenyOnLimit|1.000000||50|00:30:00|cpu=16|2|4\n"
    )
    scenario(tmp_path, [(0, 10, 1, 1, 1, 1)])
    path = tmp_path / "s.yaml"
    path.write_text("nodes: 4\nworkload: {trace: log.swf}\nqos: {table: qos.txt, cpus_per_node: 4}\n")
    given = load(path)
    assert given.qos is not None
    debug = Qos("debug", 100, user_jobs=2, user_nodes=4, max_wall=30, grp_submitted=50, user_submitted=4)
    assert read_qos(given.qos.table, 4, plain=True) == (debug, Qos("normal"))
    stored = from_mapping(given.as_json())
    assert stored == given
    assert limits_of((), stored.qos) == [
        Limit("qos", submitted=50, qos=0),
        Limit("user", jobs=2, nodes=4, submitted=4, qos=0),
    ]
    (tmp_path / "qos.txt").write_text("Name|Priority|GrpTRESMins\ndebug|100|cpu=5\n")
    with pytest.raises(
        ScenarioError,
        match=r"s.yaml: .*qos.txt:2: qos debug: GrpTRESMins=cpu=5: a plain scheduler does not know",
    ):
        load(path)


def test_leases_beside_it_are_of_no_qos(tmp_path: Path) -> None:
    log = scenario(tmp_path, [(0, 10, 1, 1, 1, 1), (0, 10, 1, 1, 1, 1)]).workload.trace
    given = from_mapping(
        {
            "nodes": 4,
            "workload": {"trace": str(log), "generate": [{"bursty_leases": {"days": 1, "utilisation": 0.1}}]},
            "mechanism": {"static_partition": {"ondemand_nodes": 2}},
            "qos": {"table": {"few": {"MaxJobsPU": 1, "MaxWall": 1}}, "default": "few"},
        }
    )
    prepared = prepare(given)
    assert not prepared.left_out
    record = run_virtual(given, prepared)
    assert_lawful(record)
    batch = record.jobs.kind == Kind.BATCH
    assert record.start_us[batch].tolist() == [0, 10 * US]
    assert (record.start_us[~batch] >= 0).any()


def test_scenarios_without_qos_are_stored_as_before(tmp_path: Path) -> None:
    assert "qos" not in scenario(tmp_path, [(0, 10, 1, 1, 1, 1)]).as_json()


@pytest.mark.parametrize(
    ("said", "keys", "problem"),
    [
        (
            {"table": {"q": {"Preempt": "normal"}}},
            {},
            "qos q: Preempt=normal: a plain scheduler does not know this",
        ),
        ({"table": {"q": {"GrpTRES": "cpu=5"}}}, {}, "qos q: GrpTRES=cpu=5: set cpus_per_node"),
        ({"table": {}, "who": {"q": {}}}, {}, "qos: the table has no 'q'; there are: normal"),
        ({"table": {}, "default": "q"}, {}, "qos: the table has no 'q'; there are: normal"),
        (
            {"table": {"q": {}, "r": {}}, "who": {"q": {"users": [1]}, "r": {"users": [2, 1]}}},
            {},
            "qos: q and r both have user 1",
        ),
        ({"table": {"q": {}}, "who": {"q": {"partitions": ["x"]}}}, {}, "there is no partition 'x'"),
        ({"table": {"q": {"Priority": 1}}}, {"scheduler": "wfp3+easy"}, "wfp3 is called at each pass"),
        (
            {"table": {"q": {"Priority": 1}}},
            {"scheduler": {"order": "priority", "priorities": {1: 2**61}}},
            "queue order: the priorities of 2 QOS leave no room for those of queues",
        ),
        ({"table": {}}, {"scheduler": {"slurm": {}}}, "slurm has its own"),
        ({"table": {}}, {"mechanism": "hybrid"}, "qos: .* go with plain schedulers"),
        ({"table": {}}, {"shared_nodes": {"cores": 4}}, "qos: .* go with plain schedulers"),
    ],
)
def test_what_does_not_go_is_told(
    tmp_path: Path, said: dict[str, Any], keys: dict[str, Any], problem: str
) -> None:
    given = scenario(tmp_path, [(0, 10, 1, 1, 1, 1)], qos=said, **keys)
    with pytest.raises(ScenarioError, match=problem):
        run_virtual(given, prepare(given))


def test_it_is_for_virtual_time(tmp_path: Path) -> None:
    given = scenario(tmp_path, [(0, 10, 1, 1, 1, 1)], qos={"table": {}})
    with pytest.raises(ScenarioError, match=r"qos: .* are for virtual time only"):
        check_live(given, prepare(given))


def test_limits_of_submitted_jobs_do_not_go_with_think_time() -> None:
    jobs = ready_to_run(
        JobTable.build(
            submit_us=[0, 0],
            run_us=[US, US],
            nodes=[1, 1],
            user=[1, 1],
            extra={"after_number": [-1, 1], "after_kind": [-1, 4], "qos": [0, 0]},
        )
    )
    with pytest.raises(ValueError, match="limits of submitted jobs do not go with"):
        run_ruled(jobs, 2, SchedulerConfig(), [Limit("user", submitted=1, qos=0)])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"GrpJobs": 2}, "3 jobs run of qos 0 at 0 s, more than 2"),
        ({"MaxTRESPU": "node=2"}, "3 nodes run of user 1 at 0 s, more than 2"),
        ({"MaxTRESRunMinsPA": "node=1"}, "120000000 node-us run of group 1 at 0 s, more than 60000000"),
        ({"MaxSubmitPU": 1}, "2 jobs are submitted of user 1 at 0 s, more than 1"),
    ],
)
def test_a_run_beyond_a_limit_is_a_breach(tmp_path: Path, limit: dict[str, Any], said: str) -> None:
    rows = [(0, 40, 1, 1, 1, 1), (0, 40, 2, 1, 1, 1), (0, 40, 1, 2, 2, 1)]
    given = scenario(tmp_path, rows, qos={"table": {"few": {}}, "default": "few"})
    record = run_virtual(given, prepare(given))
    assert not check(record)
    wrong = given.model_copy(update={"qos": QosPart(table={"few": limit}, default="few")})
    broken = [str(each) for each in check(replace(record, scenario=wrong.as_json()))]
    assert f"limits_are_kept: {said}" in broken


def test_it_goes_with_partitions_and_nodes_that_go_together(tmp_path: Path) -> None:
    rows = [(0, 10, 2, 1, 1, 1), (1, 10, 2, 1, 1, 1), (2, 10, 2, 2, 1, 1), (2, 10, 2, 1, 1, 2)]
    said = {"table": {"few": {"MaxJobsPU": 1, "Priority": 5}}, "who": {"few": {"queues": [1]}}}
    halves = {"a": {"nodes": "n[001-002]", "queues": [1]}, "b": {"nodes": "n[003-004]", "default": True}}
    assert starts_s(scenario(tmp_path, rows, qos=said, partitions=halves)) == {1: 0, 2: 10, 3: 20, 4: 2}
    wired = scenario(tmp_path, rows, qos=said, placement={"policy": "contiguous"})
    assert starts_s(wired) == {1: 0, 2: 10, 3: 2, 4: 12}
