"""Jobs of several sizes: equal to the slow reference job by job, laws, and each rule by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.cluster import Cluster
from emulator.cluster.moldable import ASKED, with_columns
from emulator.cluster.selections.moldable import CHOICES, MoldableSelection
from emulator.kernel.molding import Size as SizeRow
from emulator.kernel.rows import rows_of
from emulator.mechanisms.malleable.mechanism import Malleable
from emulator.metrics import summarize
from emulator.runs.moldable_sizes import TOO_WIDE_A_SIZE
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import Scenario, ScenarioError, from_mapping, load
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import simulate
from emulator.sweeps.execute import execute
from emulator.validation.laws import assert_lawful, check
from emulator.workload.files import TraceError
from emulator.workload.table import JobTable, Kind
from gates import GATE
from oracle.moldable import MoldableMachine, Size
from oracle.records import schedule_of
from oracle.reference import BACKFILLS, Job, Options
from oracle.workloads import ESTIMATES, job_table, random_workload
from scenario_kit import assert_refused

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord

_ORDERS = ("fcfs", "sjf", "multifactor")


def with_sizes(jobs: JobTable, sizes: dict[int, list[Size]]) -> JobTable:
    place = {number: row for row, number in enumerate(jobs.number.tolist())}
    flat = [(place[number], *size) for number, mine in sizes.items() for size in mine]
    table = np.array(flat, np.int64).reshape(-1, 4)
    return with_columns(
        jobs, table[:, 0], rows_of(SizeRow, nodes=table[:, 1], run_us=table[:, 2], estimate_us=table[:, 3])
    )


def moldable_cluster(nodes: int, scheduler: SchedulerConfig, jobs: JobTable, choose: str) -> Cluster:
    selection = MoldableSelection(nodes, scheduler, jobs, choose)
    return Cluster(nodes, scheduler, jobs, selection=selection)


def record_of(jobs: JobTable, nodes: int, scheduler: SchedulerConfig, choose: str) -> RunRecord:
    """Of a run; its scenario says that jobs have sizes, so that the laws look at them."""
    loop = Loop(moldable_cluster(nodes, scheduler, jobs, choose))
    loop.run()
    return replace(loop.record(), scenario={"moldable": {"choose": choose}})


def sizes_of(record: RunRecord) -> dict[int, Size]:
    """The size that each job had, its nodes as its run has them."""
    jobs, runs = record.jobs, record.runs
    given = dict(zip(runs.job.tolist(), np.diff(runs.first).tolist(), strict=True))
    return {
        int(jobs.number[row]): Size(given[row], int(jobs.run_us[row]), int(jobs.estimate_us[row]))
        for row in range(len(jobs))
    }


def random_case(
    rng: np.random.Generator, estimates: str | None = None
) -> tuple[list[Job], dict[int, list[Size]], int]:
    """Jobs of which some have sizes: fewer nodes for longer, more for shorter or just as long, or as it comes."""
    drawn = estimates or str(rng.choice(ESTIMATES))
    jobs, nodes = random_workload(rng, estimates=drawn, jobs=35, nodes=int(rng.choice((6, 16))))
    sizes = {}
    for job in jobs:
        if rng.random() < 0.3:
            continue
        widths = rng.choice(nodes, int(rng.integers(1, min(nodes, 5) + 1)), replace=False) + 1
        serial = float(rng.choice((0, 0.2, 1)))
        mine = []
        for width in widths.tolist():
            ratio = (serial + (1 - serial) / width) / (serial + (1 - serial) / job.nodes)
            run, estimate = (max(1, round(each * ratio / US)) * US for each in (job.run_us, job.estimate_us))
            if estimates is None and rng.random() < 0.1:
                estimate = int(rng.integers(1, 20)) * US
            mine.append(Size(width, run, estimate))
        sizes[job.number] = mine
    return jobs, sizes, nodes


def compare(rng: np.random.Generator, order: str, backfill: str, choose: str) -> None:
    jobs, sizes, nodes = random_case(rng)
    cycle_s = float(rng.choice([0, 0, 0, 7]))
    config = SchedulerConfig(order=order, backfill=backfill, cycle_s=cycle_s)  # type: ignore[arg-type]
    record = record_of(with_sizes(job_table(jobs), sizes), nodes, config, choose)
    oracle = MoldableMachine(jobs, sizes, nodes, order, backfill, choose, Options(cycle_s=cycle_s))
    assert schedule_of(record) == oracle.run()
    assert sizes_of(record) == oracle.got
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.sample(6)
@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_of_several_sizes_start_when_and_as_wide_as_the_reference_says(
    order: str, backfill: str, choose: str
) -> None:
    rng = np.random.default_rng([51, *f"{order}+{backfill}+{choose}".encode()])
    for _ in range(15):
        compare(rng, order, backfill, choose)


@pytest.mark.slow
@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_of_several_sizes_run_like_the_reference(
    order: str, backfill: str, choose: str
) -> None:
    rng = np.random.default_rng([52, *f"{order}+{backfill}+{choose}".encode()])
    for _ in range(GATE.reference_workloads // 16):
        compare(rng, order, backfill, choose)


# Laws.


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_with_one_size_a_job_every_start_is_that_of_the_plain_scheduler(backfill: str, choose: str) -> None:
    """Half of them say so, the others have no sizes."""
    rng = np.random.default_rng([53, *f"{backfill}+{choose}".encode()])
    for _ in range(15):
        jobs, nodes = random_workload(rng, estimates=str(rng.choice(ESTIMATES)))
        config = SchedulerConfig(order=str(rng.choice(_ORDERS)), backfill=backfill)  # type: ignore[arg-type]
        sizes = {each.number: [Size(each.nodes, each.run_us, each.estimate_us)] for each in jobs[::2]}
        table = job_table(jobs)
        record = record_of(with_sizes(table, sizes), nodes, config, choose)
        assert schedule_of(record) == schedule_of(simulate(table, nodes, config))


def test_in_a_plan_of_all_it_is_the_planner_of_the_mechanism_malleable() -> None:
    """All jobs moldable, on any number of nodes, constant area: two programs, one schedule."""
    rng = np.random.default_rng(54)
    config = SchedulerConfig.parse("fcfs+conservative")
    for _ in range(15):
        jobs, nodes = random_workload(rng, estimates="mixed", nodes=12)
        sizes = {
            job.number: [
                Size(width, *(-(-each * job.nodes // width) for each in (job.run_us, job.estimate_us)))
                for width in range(1, nodes + 1)
            ]
            for job in jobs
        }
        table = job_table(jobs)
        record = record_of(with_sizes(table, sizes), nodes, config, "earliest_end")
        flexible = table.with_extra(
            job_class=np.ones(len(table)), min_nodes=np.ones(len(table)), max_nodes=np.full(len(table), nodes)
        )
        loop = Loop(Malleable().make_machine(nodes, config, flexible, 1), Malleable())
        loop.run()
        assert schedule_of(record) == schedule_of(loop.record())


@pytest.mark.parametrize("choose", ["earliest_end", "at_submit"])
def test_no_head_ends_later_than_it_was_first_planned(choose: str) -> None:
    """First come, first served, and nobody runs longer than estimated: EASY keeps what it promised."""
    rng = np.random.default_rng([55, *choose.encode()])
    promises = 0
    for _ in range(60):
        jobs, sizes, nodes = random_case(rng, "mixed")
        oracle = MoldableMachine(jobs, sizes, nodes, "fcfs", "easy", choose, Options())
        oracle.run()
        record = record_of(with_sizes(job_table(jobs), sizes), nodes, SchedulerConfig(), choose)
        had, starts = sizes_of(record), schedule_of(record)
        late = {
            job: end for job, end in oracle.promised.items() if starts[job][0] + had[job].estimate_us > end
        }
        assert not late
        promises += len(oracle.promised)
    assert promises > 100


def test_node_time_adds_up_from_the_sizes_that_jobs_had() -> None:
    rng = np.random.default_rng(56)
    jobs, sizes, nodes = random_case(rng, "mixed")
    record = record_of(with_sizes(job_table(jobs), sizes), nodes, SchedulerConfig(), "earliest_end")
    had = sizes_of(record).values()
    assert summarize(record)["node_time_us"]["OA_BUSY"] == sum(size.nodes * size.run_us for size in had)


def test_a_size_that_is_none_of_the_jobs_is_a_breach() -> None:
    jobs = JobTable.build(submit_us=[0, 0], run_us=[9 * US, 9 * US], nodes=[2, 1])
    sizes = {1: [Size(2, 9 * US, 9 * US), Size(4, 5 * US, 5 * US)]}
    record = record_of(with_sizes(jobs, sizes), 4, SchedulerConfig(), "earliest_end")
    law = "a_moldable_job_has_one_of_its_sizes"
    assert not check(record)
    for name, row in (("nodes", 0), ("run_us", 0), ("estimate_us", 0), ("nodes", 1)):
        wrong = getattr(record.jobs, name).copy()
        wrong[row] += 1
        broken = check(replace(record, jobs=replace(record.jobs, **{name: wrong})))
        assert law in {each.law for each in broken}, (name, row)


# By hand, in seconds.


def by_hand(
    asked: list[tuple[int, int]],
    sizes: dict[int, dict[int, int]],
    nodes: int = 4,
    *,
    scheduler: str = "fcfs+easy",
    choose: str = "earliest_end",
    submit_s: list[int] | None = None,
) -> dict[int, tuple[int, int]]:
    """Start, and nodes, of each job; `sizes` by job: run time by nodes."""
    jobs = JobTable.build(
        submit_us=[each * US for each in submit_s or [0] * len(asked)],
        run_us=[run * US for _, run in asked],
        nodes=[width for width, _ in asked],
    )
    listed = {
        number: [Size(width, run * US, run * US) for width, run in mine.items()]
        for number, mine in sizes.items()
    }
    record = record_of(with_sizes(jobs, listed), nodes, SchedulerConfig.parse(scheduler), choose)
    assert_lawful(record)
    had = sizes_of(record)
    return {number: (start // US, had[number].nodes) for number, (start, _) in schedule_of(record).items()}


def test_a_job_waits_for_more_nodes_if_it_ends_earlier_on_them() -> None:
    found = by_hand([(2, 10), (2, 30)], {2: {2: 30, 4: 15}})
    assert found == {1: (0, 2), 2: (10, 4)}


def test_and_starts_on_fewer_if_it_does_not() -> None:
    found = by_hand([(2, 10), (2, 30)], {2: {2: 24, 4: 15}})
    assert found == {1: (0, 2), 2: (0, 2)}


def test_of_equal_ends_the_earliest_start_counts_and_then_the_fewest_nodes() -> None:
    found = by_hand([(2, 10), (2, 30)], {2: {2: 25, 4: 15}})
    assert found == {1: (0, 2), 2: (0, 2)}
    assert by_hand([(4, 10)], {1: {4: 10, 2: 10, 3: 10}}) == {1: (0, 2)}


def test_the_widest_that_fits_starts_now_even_if_it_would_end_earlier_later() -> None:
    found = by_hand([(2, 10), (2, 30)], {2: {1: 50, 2: 30, 4: 15}}, choose="widest_now")
    assert found == {1: (0, 2), 2: (0, 2)}


def test_a_job_that_fits_nowhere_now_is_planned_where_it_ends_first() -> None:
    """Of 2 nodes from 10 s on, to 30 s, and 3 from 20 s on, to 29 s, the second."""
    found = by_hand([(3, 10), (1, 20), (2, 20)], {3: {2: 20, 3: 9}}, choose="widest_now", nodes=4)
    assert found == {1: (0, 3), 2: (0, 1), 3: (10, 3)}
    found = by_hand([(2, 10), (2, 20), (3, 9)], {3: {3: 9, 4: 8}}, choose="widest_now")
    assert found == {1: (0, 2), 2: (0, 2), 3: (20, 4)}


def test_a_job_behind_the_head_shrinks_to_fit_beside_it() -> None:
    """The head has all nodes from 10 s on; 2 nodes for 8 s end before that, 1 node for 16 s would not."""
    found = by_hand([(2, 10), (4, 10), (1, 16)], {3: {1: 16, 2: 8}})
    assert found == {1: (0, 2), 2: (10, 4), 3: (0, 2)}


def test_without_backfilling_a_head_that_waits_for_its_size_holds_up_the_others() -> None:
    found = by_hand([(2, 10), (2, 30), (1, 5)], {2: {2: 30, 4: 15}}, scheduler="fcfs+none")
    assert found == {1: (0, 2), 2: (10, 4), 3: (25, 1)}


def test_a_size_that_is_chosen_at_the_submit_stays_whatever_comes() -> None:
    """At 0 s four nodes at 100 s end first; at 20 s, when the first job is over, two would have been free all along."""
    jobs = JobTable.build(
        submit_us=[0, 0], run_us=[20 * US, 30 * US], estimate_us=[100 * US, 30 * US], nodes=[4, 2]
    )
    sizes = {2: [Size(2, 30 * US, 30 * US), Size(4, 15 * US, 15 * US)]}
    more = JobTable.build(submit_us=[US], run_us=[90 * US], nodes=[2])
    both = with_sizes(jobs, sizes).merge(more)
    late = record_of(both, 4, SchedulerConfig(), "at_submit")
    assert sizes_of(late)[2].nodes == 4


def test_a_size_is_chosen_at_the_submit_in_a_plan_of_all_that_wait() -> None:
    """The second job has all nodes from 10 s to 20 s; so the third ends first on one node, at once."""
    found = by_hand([(2, 10), (4, 10), (1, 25)], {3: {1: 9, 4: 5}}, choose="at_submit")
    assert found == {1: (0, 2), 2: (10, 4), 3: (0, 1)}


def test_orders_go_by_what_a_job_asks_for() -> None:
    found = by_hand([(4, 10), (1, 10), (2, 10)], {2: {4: 3}}, scheduler="smallest+none")
    assert found == {1: (13, 4), 2: (0, 4), 3: (3, 2)}


def test_a_job_that_never_ran_has_what_it_asked_for() -> None:
    jobs = with_sizes(
        JobTable.build(submit_us=[0, 0], run_us=[10 * US] * 2, nodes=[2, 2]), {2: [Size(4, 5 * US, 5 * US)]}
    )
    loop = Loop(moldable_cluster(4, SchedulerConfig(), jobs, "earliest_end"))
    loop.machine.finish_instant(0)
    table = loop.machine.job_table()
    assert (table.nodes.tolist(), table.column(ASKED).tolist()) == ([2, 2], [2, 2])


# A scenario.


def scenario_of(tmp_path: Path, **keys: Any) -> Scenario:
    """Sixteen nodes, and twelve jobs of four nodes for ten minutes, at once."""
    log = tmp_path / "log.swf"
    lines = [f"{number} 0 0 600 4 -1 -1 4 1200 -1 1 {number % 3} 1 1 1 1 -1 -1" for number in range(1, 13)]
    log.write_text("\n".join(["; MaxNodes: 16", *lines, ""]), encoding="utf-8")
    document = {
        "nodes": 16,
        "seed": 3,
        "workload": {"trace": str(log)},
        "moldable": {"sizes": [0.5, 1, 2], "speedup": {"amdahl": {"serial": 0.1}}},
    }
    return from_mapping(document | keys)


def run(scenario: Scenario) -> RunRecord:
    record = run_virtual(scenario, prepare(scenario))
    assert_lawful(record)
    return record


def sizes_at(jobs: JobTable, row: int) -> list[tuple[int, int, int]]:
    """Of the job in a row, times in seconds."""
    found = []
    for suffix in ("", "_2", "_3", "_4"):
        name = "size_nodes" + suffix
        if name in jobs.extra and jobs.column(name)[row] >= 0:
            times = (jobs.column(f"size_{each}_us{suffix}")[row] for each in ("run", "estimate"))
            found.append((int(jobs.column(name)[row]), *(round(each / US) for each in times)))
    return found


def test_sizes_are_multiples_of_what_a_job_asks_for_with_the_times_of_the_speed_up(tmp_path: Path) -> None:
    jobs = prepare(scenario_of(tmp_path)).jobs
    ratio = [(1 + 0.1 * (n - 1)) / n / (1.3 / 4) for n in (2, 4, 8)]
    assert sizes_at(jobs, 0) == [
        (n, round(600 * each), round(1200 * each)) for n, each in zip((2, 4, 8), ratio, strict=True)
    ]


def test_sizes_without_a_node_beyond_the_cluster_or_twice_are_none(tmp_path: Path) -> None:
    jobs = prepare(scenario_of(tmp_path, moldable={"sizes": [0.01, 0.3, 0.33, 4, 5]})).jobs
    assert [width for width, _, _ in sizes_at(jobs, 0)] == [1, 16]


def test_a_share_is_drawn_by_the_seed_and_lies_within_a_larger_one(tmp_path: Path) -> None:
    def drawn(share: float, seed: int = 3) -> set[int]:
        keys = {"sizes": [2], "share": share}
        jobs = prepare(scenario_of(tmp_path, seed=seed, moldable=keys)).jobs
        return set(np.flatnonzero(jobs.column("size_nodes") >= 0).tolist())

    assert len(drawn(0.25)) == 3
    assert drawn(0.25) < drawn(0.75) < drawn(1)
    assert drawn(0.25) == drawn(0.25)
    assert drawn(0.25) != drawn(0.25, seed=4) or drawn(0.75) != drawn(0.75, seed=4)


@pytest.mark.parametrize("moldable", [{"sizes": [2], "share": 0}, {"sizes": [100]}])
def test_where_no_job_has_sizes_after_all_every_start_is_the_plain_schedulers(
    tmp_path: Path, moldable: dict[str, Any]
) -> None:
    plain = run(scenario_of(tmp_path, moldable=None))
    record = run(scenario_of(tmp_path, moldable=moldable))
    assert schedule_of(record) == schedule_of(plain)
    assert summarize(record)["moldable"]["jobs"] == 0


def test_users_queues_and_jobs_say_whose_sizes_they_are(tmp_path: Path) -> None:
    keys = {"sizes": [2], "users": [1], "jobs": [12]}
    jobs = prepare(scenario_of(tmp_path, moldable=keys)).jobs
    assert jobs.number[jobs.column("size_nodes") >= 0].tolist() == [1, 4, 7, 10, 12]


def test_a_file_has_the_sizes_of_single_jobs(tmp_path: Path) -> None:
    """A walltime that it does not say follows the run time, a run time the speed-up; the job's other sizes are gone."""
    file = tmp_path / "sizes.csv"
    file.write_text(
        "job,nodes,run_s,walltime_s\n1,2,1000,1500\n1,8,300,\n1,16,,\n99,4,1,1\n1,17,9,9\n", "utf-8"
    )
    prepared = prepare(scenario_of(tmp_path, moldable={"sizes": [2], "file": str(file)}))
    assert sizes_at(prepared.jobs, 0) == [(2, 1000, 1500), (8, 300, 600), (16, 150, 300)]
    assert sizes_at(prepared.jobs, 1) == [(8, 300, 600)]
    assert prepared.counted[TOO_WIDE_A_SIZE] == 1


def test_a_file_is_named_relative_to_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("job,nodes\n1,8\n", encoding="utf-8")
    scenario_of(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text("nodes: 16\nworkload: {trace: log.swf}\nmoldable: {file: sizes.csv}\n", encoding="utf-8")
    assert sizes_at(prepare(load(path)).jobs, 0) == [(8, 300, 600)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,0,1,1", "2: nodes is 0"),
        ("1,2,x,1", "2: run_s is 'x', not a time"),
        ("1,2,0,1", "2: run_s is 0"),
        ("1,2,,1\n1,2,,1", "3: job 1 has a size of 2 nodes already"),
        ("1,2", "2: 2 fields where the header has 4"),
        ("one,2,,", "2: job is 'one', not a whole number"),
        ("1,,9,9", "2: nodes is '', not a whole number"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text(f"job,nodes,run_s,walltime_s\n{line}\n", encoding="utf-8")
    with pytest.raises(TraceError, match=f"sizes.csv:{said}"):
        prepare(scenario_of(tmp_path, moldable={"file": str(file)}))


def test_where_jobs_are_killed_no_size_runs_beyond_its_walltime(tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text("job,nodes,run_s,walltime_s\n1,2,1000,900\n", encoding="utf-8")
    scenario = scenario_of(tmp_path, moldable={"file": str(file)})
    assert sizes_at(prepare(scenario).jobs, 0) == [(2, 1000, 900)]
    kills = scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"overrun": "kill"})})
    assert sizes_at(prepare(kills).jobs, 0) == [(2, 900, 900)]


@pytest.mark.parametrize(
    ("moldable", "said"),
    [
        ({}, "moldable: no job has sizes"),
        ({"sizes": [2], "speedup": {"amdahl": {"serial": 2}}}, "moldable: amdahl: serial"),
        ({"sizes": [2], "speedup": "none"}, "moldable: .*none"),
    ],
)
def test_what_gives_no_sizes_is_an_error(tmp_path: Path, moldable: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        prepare(scenario_of(tmp_path, moldable=moldable))


@pytest.mark.parametrize(
    ("moldable", "said"),
    [
        ({"share": 0.5}, "`share` says whose `sizes` they are"),
        ({"sizes": [0]}, "must be more than 0, not 0"),
        ({"sizes": [2], "choose": "best"}, "choose"),
        ({"sizes": [2], "size": 1}, "did you mean 'sizes'"),
    ],
)
def test_wrong_keys_are_named(tmp_path: Path, moldable: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        scenario_of(tmp_path, moldable=moldable)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"mechanism": "balancer"}, "the mechanism balancer goes by the nodes"),
        ({"scheduler": {"slurm": {}}}, "decides in a way of its own"),
        (
            {"placement": {"policy": "contiguous"}},
            "leave out `features`, `partitions`, `reservations` and `placement`",
        ),
        ({"partitions": {"all": {"default": True}}}, "leave out `features`"),
        ({"shared_nodes": {"cores": 4}}, "leave out `shared_nodes`"),
        ({"failures": {"model": {"exponential": {"mtbf_s": 1e6}}}}, "leave out `failures`"),
        ({"maintenance": [{"begin_s": 1, "end_s": 2}]}, "leave out `failures`, `maintenance`"),
        ({"energy": {"busy_w": 1, "idle_w": 1, "sleep_after_s": 60}}, "`energy.sleep_after_s`"),
        ({"limits": [{"by": "user", "nodes": 8}]}, "`limits` count `jobs` only"),
        (
            {"scheduler": {"order": "fcfs", "choice": "best_fit"}},
            "scheduler choice: where jobs have several sizes",
        ),
    ],
)
def test_what_does_not_go_with_several_sizes_is_refused(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    assert_refused(scenario_of(tmp_path, **keys), said)


def test_leases_and_live_runs_are_refused(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path)
    prepared = prepare(scenario)
    with pytest.raises(ScenarioError, match="leave out `moldable`"):
        check_live(scenario, prepared)
    kind = prepared.jobs.kind.copy()
    kind[3] = Kind.ON_DEMAND
    with pytest.raises(ScenarioError, match="job 4 is an on-demand lease"):
        run_virtual(scenario, replace(prepared, jobs=replace(prepared.jobs, kind=kind)))


def test_dependencies_limits_of_jobs_and_energy_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "rules.csv").write_text("job,after,kind\n2,1,afterok\n3,2,think\n", encoding="utf-8")
    scenario = scenario_of(
        tmp_path,
        workload={
            "trace": str(tmp_path / "log.swf"),
            "transforms": [{"relations": {"trace": str(tmp_path / "rules.csv")}}],
        },
        limits=[{"by": "user", "jobs": 1}],
        energy={"busy_w": 300, "idle_w": 100},
    )
    record = run(scenario)
    assert record.start_us[1] >= record.end_us[0]
    assert record.start_us[2] >= record.end_us[1]
    summary = summarize(record)
    assert summary["energy"]["total_kwh"] > 0
    assert summary["moldable"]["jobs"] == 12


def test_the_summary_says_who_got_more_and_who_got_less(tmp_path: Path) -> None:
    """Twelve jobs of 4 nodes for 20 minutes, or 8 for 10: two take 8 of the 16 nodes, and so on."""
    scenario = scenario_of(tmp_path, moldable={"sizes": [1, 2], "choose": "widest_now", "jobs": [1, 2, 3]})
    assert summarize(run(scenario))["moldable"] == {
        "jobs": 3, "narrower": 0, "as_asked": 0, "wider": 3, "mean_nodes": 8.0, "mean_asked_nodes": 4.0,
    }  # fmt: skip


def test_a_scenario_without_it_says_nothing_of_it_and_a_run_is_its_own_again(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path)
    again = from_mapping(json.loads(json.dumps(scenario.as_json())))
    assert schedule_of(run(scenario)) == schedule_of(run(again))
    plain = scenario_of(tmp_path, moldable=None)
    assert "moldable" not in plain.as_json()
    assert "moldable" not in summarize(run(plain))


def test_a_sweep_runs_it(tmp_path: Path) -> None:
    row = execute(json.dumps(scenario_of(tmp_path).model_dump(mode="json")))
    assert row["moldable.jobs"] == 12
