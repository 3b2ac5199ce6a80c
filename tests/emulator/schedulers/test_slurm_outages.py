"""Slurm's twin on nodes that fail and are maintained: equal to the reference run by run, each rule once by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.cluster.slurm_cluster import slurm_cluster
from emulator.cluster.slurm_scheduler import Slurm
from emulator.events.external_events import ExternalEvents
from emulator.events.node_failures import Outage
from emulator.events.node_outages import NodeOutages, Window
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.schedulers.slurm.reservations import Reservation
from emulator.simulation.loop import Loop
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from gates import GATE
from oracle.slurm_kit import agrees_on_failing_nodes, all_runs, runs_in_s
from scenario_kit import a_day, assert_refused, jobs_in_s

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.runs.scenario import Scenario


def test_every_run_on_failing_nodes_begins_and_ends_when_and_where_the_reference_says() -> None:
    for seed in range(GATE.reference_workloads // 2):
        agrees_on_failing_nodes(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1040, 1040 + GATE.reference_workloads, 40))
def test_so_they_do_on_many_workloads(first: int) -> None:
    for seed in range(first, first + 40):
        agrees_on_failing_nodes(seed)


# -- by hand: (submit, run, limit, nodes) and (node, begin, end) in seconds ------------

Row = tuple[float, float, float, int]
NEXT_FULL_LOOK = 180
"""The first multiple of `sched_interval` that is not before 28 + 121 s."""


def run(
    rows: list[Row],
    nodes: int,
    failures: list[tuple[int, float, float]] = (),  # type: ignore[assignment]
    windows: list[Window] = (),  # type: ignore[assignment]
    **settings: Any,
) -> dict[int, list[tuple[float, float, str]]]:
    """Of each job, by number: start, end and outcome of its runs."""
    jobs = jobs_in_s(rows, "submit_us", "run_us", "estimate_us", "nodes")
    return runs_of(jobs, nodes, failures, windows, **settings)


def runs_of(
    jobs: JobTable,
    nodes: int,
    failures: list[tuple[int, float, float]],
    windows: list[Window],
    **settings: Any,
) -> dict[int, list[tuple[float, float, str]]]:
    cluster = slurm_cluster(nodes, jobs, Slurm(**settings))
    told = [Outage(int(begin * US), int(end * US), node) for node, begin, end in failures]
    lost = not cluster.rules.expect_outages()
    loop = Loop(
        cluster,
        external_events=ExternalEvents(None, NodeOutages(nodes, iter(told), lost=lost, windows=windows)),
    )
    loop.run()
    record = loop.record()
    assert_lawful(record)
    return {number: [run[:3] for run in runs] for number, runs in runs_in_s(record).items()}


def test_a_requeued_job_is_held_back_for_121_seconds_and_found_by_the_next_look_at_all_jobs() -> None:
    """Recorded on Slurm 22.05: down at second 28, eligible at 149, started by the main loop at 181."""
    held = [(0, 28.6, "requeued"), (NEXT_FULL_LOOK, NEXT_FULL_LOOK + 300, "finished")]
    assert run([(0, 300, 300, 1)], 2, [(0, 28.6, 48)]) == {1: held}
    assert run([(0, 300, 300, 1)], 2, [(0, 28.6, 48)], sched_interval=17)[1][1][0] == 153, "9 times 17"


def test_the_next_look_at_all_jobs_comes_though_nothing_has_happened_since_the_last() -> None:
    rows: list[Row] = [(0, 300, 300, 1), (0, 600, 600, 1), (10, 60, 60, 3)]
    assert run(rows, 3, [(0, 28, 48)], backfill=False)[1][1][0] == NEXT_FULL_LOOK, "the third has waited on"


def test_its_time_makes_no_pass_and_no_cycle_but_any_that_comes_takes_it() -> None:
    rows: list[Row] = [(0, 300, 300, 1), (148, 90, 120, 1), (152, 90, 120, 1)]
    assert run(rows, 3, [(0, 28, 48)])[1][1][0] == 152
    assert run(rows, 3, [(0, 28, 48)], defer=True)[1][1][0] == 178, "the cycle after that of second 148"


def test_without_looks_at_all_jobs_its_time_is_an_event() -> None:
    assert run([(0, 300, 300, 1)], 2, [(0, 28, 48)], sched_interval=-1)[1][1][0] == 149


ORDER: list[Row] = [(0, 900, 900, 1), (0, 1500, 1500, 1), (20, 100, 600, 1), (100, 100, 600, 1)]
"""The first is requeued at 40 s; its node is back at 190 s, and three jobs wait for it."""


def test_a_requeued_job_keeps_its_place_as_its_priority_was_told_once() -> None:
    """Recorded on Slurm 22.05: with priority/basic its number is what it was."""
    runs = run(ORDER, 2, [(0, 40, 190)])
    assert [runs[number][-1][0] for number in (1, 3, 4)] == [190, 1090, 1190]


def test_between_equal_priorities_it_counts_as_submitted_when_it_was_requeued() -> None:
    """Recorded on Slurm 22.05 with weights of size. scontrol: "If a job is requeued, the submit time is reset"."""
    runs = run(ORDER, 2, [(0, 40, 190)], priority_type="multifactor", priority_weight_job_size=1000)
    assert [runs[number][-1][0] for number in (3, 1, 4)] == [190, 290, 1190]


def test_its_age_counts_from_when_it_is_eligible() -> None:
    """Recorded on Slurm 22.05 with slurmdbd: age 0 until then."""
    aged = {"priority_type": "multifactor", "priority_weight_age": 1000, "priority_max_age": 1200}
    runs = run(ORDER, 2, [(0, 40, 190)], priority_calc_period=1, **aged)
    assert [runs[number][-1][0] for number in (3, 4, 1)] == [210, 310, 410], "the last is 61 s older"


def test_it_is_young_again_when_it_is_eligible() -> None:
    """slurm.conf: nothing is reserved for pending jobs "until they have been pending and runnable" so long."""
    rows: list[Row] = [(0, 300, 300, 2), (50, 400, 400, 1), (160, 60, 600, 1)]
    assert run(rows, 2, [(0, 28, 48)], bf_min_age_reserve=100)[3][0][0] == 160, "11 s after second 149"
    assert run(rows, 2, [(0, 28, 48)], bf_min_age_reserve=11)[3][0][0] > 450, "old enough to hold it up"


def test_nodes_that_are_not_there_hold_up_the_main_loop_and_not_backfill() -> None:
    """Recorded on Slurm 22.05 in eight cases: down or drained nodes, others idle or busy."""
    rows: list[Row] = [(10, 60, 60, 4), (11, 60, 1200, 1)]
    assert run(rows, 4, [(0, 5, 500)], backfill=False) == {
        1: [(540, 600, "finished")],
        2: [(600, 660, "finished")],
    }
    assert run(rows, 4, [(0, 5, 500)])[2] == [(35, 95, "finished")]
    drained = [Window(drain_us=5 * US, begin_us=400 * US, end_us=500 * US, nodes=(0,))]
    rows = [(0, 300, 360, 1), *rows]
    assert run(rows, 4, windows=drained)[3] == [(30, 90, "finished")], "no plan counts on a drained node"


def test_a_node_that_comes_back_is_found_by_the_next_cycle() -> None:
    """Recorded on Slurm 22.05: no pass of the main loop follows `scontrol update state=resume` for itself."""
    assert run([(12, 60, 60, 2)], 2, [(0, 8, 164.4)]) == {1: [(165, 225, "finished")]}
    assert run([(12, 60, 60, 2)], 2, [(0, 8, 164.4)], backfill=False) == {1: [(180, 240, "finished")]}


def test_nodes_that_a_job_leaves_behind_are_free_at_once() -> None:
    rows: list[Row] = [(0, 600, 1200, 2), (10, 60, 60, 1)]
    assert run(rows, 2, [(0, 100, 5000)], backfill=False)[2] == [(100, 160, "finished")]


@pytest.mark.parametrize(
    ("first", "reserved", "down", "other_starts"),
    [(3, "n[003-004]", 0, 21), (4, "n004", 3, 600), (4, "n[002-003]", 0, 600)],
)
def test_who_is_kept_out_by_a_reservation_holds_nobody_up_if_enough_nodes_are_up(
    first: int, reserved: str, down: int, other_starts: int
) -> None:
    """Recorded on Slurm 22.05: the reasons are `ReqNodeNotAvail`, and twice `Nodes required for job are DOWN`."""
    held = {"r": {"start_s": 600, "end_s": 1200, "nodes": reserved}}
    rows: list[Row] = [(20, 60, 1200, first), (21, 60, 120, 1)]
    said = {name: Reservation(**each) for name, each in held.items()}
    runs = run(rows, 4, [(down, 10, 1300)], backfill=False, reservations=said)
    assert runs[2][0][0] == other_starts if other_starts == 21 else runs[2][0][0] >= other_starts


def test_a_requeued_job_has_its_whole_limit_again_however_much_it_saved() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[900 * US], estimate_us=[600 * US], nodes=[1])
    jobs = jobs.with_extra(checkpoint_interval_us=[100 * US], checkpoint_us=[0])
    again = runs_of(jobs, 1, [(0, 250, 300)], [])
    assert again == {1: [(0, 250, "requeued"), (420, 1020, "killed")]}, "200 s are saved, 700 to do"
    shorter = run([(0, 500, 50, 1)], 2, [(0, 35, 40)], sched_interval=-1)
    assert shorter == {1: [(0, 35, "requeued"), (156, 240, "killed")]}, "a limit is whole minutes"


def test_a_drained_node_ends_its_job_first_and_gets_no_other() -> None:
    window = Window(drain_us=50 * US, begin_us=400 * US, end_us=450 * US, nodes=(0, 1))
    rows: list[Row] = [(0, 300, 300, 1), (60, 60, 60, 1)]
    assert run(rows, 2, windows=[window]) == {1: [(0, 300, "finished")], 2: [(450, 510, "finished")]}


def test_with_job_requeue_0_who_loses_a_node_is_lost() -> None:
    rows: list[Row] = [(0, 300, 300, 1), (0, 300, 300, 1)]
    assert run(rows, 2, [(0, 100, 200)], job_requeue=False) == {
        1: [(0, 100, "lost")],
        2: [(0, 300, "finished")],
    }


# -- scenarios ----------------------------------------------------------------------


FAILS = {"model": {"exponential": {"mtbf_s": 3600, "repair_s": 3600}}}


def outcomes(said: Scenario) -> set[str]:
    record = run_virtual(said, prepare(said))
    assert_lawful(record)
    return {how for *_, how in all_runs(record)}


def test_a_scenario_may_have_failures_and_maintenance_under_slurm() -> None:
    noon = [{"begin_s": 43_200, "end_s": 46_800, "nodes": "all", "drain_s": 600}]
    said = a_day(failures=FAILS, maintenance=noon, scheduler="slurm")
    assert outcomes(said) == {"finished", "requeued"}


def test_job_requeue_of_slurm_conf_counts(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("JobRequeue=0\n")
    conf = {"slurm": {"conf": str(tmp_path / "slurm.conf")}}
    assert outcomes(a_day(failures=FAILS, scheduler=conf)) == {"finished", "lost"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scheduler": {"slurm": {"select": {"cores": 4}}}}, "nodes that jobs share do not fail in the twin"),
        ({"scheduler": "slurm", "limits": [{"by": "user", "jobs": 2}]}, "decides over its jobs itself"),
    ],
)
def test_what_cannot_be_run_is_told(keys: dict[str, object], message: str) -> None:
    assert_refused(a_day(failures=FAILS, **keys), message)
