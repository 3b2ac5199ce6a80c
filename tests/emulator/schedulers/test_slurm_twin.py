"""Slurm's twin starts every job when, and where, the plain reference does; each rule once by hand."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from balancer.nodelist import expand
from emulator.cluster.slurm_scheduler import Slurm
from emulator.kernel.job_states import RunOutcome
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.qos import Qos
from emulator.schedulers.slurm.rules import Partition, Rules
from emulator.schedulers.slurm.unsupported_settings import not_followed
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from gates import GATE
from oracle.reference import Job
from oracle.slurm_kit import agrees, agrees_on_shared_nodes, with_rules
from scenario_kit import jobs_in_s
from testdata import RECORDED

if TYPE_CHECKING:
    from pathlib import Path


def test_every_job_starts_when_and_where_the_reference_starts_it() -> None:
    for seed in range(GATE.reference_workloads // 2):
        agrees(seed)


def test_so_does_every_job_that_shares_nodes() -> None:
    for seed in range(GATE.reference_workloads // 2):
        agrees_on_shared_nodes(seed)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [1061, 2255])
def test_a_run_ends_when_those_who_wait_can_never_start(seed: int) -> None:
    """Their reservation is over: priorities worked out anew brought cycles without end."""
    agrees(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1000 + GATE.reference_workloads, 40))
def test_so_it_does_on_many_workloads(first: int) -> None:
    for seed in range(first, first + 40):
        agrees(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1000 + GATE.reference_workloads, 40))
def test_so_do_jobs_that_share_nodes_on_many_workloads(first: int) -> None:
    for seed in range(first, first + 40):
        agrees_on_shared_nodes(seed)


# -- by hand: (submit, run, limit, nodes) in seconds -----------------------------------

Row = tuple[float, float, float, int]


def starts(rows: list[Row], nodes: int, **settings: Any) -> list[float]:
    jobs = jobs_in_s(rows, "submit_us", "run_us", "estimate_us", "nodes")
    record = simulate(jobs, nodes, SchedulerConfig(decide={"slurm": settings}))
    assert_lawful(record)
    return [each / US for each in record.start_us.tolist()]


BLOCKED: list[Row] = [(0, 300, 300, 3), (1, 60, 60, 4), (2, 100, 100, 1)]
"""One job runs, one waits for all nodes, and one would fit in front of it."""


def test_a_job_that_fits_before_the_head_waits_for_the_next_backfill_cycle() -> None:
    assert starts(BLOCKED, 4) == [0, 300, 30]
    assert starts(BLOCKED, 4, bf_interval=60) == [0, 300, 60]
    assert starts(BLOCKED, 4, backfill=False) == [0, 300, 360]
    assert starts(BLOCKED, 4, bf_interval=-1) == [0, 300, 360]


def test_a_cycle_comes_at_once_after_a_pause_and_every_interval_from_there() -> None:
    """Recorded on Slurm 22.05: each of 43 cycles after a pause began within 1.1 s of what had happened."""
    late: list[Row] = [(0, 300, 300, 3), (100, 60, 60, 4), (101, 100, 100, 1)]
    assert starts(late, 4) == [0, 300, 130], "the submit at second 100 brings a cycle, the next is 30 s later"
    assert starts(late, 4, bf_after_quiet=5) == [0, 300, 105]


def test_cycles_follow_one_another_while_a_node_that_is_planned_is_idle() -> None:
    """Read in the plan of Slurm 22.05: each cycle marks it as planned, which is a change for the next."""
    late: list[Row] = [*BLOCKED[:2], (100, 100, 100, 1)]
    assert starts(late, 4) == [0, 300, 120], (
        "cycles are at 30, 60, 90, 120, and that at 30 has planned the head"
    )
    assert starts(late, 4, bf_interval=45) == [0, 300, 135]
    assert starts(late, 4, bf_window=1) == [0, 300, 100], "nothing is planned"


def test_a_cycle_without_a_change_finds_a_plan_that_has_come_within_the_window() -> None:
    """The head is planned from second 60 on. Then the next one, which it overlaps, holds nobody back any more."""
    ends: list[Row] = [(0, 100, 120, 1), (0, 360, 360, 1)]
    rows: list[Row] = [*ends, (1, 10, 60, 4), (2, 10, 300, 3), (3, 180, 180, 2)]
    assert starts(rows, 4, bf_window=5)[4] == 60
    assert starts(rows, 4, bf_window=6)[4] == 30, "it is within the window at once"
    assert starts(rows, 4, bf_window=4)[4] == 120, "the first job ends before it is"


def test_a_pass_that_passes_a_job_over_brings_a_cycle() -> None:
    """Read in the log of Slurm 22.05: cycles come with the pass over all jobs, each minute, while two wait."""
    late: Row = (75, 100, 100, 1)
    assert starts([*BLOCKED[:2], late], 4, bf_window=1) == [0, 300, 75], "one waits, and nothing is planned"
    assert starts([*BLOCKED[:2], BLOCKED[1], late], 4, bf_window=1) == [0, 300, 360, 90]
    assert starts([*BLOCKED[:2], BLOCKED[1], late], 4, bf_window=1, sched_interval=-1) == [0, 300, 360, 75]


def test_a_limit_that_ends_when_a_reservation_begins_is_too_long() -> None:
    """Recorded on Slurm 22.05, as is the next one."""
    assert starts([(0, 300, 300, 3), (1, 60, 60, 4), (2, 100, 240, 1)], 4, bf_interval=60) == [0, 300, 360]
    assert starts([(0, 300, 300, 3), (1, 60, 60, 4), (2, 100, 180, 1)], 4, bf_interval=60) == [0, 300, 60]


def test_a_reservation_begins_with_the_block_in_which_the_job_does() -> None:
    rows: list[Row] = [(20, 300, 300, 3), (21, 60, 60, 4), (22, 100, 240, 1)]
    assert starts(rows, 4, bf_interval=40) == [20, 320, 380], "the job at second 320 is planned from 300"
    assert starts(rows, 4, bf_interval=40, bf_resolution=1) == [20, 320, 60]


def test_six_hours_of_kth_are_met_within_the_goal() -> None:
    """As Slurm 22.05 ran them at 60 times its clock: submitted when it got them, as long as they had their nodes."""
    text = (RECORDED / "slurm" / "starts-kth-light.csv").read_text()
    rows = [[int(each) for each in row] for row in list(csv.reader(text.splitlines()))[1:]]
    number, submit, run, limit, width, start = (np.array(column) for column in zip(*rows, strict=True))
    jobs = JobTable.build(
        number=number, submit_us=submit * US, run_us=run * US, estimate_us=limit * 60 * US, nodes=width
    )
    record = simulate(jobs, 100, SchedulerConfig(decide={"slurm": {"over_time_limit": 1 << 30}}))
    apart_s = np.abs(record.start_us[np.argsort(record.jobs.number)] / US - start[np.argsort(number)])
    mean_s = float((record.start_us - record.jobs.submit_us).mean()) / US
    assert abs(mean_s / float((start - submit).mean()) - 1) < 0.017
    assert (np.median(apart_s), int((apart_s > 30).sum())) == (1.0, 15)


def test_a_limit_is_whole_minutes() -> None:
    late: list[Row] = [(0, 300, 300, 3), (1, 60, 60, 4), (2, 100, 260, 1)]
    assert starts(late, 4) == [0, 300, 360], "260 s are 5 minutes, which from second 30 on are too long"


def test_who_asks_for_more_than_the_window_is_not_reserved_for() -> None:
    behind: list[Row] = [(0, 300, 300, 3), (1, 60, 60, 4), (2, 600, 600, 1)]
    assert starts(behind, 4) == [0, 300, 360]
    assert starts(behind, 4, bf_window=4) == [0, 630, 30], "the head's start is 5 minutes away"


def test_a_job_is_planned_on_what_is_free_when_the_first_of_several_jobs_that_end_at_once_has_ended() -> None:
    """Recorded on Slurm 22.05: the head is planned on the free node, too, though both jobs end before it can start."""
    rows: list[Row] = [(0, 600, 600, 1), (0, 600, 600, 2), (1, 300, 300, 2), (2, 900, 900, 1)]
    assert starts(rows, 4) == [0, 0, 600, 600], "the free node is kept for the head, so the last job waits"


def jobs_of(rows: list[tuple[int, int, int, int]]) -> list[Job]:
    """Rows of submit and run in seconds, nodes and queue."""
    return [
        Job(number, at * US, run_s * US, run_s * US, nodes, queue)
        for number, (at, run_s, nodes, queue) in enumerate(rows, 1)
    ]


def test_the_main_loop_keeps_nodes_for_a_job_of_a_higher_partition_from_the_lower_ones() -> None:
    """Recorded on Slurm 22.05: they start by backfill, where they do not delay it."""
    parts = (Partition("high", priority_tier=2), Partition("low", nodes=(1, 2, 3)))
    rules = Rules(partitions=parts, default_partition="high")
    rows = [(0, 300, 3, 1), (1, 60, 4, 1), (2, 60, 1, 2), (2, 600, 1, 2)]
    record = with_rules(Slurm(queues={1: "high", 2: "low"}), rules, jobs_of(rows), 4)
    assert [each / US for each in record.start_us.tolist()] == [0, 300, 30, 360]


def test_jobs_get_the_nodes_that_the_real_slurm_gave_them() -> None:
    """Jobs of six hours of KTH's log on Slurm 22.05 (select/linear, one NodeName line) at 60 times its clock."""
    text = (RECORDED / "slurm" / "placement-kth-light.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    jobs = JobTable.build(
        number=[int(row["job"]) for row in rows],
        # As long as they had their nodes, from when they got them: what processes cost is no difference of rules.
        submit_us=[int(row["start_s"]) * US for row in rows],
        run_us=[(int(row["end_s"]) - int(row["start_s"])) * US for row in rows],
        estimate_us=[int(row["limit_min"]) * 60 * US for row in rows],
        nodes=[int(row["nodes"]) for row in rows],
    )
    record = simulate(jobs, 100, SchedulerConfig(decide={"slurm": {"over_time_limit": 1 << 30}}))
    runs, names = record.runs, [f"n{number:03}" for number in range(1, 101)]
    parts = np.split(runs.node, runs.first[1:-1])
    found = {
        int(record.jobs.number[job]): {names[at] for at in part}
        for job, part in zip(runs.job, parts, strict=True)
    }
    assert found == {int(row["job"]): set(expand(row["node_list"])) for row in rows}


def test_a_young_job_holds_nobody_up() -> None:
    behind: list[Row] = [(0, 300, 300, 3), (1, 60, 60, 4), (2, 600, 600, 1)]
    assert starts(behind, 4, bf_min_age_reserve=3600) == [0, 602, 2]


def test_only_so_many_jobs_are_tried() -> None:
    row: list[Row] = [(0, 300, 300, 3), (1, 60, 60, 4), (2, 60, 600, 2), (2, 100, 100, 1)]
    assert starts(row, 4)[3] == 30
    assert starts(row, 4, bf_max_job_test=2)[3] == 360
    assert starts(row, 4, bf_max_job_user=2)[3] == 360


def test_a_cycle_tries_and_starts_only_so_many_of_a_partition() -> None:
    row: list[Row] = [(0, 300, 300, 4), (1, 60, 60, 6), (2, 60, 60, 1), (2, 60, 60, 1)]
    assert starts(row, 6)[2:] == [30, 30]
    assert starts(row, 6, bf_max_job_part=2)[2:] == [30, 60]
    assert starts(row, 6, bf_max_job_start=1)[2:] == [30, 60]
    assert starts(row, 6, bf_max_job_user_part=1)[2:] == [360, 360], "the head is all that is tried"


def test_a_cycle_reserves_nodes_for_only_so_many_of_a_partition() -> None:
    row: list[Row] = [(0, 60, 60, 3), (1, 60, 60, 3), (2, 60, 60, 4), (3, 600, 600, 1)]
    assert starts(row, 4) == [0, 60, 120, 180]
    assert starts(row, 4, bf_job_part_count_reserve=1) == [0, 60, 630, 30], "it delays the second that waits"


def test_a_pass_looks_at_and_starts_only_so_many_of_a_partition() -> None:
    row: list[Row] = [(0, 300, 300, 1), (1, 60, 60, 1), (1, 60, 60, 1)]
    assert starts(row, 4) == [0, 1, 1]
    assert starts(row, 4, partition_job_depth=1) == [0, 1, 30]
    assert starts(row, 4, sched_max_job_start=1) == [0, 1, 30]


@pytest.mark.parametrize(("limit", "last_start_s"), [("grp_jobs", 30), ("grp_nodes", 420)])
def test_a_cycle_counts_who_is_at_a_limit_of_nodes_among_those_it_tries_and_not_who_is_at_one_of_jobs(
    limit: str, last_start_s: int
) -> None:
    """Slurm looks at limits of jobs before it tries a job, and at those of nodes after that (its sources)."""
    tight = Qos("tight", **{limit: 1})
    rules = Rules(qos=(tight, Qos("normal")), bf_max_job_test=2)
    users = [1, 2, 1, 2, 2]
    rows = [(0, 300, 1, 1), (0, 300, 3, 1), (1, 60, 1, 1), (1, 60, 5, 1), (2, 60, 1, 1)]
    jobs = [job._replace(user=user) for job, user in zip(jobs_of(rows), users, strict=True)]
    record = with_rules(Slurm(user_qos={1: "tight", 2: "normal"}), rules, jobs, 5)
    assert record.start_us[4] / US == last_start_s


@pytest.mark.parametrize(("depth", "last_start_s"), [(3, 2), (2, 360)])
def test_a_pass_looks_at_one_job_more_than_its_depth_and_those_it_passes_over_count(
    depth: int, last_start_s: int
) -> None:
    """By the sources of all three releases: `job_depth++ > def_job_limit`, before they look at the partition."""
    parts = (Partition("high", nodes=(0, 1, 2, 3), priority_tier=2), Partition("low", nodes=(4,)))
    rules = Rules(
        partitions=parts,
        default_partition="high",
        default_queue_depth=depth,
        sched_interval=-1,
        backfill=False,
    )
    rows = [(0, 300, 3, 1), *[(1, 60, 4, 1)] * 3, (2, 60, 1, 2)]
    record = with_rules(Slurm(queues={1: "high", 2: "low"}), rules, jobs_of(rows), 5)
    assert [each / US for each in record.start_us.tolist()] == [0, 300, 360, 420, last_start_s]


def test_a_job_is_killed_at_the_first_check_after_its_limit() -> None:
    rows: list[Row] = [(1, 500, 50, 1), (2, 10, 60, 1)]
    assert starts(rows, 1) == [1, 90], "1 + 60 s, checked every 30 s"
    assert starts(rows, 1, over_time_limit=1) == [1, 150]
    assert starts(rows, 1, ignores_term=True) == [1, 120], "KillWait is 30 s"


def test_a_killed_run_is_recorded_as_one() -> None:
    jobs = JobTable.build(submit_us=[0], run_us=[100 * US], estimate_us=[30 * US], nodes=[1])
    runs = simulate(jobs, 1, SchedulerConfig.parse("slurm")).runs
    assert (runs.end_us.tolist(), runs.outcome.tolist()) == ([60 * US], [RunOutcome.KILLED])


def test_events_that_come_faster_than_the_least_interval_are_put_off() -> None:
    rows: list[Row] = [(0, 10, 60, 1), (1, 10, 60, 1)]
    assert starts(rows, 4) == [0, 1]
    assert starts(rows, 4, sched_min_interval=5_000_000) == [0, 5]


def test_with_defer_a_submit_waits_for_a_look_at_all_jobs() -> None:
    assert starts([(1, 10, 60, 1)], 4) == [1]
    assert starts([(1, 10, 60, 1)], 4, defer=True, bf_after_quiet=9) == [10], "backfill comes first"
    assert starts([(1, 10, 60, 1)], 4, defer=True, backfill=False) == [60]


# -- slurm.conf ---------------------------------------------------------------------

CONF = """\
# a site's
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=60,bf_continue,defer,bf_window=2880,max_rpc_cnt=9
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityMaxAge=1-0
PriorityDecayHalfLife=14-0
OverTimeLimit=5
PartitionName=work Nodes=ALL Default=YES MaxTime=2-00:00:00 PriorityTier=1
PartitionName=debug Nodes=n[001-002] MaxTime=30 PriorityTier=10 MaxNodes=2
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    return path


def test_a_slurm_conf_says_what_the_twin_does(conf: Path) -> None:
    (own,) = [SchedulerConfig.parse(f"slurm:{conf}").make_machine()]
    assert isinstance(own, Slurm)
    assert own.rules(4) == Rules(
        bf_interval=60,
        bf_continue=True,
        defer=True,
        bf_window=2880,
        priority_type="multifactor",
        priority_weight_age=1000,
        priority_max_age=86_400,
        priority_decay_half_life=14 * 86_400,
        over_time_limit=5,
        enforce_limits=False,
        partitions=(
            Partition("work", None, 1, 1, 2880),
            Partition("debug", (0, 1), 10, 1, 30, 2),
        ),
        default_partition="work",
    )


def test_what_a_scenario_says_stands_above_the_file(conf: Path) -> None:
    assert Slurm(conf=conf, bf_interval=15).rules(4).bf_interval == 15


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bf_interval": 0}, "slurm: bf_interval must be at least 1, not 0"),
        ({"priority_type": "fifo"}, "priority_type is basic or multifactor, not 'fifo'"),
        ({"queues": {1: "debug"}}, "queue 1 goes to partition 'debug'; there are: batch"),
        ({"shares": {1: 0}}, "slurm: shares of 1 must be more than 0, not 0"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        starts([(0, 1, 1, 1)], 1, **settings)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            (0, 10, 31 * 60, 1),
            r"partition debug takes limits up to 30 minutes.* job 1 \(1 node, 31 minutes\)",
        ),
        ((0, 10, 60, 3), "partition debug takes no more than 2 nodes"),
    ],
)
def test_a_job_that_its_partition_would_never_start_is_refused(conf: Path, row: Row, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        starts([row], 4, conf=conf, queues={-1: "debug"})


def test_lines_that_the_twin_does_not_follow_are_named(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(
        "SelectType=select/cons_tres\nPreemptParameters=youngest_first\nPriorityWeightTRES=CPU=1000\n"
        "SchedulerParameters=bf_continue,bf_hetjob_prio=min,bf_yield_sleep=5,assoc_limit_stop,max_rpc_cnt=9\n"
    )
    assert not_followed(path) == (
        "slurm.conf: SelectType=select/cons_tres: jobs have whole nodes in the twin unless `select` is set",
        "slurm.conf: PreemptParameters=youngest_first: the twin preempts by tiers and QOS in the default order",
        "slurm.conf: PriorityWeightTRES=CPU=1000: the twin has no weights of TRES",
        "slurm.conf: bf_hetjob_prio: the twin does not do that",
        "slurm.conf: assoc_limit_stop: a job at a limit holds nobody up in the twin",
    )
    path.write_text("SelectType=select/linear\nPreemptType=preempt/none\nPriorityWeightAssoc=0\n")
    assert not_followed(path) == ()


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text("PriorityMaxAge=soon\n")
    with pytest.raises(ValueError, match=r"slurm.conf:1: PriorityMaxAge=soon: 'soon' is no time"):
        Slurm(conf=path).rules(4)
