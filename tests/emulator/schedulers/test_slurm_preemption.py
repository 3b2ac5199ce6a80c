"""Slurm's twin where jobs take the nodes of others: equal to the reference run by run, each rule once by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from emulator.cluster.slurm_cluster import slurm_cluster
from emulator.cluster.slurm_scheduler import Slurm, slurm_in
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from gates import GATE
from oracle.slurm_kit import agrees_on_preemption, runs_in_s
from scenario_kit import jobs_in_s

if TYPE_CHECKING:
    from pathlib import Path


def test_every_run_begins_and_ends_when_where_and_how_the_reference_says() -> None:
    for seed in range(GATE.reference_workloads):
        agrees_on_preemption(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1040, 1040 + GATE.reference_workloads, 40))
def test_so_they_do_on_many_workloads(first: int) -> None:
    for seed in range(first, first + 40):
        agrees_on_preemption(seed)


# -- by hand: (partition, submit, run, limit, nodes) in seconds ------------

LOW, MIDDLE, HIGH = 1, 2, 3
Row = tuple[int, float, float, float, int]
CONF = """\
PreemptType=preempt/partition_prio
PreemptMode={mode}
PartitionName=low Nodes=ALL PriorityTier=10 Default=YES {low}
PartitionName=middle Nodes=ALL PriorityTier=20
PartitionName=high Nodes={high} PriorityTier=30
"""
QUEUES = {LOW: "low", MIDDLE: "middle", HIGH: "high"}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "slurm.conf"


def run(
    conf: Path,
    rows: list[Row],
    mode: str = "REQUEUE",
    low: str = "",
    *,
    high: str = "ALL",
    nodes: int = 4,
    **settings: Any,
) -> dict[int, list[tuple[float, float, str, list[int]]]]:
    """Of each job, by number: start, end, outcome and nodes of its runs on four nodes, or so many."""
    conf.write_text(CONF.format(mode=mode, low=low, high=high), "utf-8")
    return runs_of(rows, "queue", nodes, Slurm(conf=conf, queues=QUEUES, **settings))


def runs_of(
    rows: list[Row], whose: str, nodes: int, slurm: Slurm
) -> dict[int, list[tuple[float, float, str, list[int]]]]:
    """`whose`: the column of the jobs that the first number of each row is."""
    jobs = jobs_in_s(rows, whose, "submit_us", "run_us", "estimate_us", "nodes")
    loop = Loop(slurm_cluster(nodes, jobs, slurm))
    loop.run()
    record = loop.record()
    assert_lawful(record)
    return runs_in_s(record)


FULL: list[Row] = [(LOW, 0, 600, 600, 2), (LOW, 1, 600, 600, 2)]
"""Two jobs that fill the machine."""


def test_a_job_of_a_higher_tier_takes_the_nodes_of_the_last_that_it_needs(conf: Path) -> None:
    """Recorded: the nodes are free in the next second; who left them waits again as one that lost a node does."""
    assert run(conf, [*FULL, (HIGH, 60, 100, 120, 1)]) == {
        1: [(0, 60, "requeued", [0, 1]), (240, 840, "finished", [0, 1])],
        2: [(1, 601, "finished", [2, 3])],
        3: [(61, 161, "finished", [0])],
    }


def test_who_may_not_wait_again_is_lost(conf: Path) -> None:
    high = (HIGH, 60, 100, 120, 1)
    lost = [(0, 60, "lost", [0, 1])]
    assert run(conf, [*FULL, high], mode="CANCEL")[1] == lost
    assert run(conf, [*FULL, high], low="PreemptMode=CANCEL")[1] == lost
    assert run(conf, [*FULL, high], job_requeue=False)[1] == lost


def test_the_mode_of_a_partition_comes_before_that_of_all(conf: Path) -> None:
    high = (HIGH, 60, 100, 120, 1)
    assert run(conf, [*FULL, high], low="PreemptMode=OFF")[3] == [(600, 700, "finished", [0])]
    assert run(conf, [*FULL, high], mode="OFF", low="PreemptMode=REQUEUE")[3] == [(600, 700, "finished", [0])]
    assert run(conf, [*FULL, high], preempt_type="none")[3] == [(600, 700, "finished", [0])]
    as_yaml_reads_off = slurm_in(SchedulerConfig(decide={"slurm": {"preempt_mode": False}}))
    assert as_yaml_reads_off == Slurm(preempt_mode="off")


def test_idle_nodes_come_first_and_equal_tiers_leave_each_other_alone(conf: Path) -> None:
    idle: list[Row] = [(LOW, 0, 600, 600, 2), (HIGH, 60, 100, 120, 2)]
    assert run(conf, idle)[1] == [(0, 600, "finished", [0, 1])]
    equal: list[Row] = [(HIGH, 0, 600, 600, 4), (HIGH, 60, 100, 120, 1)]
    assert run(conf, equal)[2] == [(600, 700, "finished", [0])]


def test_the_lowest_tier_and_the_smallest_job_leave_first(conf: Path) -> None:
    tiers: list[Row] = [(MIDDLE, 0, 600, 600, 1), (LOW, 1, 600, 600, 3), (HIGH, 60, 100, 120, 1)]
    assert [len(runs) for runs in run(conf, tiers).values()] == [1, 2, 1]
    sizes: list[Row] = [(LOW, 0, 600, 600, 3), (LOW, 1, 600, 600, 1), (HIGH, 60, 100, 120, 1)]
    assert [len(runs) for runs in run(conf, sizes).values()] == [1, 2, 1]


def test_who_is_not_needed_in_the_end_stays(conf: Path) -> None:
    """Two small jobs are enough for two nodes; for three the large one has to leave, and with it only one of these."""
    small: list[Row] = [(LOW, 0, 600, 600, 1), (LOW, 1, 600, 600, 1), (LOW, 2, 600, 600, 2)]
    assert [len(runs) for runs in run(conf, [*small, (HIGH, 60, 9, 60, 2)]).values()] == [2, 2, 1, 1]
    assert [len(runs) for runs in run(conf, [*small, (HIGH, 60, 9, 60, 3)]).values()] == [2, 1, 2, 1]


def test_after_the_last_one_who_has_the_most_nodes_of_use_leaves_first(conf: Path) -> None:
    """One, two and two nodes for four: the last two and the two before, and not the one."""
    rows: list[Row] = [
        (LOW, 0, 600, 600, 1),
        (LOW, 1, 600, 600, 2),
        (MIDDLE, 2, 600, 600, 2),
        (HIGH, 60, 9, 60, 4),
    ]
    assert [len(runs) for runs in run(conf, rows, nodes=5).values()] == [1, 2, 2, 1]


def test_nodes_beyond_its_partition_are_of_no_use(conf: Path) -> None:
    rows: list[Row] = [*FULL, (HIGH, 60, 100, 120, 1)]
    assert run(conf, rows, high="n[003-004]")[1] == [(0, 600, "finished", [0, 1])]
    assert run(conf, rows, high="n[003-004]")[3] == [(61, 161, "finished", [2])]


def test_a_cycle_makes_others_leave_and_the_main_loop_starts_the_job(conf: Path) -> None:
    """With a depth of one the main loop does not come to the second job of the high partition."""
    rows: list[Row] = [*FULL, (HIGH, 20, 100, 120, 4), (HIGH, 21, 100, 120, 1)]
    found = run(conf, rows, default_queue_depth=1)
    assert [each[0] for each in found[3]] == [21]
    assert [each[2] for number in (1, 2) for each in found[number]] == ["requeued", "finished"] * 2


# -- a grace ------------

ONE: list[Row] = [(LOW, 0, 600, 600, 4), (HIGH, 60, 100, 120, 4)]


def spans(found: dict[int, list[tuple[float, float, str, list[int]]]]) -> dict[int, list[tuple[Any, ...]]]:
    """Start, end and outcome of each run."""
    return {number: [each[:3] for each in runs] for number, runs in found.items()}


def test_a_job_goes_on_for_its_grace_and_leaves_when_limits_are_looked_at(conf: Path) -> None:
    """Recorded on all releases: its nodes are another's then, and it waits again."""
    assert spans(run(conf, ONE, low="GraceTime=100", release="26.05")) == {
        1: [(0, 180, "requeued"), (360, 960, "finished")],
        2: [(180, 280, "finished")],
    }
    assert spans(run(conf, ONE, low="GraceTime=100", mode="CANCEL")) == {
        1: [(0, 180, "lost")],
        2: [(180, 280, "finished")],
    }


def test_who_has_no_grace_leaves_at_once_beside_one_that_has(conf: Path) -> None:
    both: list[Row] = [(LOW, 0, 600, 600, 2), (MIDDLE, 1, 600, 600, 2), (HIGH, 60, 100, 120, 4)]
    assert [runs[0] for runs in spans(run(conf, both, low="GraceTime=30")).values()] == [
        (0, 90, "requeued"),
        (1, 60, "requeued"),
        (90, 190, "finished"),
    ]


def test_a_job_that_ends_in_its_grace_is_over_on_22_05_and_runs_again_since_24_11(conf: Path) -> None:
    """Recorded on all three."""
    ends: list[Row] = [(LOW, 0, 130, 600, 4), (HIGH, 60, 100, 120, 4)]
    for release, outcome in (("22.05", "finished"), ("24.11", "requeued"), ("26.05", "requeued")):
        found = spans(run(conf, ends, low="GraceTime=100", release=release))
        assert found[1][0] == (0, 130, outcome)
        assert found[2] == [(130, 230, "finished")]
        assert [each[2] for each in found[1][1:]] == (["finished"] if outcome == "requeued" else [])
        cancelled = spans(run(conf, ends, low="GraceTime=100", mode="CANCEL", release=release))
        assert cancelled[1] == [(0, 130, "finished")]


def test_on_24_11_who_had_to_leave_after_its_grace_runs_once_more_than_it_has_to(conf: Path) -> None:
    """Recorded: 24.11.5 does not forget that it sent a signal; 26.05.5 does."""
    for release, runs in (("22.05", 2), ("24.11", 3), ("26.05", 2)):
        found = spans(run(conf, ONE, low="GraceTime=100", release=release))
        assert [each[2] for each in found[1]] == ["requeued"] * (runs - 1) + ["finished"], release


def test_a_grace_does_not_outlive_the_limit_and_who_reaches_it_waits_again(conf: Path) -> None:
    """Without a grace it would be killed a minute later."""
    short: list[Row] = [(LOW, 0, 600, 120, 4), (HIGH, 60, 100, 120, 4)]
    assert spans(run(conf, short, low="GraceTime=900", over_time_limit=1)) == {
        1: [(0, 120, "requeued"), (300, 480, "killed")],
        2: [(120, 220, "finished")],
    }


def test_a_second_job_ends_a_grace_only_if_it_is_over(conf: Path) -> None:
    """The grace ends at 130 and is looked at 150; who comes at 135 does not wait for that."""
    for second, left in ((110, 150), (135, 135)):
        rows: list[Row] = [(LOW, 0, 600, 600, 4), (HIGH, 60, 9, 60, 2), (HIGH, second, 9, 60, 2)]
        found = spans(run(conf, rows, low="GraceTime=70", release="22.05"))
        assert found[1][0] == (0, left, "requeued")
        assert {found[number][0][0] for number in (2, 3)} == {150 if second == 110 else 136}


def test_who_is_past_its_limit_already_leaves_at_the_next_look(conf: Path) -> None:
    late: list[Row] = [(LOW, 0, 600, 60, 4), (HIGH, 90, 100, 120, 4)]
    assert spans(run(conf, late, low="GraceTime=900", over_time_limit=2))[1][0] == (0, 120, "requeued")


def test_a_look_at_all_jobs_ends_a_grace_that_is_over_though_nothing_happens(conf: Path) -> None:
    looks = {"low": "GraceTime=35", "sched_interval": 10}
    assert spans(run(conf, ONE, **looks))[1][0] == (0, 100, "requeued"), (
        "KillWait and MessageTimeout after 60"
    )
    assert spans(run(conf, ONE, **looks, message_timeout=50))[1][0] == (0, 120, "requeued"), (
        "a look at limits"
    )


# -- an exemption ------------


def test_a_job_that_has_not_run_for_long_enough_keeps_its_nodes(conf: Path) -> None:
    """Recorded: that its time has come is no event, so the next look at all jobs finds it, or the next cycle."""
    assert spans(run(conf, ONE, preempt_exempt_time=120)) == {
        1: [(0, 120, "requeued"), (300, 900, "finished")],
        2: [(121, 221, "finished")],
    }
    assert spans(run(conf, ONE, preempt_exempt_time=121, release="22.05"))[2] == [(181, 281, "finished")]
    assert spans(run(conf, ONE, preempt_exempt_time=121))[2] == [(151, 251, "finished")], "cycles go on"
    assert spans(run(conf, ONE, preempt_exempt_time=60))[2] == [(61, 161, "finished")]


def test_the_exemption_of_a_qos_comes_before_that_of_all(conf: Path) -> None:
    def starts(partition_qos: str, **columns: dict[str, str]) -> float:
        low = f"QOS={partition_qos}" if partition_qos else ""
        qos = {"part": {}} | columns
        return run(conf, ONE, low=low, qos=qos, preempt_exempt_time=90, release="22.05")[2][0][0]

    assert starts("") == 121
    assert starts("", normal={"PreemptExemptTime": "00:02:30"}) == 181
    assert starts("", normal={"PreemptExemptTime": "-1"}) == 121
    assert starts("", normal={"PreemptExemptTime": "00:00:00"}) == 61
    of_both = {"normal": {"PreemptExemptTime": "00:02:30"}, "part": {"PreemptExemptTime": "0"}}
    assert starts("part", **of_both) == 61, "a partition's QOS comes first"
    assert starts("part", normal={"PreemptExemptTime": "00:02:30"}) == 181


# -- by QOS ------------

QOS = {"low": {}, "high": {"Preempt": "low"}, "normal": {"Priority": 10}}
BY_USER = {1: "low", 2: "normal", 3: "high"}


def run_by_qos(rows: list[Row], **settings: Any) -> dict[int, list[tuple[float, float, str]]]:
    """Of each job, by number: start, end and outcome of its runs on four nodes; LOW, MIDDLE and HIGH are QOS."""
    said = {"qos": QOS, "user_qos": BY_USER, "preempt_type": "qos", "preempt_mode": "requeue"}
    found = runs_of(rows, "user", 4, Slurm(**said | settings))
    return {number: [each[:3] for each in runs] for number, runs in found.items()}


def test_a_qos_takes_the_nodes_of_those_that_it_names_alone() -> None:
    low: list[Row] = [(LOW, 0, 600, 600, 4), (HIGH, 60, 100, 120, 1)]
    assert run_by_qos(low) == {1: [(0, 60, "requeued"), (240, 840, "finished")], 2: [(61, 161, "finished")]}
    assert run_by_qos(low, preempt_type="none")[2] == [(600, 700, "finished")]
    normal: list[Row] = [(MIDDLE, 0, 600, 600, 4), (HIGH, 60, 100, 120, 1)]
    assert run_by_qos(normal)[2] == [(600, 700, "finished")]


def test_the_mode_of_a_qos_comes_before_that_of_all() -> None:
    rows: list[Row] = [(LOW, 0, 600, 600, 4), (HIGH, 60, 100, 120, 1)]
    assert run_by_qos(rows, qos=QOS | {"low": {"PreemptMode": "cancel"}})[1] == [(0, 60, "lost")]
    for off in ("off", False):  # as YAML reads it
        assert run_by_qos(rows, qos=QOS | {"low": {"PreemptMode": off}})[2] == [(600, 700, "finished")]
    assert run_by_qos(rows, qos=QOS | {"low": {"PreemptMode": "cluster"}})[1][0] == (0, 60, "requeued")


def test_the_grace_is_that_of_the_qos() -> None:
    rows: list[Row] = [(LOW, 0, 600, 600, 4), (HIGH, 60, 100, 120, 1)]
    for grace in (100, "00:01:40"):  # a scenario's, sacctmgr's
        assert run_by_qos(rows, qos=QOS | {"low": {"GraceTime": grace}})[1][0] == (0, 180, "requeued")
    assert run_by_qos(rows, qos=QOS | {"high": {"Preempt": "low", "GraceTime": 100}})[1][0][1] == 60


def test_who_preempts_another_stands_before_it_in_the_queue() -> None:
    waiting: list[Row] = [(MIDDLE, 0, 600, 600, 4), (LOW, 10, 60, 60, 4), (HIGH, 20, 60, 60, 4)]
    found = run_by_qos(waiting)
    assert [found[number][0][0] for number in (3, 2)] == [600, 660]


def test_of_those_who_may_leave_the_lowest_priority_of_qos_comes_first() -> None:
    both: list[Row] = [(LOW, 0, 600, 600, 2), (MIDDLE, 1, 600, 600, 1), (HIGH, 60, 100, 120, 2)]
    high = QOS | {"high": {"Preempt": "low,normal"}}
    assert [len(runs) for runs in run_by_qos(both, qos=high).values()] == [2, 1, 1], (
        "low's two nodes, not normal's one"
    )


def test_qos_that_preempt_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="slurm: qos: high and low preempt each other"):
        run_by_qos([(LOW, 0, 60, 60, 1)], qos=QOS | {"low": {"Preempt": "high"}})


# -- what does not go with it ------------


def test_nodes_that_fail_do_not_go_with_it(conf: Path) -> None:
    conf.write_text(CONF.format(mode="REQUEUE", low="", high="ALL"), "utf-8")
    jobs = JobTable.build(submit_us=[0], run_us=[US], estimate_us=[US], nodes=[1])
    with pytest.raises(ValueError, match="nodes do not fail in the twin where jobs preempt"):
        slurm_cluster(4, jobs, Slurm(conf=conf)).rules.expect_outages()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"preempt_type": "job"}, "preempt_type is none or partition_prio or qos, not 'job'"),
        ({"preempt_mode": "suspend"}, "preempt_mode is off or requeue or cancel, not 'suspend'"),
    ],
)
def test_another_kind_of_it_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Slurm(**settings)


def test_off_is_the_word_though_yaml_reads_a_truth_value() -> None:
    machine = SchedulerConfig(decide={"slurm": {"preempt_mode": False}}).make_machine()
    assert isinstance(machine, Slurm)
    assert machine.preempt_mode == "off"
    with pytest.raises(ValueError, match="preempt_mode is off or requeue or cancel, not True"):
        SchedulerConfig(decide={"slurm": {"preempt_mode": True}}).make_machine()


def test_a_file_that_preempts_by_qos_wants_a_table_of_them(conf: Path) -> None:
    conf.write_text("PreemptType=preempt/qos\nPreemptMode=REQUEUE\n")
    jobs = JobTable.build(submit_us=[0], run_us=[US], estimate_us=[US], nodes=[1])
    assert Slurm(conf=conf).not_followed(jobs, 4) == (
        "slurm.conf: PreemptType=preempt/qos: no table says which QOS preempt others (qos)",
    )
    assert Slurm(conf=conf, qos=QOS).not_followed(jobs, 4) == ()
    assert not Slurm(conf=conf).rules(4).preempts


def test_a_kind_of_preemption_that_nobody_knows_is_named(conf: Path) -> None:
    conf.write_text("PreemptType=preempt/job_prio\nPreemptMode=REQUEUE\n")
    jobs = JobTable.build(submit_us=[0], run_us=[US], estimate_us=[US], nodes=[1])
    assert [
        each.partition(": ")[2].partition(": ")[0] for each in Slurm(conf=conf).not_followed(jobs, 4)
    ] == ["PreemptType=preempt/job_prio"]


def test_what_a_file_says_beyond_it_is_named(conf: Path) -> None:
    conf.write_text(
        "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n"
        "PartitionName=low Nodes=ALL GraceTime=60 PreemptMode=SUSPEND\nPartitionName=high Nodes=ALL PreemptMode=OFF\n"
    )
    jobs = JobTable.build(submit_us=[0], run_us=[US], estimate_us=[US], nodes=[1])
    assert Slurm(conf=conf).not_followed(jobs, 4) == (
        "slurm.conf: PreemptMode=SUSPEND,GANG: the twin suspends no jobs: they keep their nodes",
        "slurm.conf: partition low: PreemptMode=SUSPEND: the twin suspends no jobs: they keep their nodes",
    )
    assert not Slurm(conf=conf).rules(4).preempts
