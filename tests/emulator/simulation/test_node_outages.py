"""Failures, drains and maintenance: equal to the slow reference run by run, and each by hand."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest

from balancer.clock import NEVER_US, US
from emulator.events.external_events import ExternalEvents
from emulator.events.node_failures import Exponential, Outage, Recorded, Weibull
from emulator.events.node_outages import NodeOutages, Window
from emulator.kernel.job_states import RunOutcome
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import make_cluster
from emulator.validation.laws import assert_lawful
from emulator.workload.files import TraceError
from emulator.workload.table import JobTable
from gates import GATE
from oracle.node_outages import FailingMachine, random_outages
from oracle.reference import BACKFILLS, CHOICES, Options
from oracle.workloads import job_table, random_workload
from scenario_kit import a_day, assert_refused

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord

_HOW = {RunOutcome.FINISHED: "finished", RunOutcome.PREEMPTED: "requeued", RunOutcome.CANCELLED: "lost"}
_ORDERS = ("fcfs", "sjf", "wfp3")


def run_with(jobs: JobTable, nodes: int, scheduler: SchedulerConfig, outages: NodeOutages) -> RunRecord:
    loop = Loop(make_cluster(nodes, scheduler, jobs), external_events=ExternalEvents(None, outages))
    loop.run()
    return loop.record()


def runs_of(record: RunRecord) -> list[tuple[int, int, int, str]]:
    """Number, start, end and how it ended, of every run."""
    runs = record.runs
    numbers = record.jobs.number[runs.job].tolist()
    how = [_HOW[RunOutcome(outcome)] for outcome in runs.outcome.tolist()]
    return sorted(zip(numbers, runs.start_us.tolist(), runs.end_us.tolist(), how, strict=True))


def nodes_given(record: RunRecord) -> dict[tuple[int, int], frozenset[int]]:
    count: dict[int, int] = {}
    given = {}
    for row, job in enumerate(record.runs.job.tolist()):
        number = int(record.jobs.number[job])
        count[number] = count.get(number, -1) + 1
        first, last = record.runs.first[row : row + 2]
        given[number, count[number]] = frozenset(record.runs.node[first:last].tolist())
    return given


def compare(rng: np.random.Generator, order: str, backfill: str) -> None:
    jobs, nodes = random_workload(rng, jobs=25)
    outages = random_outages(rng, nodes, 1 + max(job.submit_us + job.run_us for job in jobs) // US)
    choice = str(rng.choice(CHOICES)) if backfill == "easy" else "first_fit"
    config = SchedulerConfig(order=order, backfill=backfill, choice=choice)  # type: ignore[arg-type]
    record = run_with(job_table(jobs), nodes, config, outages.on(nodes))
    options = Options(choice=choice)
    expected = FailingMachine(jobs, nodes, order, backfill, options, outages.outs, nodes_given(record)).run()
    assert runs_of(record) == expected
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_runs_on_failing_nodes_begin_and_end_when_the_reference_says(order: str, backfill: str) -> None:
    rng = np.random.default_rng([27, *f"{order}+{backfill}".encode()])
    for _ in range(25):
        compare(rng, order, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_hundreds_of_workloads_on_failing_nodes_run_like_the_reference(order: str, backfill: str) -> None:
    rng = np.random.default_rng([28, *f"{order}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        compare(rng, order, backfill)


# By hand: two nodes, jobs of ten seconds, times in seconds.


def by_hand(
    widths: list[int],
    failures: list[tuple[float, int, int]] = (),
    *,
    lost: bool = False,
    windows: list[Window] = (),  # type: ignore[assignment]
) -> tuple[list[tuple[float, ...]], RunRecord]:
    """(number, start, end, how it ended) of each run, in seconds; failures are (begin, end, node)."""
    jobs = JobTable.build(submit_us=[0] * len(widths), run_us=[10 * US] * len(widths), nodes=widths)
    told = [Outage(int(begin * US), end * US, node) for begin, end, node in failures]
    record = run_with(jobs, 2, SchedulerConfig(), NodeOutages(2, iter(told), lost=lost, windows=windows))
    assert_lawful(record)
    return [(number, start / US, end / US, how) for number, start, end, how in runs_of(record)], record


def test_a_job_whose_node_fails_waits_again_and_begins_anew() -> None:
    runs, record = by_hand([2], [(4, 6, 0)])
    assert runs == [(1, 0, 4, "requeued"), (1, 6, 16, "finished")]
    assert (record.runs.lost_node_us.tolist(), record.end_us.tolist()) == ([8 * US, 0], [16 * US])


def test_a_job_may_be_lost_with_its_node() -> None:
    runs, record = by_hand([1, 1], [(4, 6, 0)], lost=True)
    assert sorted(how for *_, how in runs) == ["finished", "lost"]
    assert record.runs.lost_node_us.sum() == 4 * US


def test_the_run_is_over_with_its_jobs_and_not_with_the_failures() -> None:
    model = Exponential(mtbf_s=3, repair_s=1)
    jobs = JobTable.build(submit_us=[0], run_us=[US], nodes=[1])
    endless = model.outages(np.random.default_rng(1), ("n001", "n002"))
    record = run_with(jobs, 2, SchedulerConfig(), NodeOutages(2, endless))
    assert record.horizon_us == record.end_us[0]


def test_a_drained_node_gets_no_new_job_and_its_own_may_end() -> None:
    window = Window(drain_us=5 * US, begin_us=15 * US, end_us=20 * US, nodes=(0, 1))
    runs, record = by_hand([2, 2], windows=[window])
    assert runs == [(1, 0, 10, "finished"), (2, 20, 30, "finished")]
    assert [(move.at_us // US, move.nodes, str(move.pool)) for move in record.moves] == [
        (10, (0, 1), "DOWN"),
        (20, (0, 1), "OA_IDLE"),
    ]


def test_a_job_that_still_runs_when_maintenance_begins_is_stopped() -> None:
    window = Window(drain_us=5 * US, begin_us=8 * US, end_us=9 * US, nodes=(0,))
    runs, _ = by_hand([2], windows=[window])
    assert runs == [(1, 0, 8, "requeued"), (1, 9, 19, "finished")]


def test_a_node_that_fails_during_maintenance_is_back_when_both_are_over() -> None:
    window = Window(drain_us=0, begin_us=0, end_us=5 * US, nodes=(0, 1))
    runs, _ = by_hand([2], [(3, 9, 1)], windows=[window])
    assert runs == [(1, 9, 19, "finished")]


def test_maintenance_comes_again() -> None:
    window = Window(drain_us=0, begin_us=2 * US, end_us=3 * US, nodes=(0, 1), every_us=20 * US)
    runs, _ = by_hand([2, 2, 2], windows=[window])
    assert [run[1:3] for run in runs] == [(3, 13), (13, 22), (23, 33), (33, 42), (43, 53)]


# Models.


def test_failures_of_the_system_come_at_their_mean_and_nodes_are_down_for_theirs() -> None:
    model = Exponential(mtbf_s=100, repair_s=30)
    drawn = list(islice(model.outages(np.random.default_rng(3), ["n"] * 50), 20_000))
    begins = np.array([each.begin_us for each in drawn]) / US
    lengths = np.array([each.end_us - each.begin_us for each in drawn]) / US
    assert np.diff(begins).mean() == pytest.approx(100, rel=0.03)
    assert lengths.mean() == pytest.approx(30, rel=0.03)
    assert np.bincount([each.node for each in drawn]).min() > 300


def test_times_between_failures_of_a_node_have_the_moments_of_a_weibull_distribution() -> None:
    model = Weibull(node_mtbf_s=1000, shape=0.7, repair_s=10)
    drawn = list(islice(model.outages(np.random.default_rng(3), ["n"] * 40), 40_000))
    up: list[float] = []
    back = [0] * 40
    for begin, end, node in drawn:
        up.append((begin - back[node]) / US)
        back[node] = end
    assert [each.begin_us for each in drawn] == sorted(each.begin_us for each in drawn)
    assert np.mean(up) == pytest.approx(1000, rel=0.05)
    # Its coefficient of variation: sqrt(gamma(1 + 2/k) / gamma(1 + 1/k)^2 - 1), 1.4624 for k = 0.7.
    assert np.std(up) / np.mean(up) == pytest.approx(1.4624, rel=0.05)


def test_recorded_outages_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "down.csv"
    path.write_text("node,begin,end\nn002,100,160\nn001,90,120\nn001,10,20\nn002,500,\n")
    model = Recorded(str(path), zero_unix_s=100)
    assert list(model.outages(np.random.default_rng(1), ("n001", "n002"))) == [
        Outage(0, 20 * US, 0),
        Outage(0, 60 * US, 1),
        Outage(400 * US, NEVER_US, 1),
    ]
    path.write_text("node,begin,end\nn7,1,2\n")
    with pytest.raises(TraceError, match=r"there is no node 'n7'; nodes are n001 to n002$"):
        list(model.outages(np.random.default_rng(1), ("n001", "n002")))


# Scenarios.


def test_the_same_scenario_and_seed_has_the_same_failures() -> None:
    one = a_day(failures={"model": {"exponential": {"mtbf_s": 3600}}})
    first, second = (runs_of(run_virtual(one, prepare(one))) for _ in range(2))
    assert first == second
    assert any(how == "requeued" for *_, how in first)
    other = a_day(failures={"model": {"exponential": {"mtbf_s": 3600}}}, maintenance=[])
    assert runs_of(run_virtual(other, prepare(other))) == first


def test_a_scenario_that_says_nothing_of_failures_is_stored_as_before() -> None:
    assert {"failures", "maintenance"}.isdisjoint(a_day().as_json())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"failures": {"model": {"exponential": {"mtbf_s": 0}}}}, "failures: exponential: mtbf_s"),
        ({"failures": {"model": "weibul"}}, "failures: "),
        (
            {"maintenance": [{"begin_s": 5, "end_s": 9, "nodes": ["n999"]}]},
            "maintenance: there is no node 'n999'",
        ),
        (
            {"failures": {"model": {"weibull": {"node_mtbf_s": 9}}}, "mechanism": "hybrid"},
            "the mechanism hybrid decides over its jobs itself",
        ),
        (
            {
                "failures": {"model": {"weibull": {"node_mtbf_s": 9}}},
                "scheduler": "slurm",
                "limits": [{"by": "user", "jobs": 2}],
            },
            "decides over its jobs itself",
        ),
    ],
)
def test_what_cannot_be_run_is_told(keys: dict[str, object], message: str) -> None:
    assert_refused(a_day(**keys), message)


def test_of_live_runs_those_on_the_real_slurm_have_failures_without_a_mechanism() -> None:
    fails = {"failures": {"model": {"weibull": {"node_mtbf_s": 9}}}}
    on_slurm = {**fails, "live": {"batch": "slurm"}}
    with_conf = {**fails, "live": {"batch": {"slurm": {}}}}
    for given in (a_day(**on_slurm), a_day(**with_conf)):
        check_live(given, prepare(given))
    for given in (a_day(**fails), a_day(**on_slurm, mechanism="balancer")):
        with pytest.raises(ScenarioError, match="virtual time only; leave out `failures` and `maintenance`"):
            check_live(given, prepare(given))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"begin_s": 5, "end_s": 5}, "end_s must lie behind begin_s, 5, not 5"),
        (
            {"begin_s": 5, "end_s": 9, "drain_s": 2, "every_s": 5},
            "every_s, 5, is shorter than what comes again",
        ),
    ],
)
def test_a_maintenance_that_cannot_be_is_told(part: dict[str, float], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        a_day(maintenance=[part])
    assert message in str(error.value)


def test_a_failure_model_that_fails_ends_the_run_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from emulator.events.node_failures import Outage\n"
        "class Broken:\n"
        "    def outages(self, rng, node_names):\n"
        "        yield Outage(3_600_000_000, 3_700_000_000, 0)\n"
        "        raise KeyError('no more')\n"
    )
    broken = a_day(plugins=[f"{tmp_path}/broken.py:Broken"], failures={"model": "broken"})
    record = run_virtual(broken, prepare(broken))
    assert "failure model broken" in record.interrupted
    assert "no more" in record.traceback
