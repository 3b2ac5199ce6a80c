"""QOS in Slurm's twin: the table, what it refuses, and jobs that wait for a limit, as the real Slurm had them wait."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.slurm_scheduler import Slurm
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.qos import LeftOut, Qos, read_qos
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from scenario_kit import jobs_in_s
from testdata import RECORDED

if TYPE_CHECKING:
    from pathlib import Path

Row = tuple[int, int, int, int, int]
"""submit, run, limit in seconds; nodes; user."""


def starts(rows: list[Row], nodes: int, **settings: Any) -> list[float]:
    jobs = jobs_in_s(rows, "submit_us", "run_us", "estimate_us", "nodes", "user")
    record = simulate(jobs, nodes, SchedulerConfig(decide={"slurm": settings}))
    assert_lawful(record)
    return [each / US for each in record.start_us.tolist()]


# -- limits ---------------------------------------------------------------------------

AT_LIMIT: list[Row] = [(0, 300, 300, 2, 1), (1, 60, 60, 2, 1), (2, 500, 600, 4, 2)]
"""The second job of user 1 fits beside the first, if its QOS lets it."""


@pytest.mark.parametrize(
    ("limit", "waits"),
    [
        ({}, False),
        ({"GrpJobs": 1}, True),
        ({"GrpTRES": "node=3"}, True),
        ({"GrpTRES": "node=4"}, False),
        ({"MaxJobsPU": 1}, True),
        ({"MaxTRESPU": "node=3"}, True),
        ({"MaxTRESPerUser": "cpu=7"}, True),
        ({"MaxTRESPerUser": "cpu=8"}, False),
    ],
)
def test_a_job_waits_until_its_qos_lets_it_run_and_nobody_waits_for_it(
    limit: dict[str, Any], waits: bool
) -> None:
    found = starts(AT_LIMIT, 8, qos={"few": limit}, user_qos={1: "few"}, cpus_per_node=2)
    assert found == [0, 300 if waits else 1, 2]


def test_limits_of_a_user_leave_the_others_of_the_qos_alone() -> None:
    rows: list[Row] = [(0, 300, 300, 1, 1), (1, 60, 60, 1, 1), (2, 60, 60, 1, 2)]
    both = {1: "few", 2: "few"}
    assert starts(rows, 8, qos={"few": {"MaxJobsPU": 1}}, user_qos=both) == [0, 300, 2]
    assert starts(rows, 8, qos={"few": {"GrpJobs": 1}}, user_qos=both) == [0, 300, 360]


def test_backfill_plans_nothing_for_a_job_that_is_over_a_limit() -> None:
    """Recorded on Slurm 22.05: else the long job would have to wait for the second one, which wants all nodes."""
    rows: list[Row] = [(0, 300, 300, 2, 1), (1, 60, 60, 8, 1), (2, 5000, 6000, 4, 2)]
    assert starts(rows, 8, qos={"few": {"GrpJobs": 1}}, user_qos={1: "few"}) == [0, 5002, 2]
    assert starts(rows, 8) == [0, 300, 360]


def test_jobs_wait_for_qos_as_they_did_on_the_real_slurm() -> None:
    """Slurm 22.05 with slurmdbd: limits of four kinds, wide and narrow jobs, and a QOS with a priority."""
    text = (RECORDED / "slurm" / "starts-qos.csv").read_text()
    rows = [[int(each) for each in row] for row in list(csv.reader(text.splitlines()))[1:]]
    table = {
        "one": {"GrpJobs": 1},
        "four": {"GrpTRES": "node=4"},
        "pu4": {"MaxTRESPU": "node=4"},
        "pj1": {"MaxJobsPU": 1},
        "high": {"Priority": 100},
    }
    found = starts(
        [(submit, run, limit * 60, nodes, user) for _, submit, run, limit, nodes, user, _ in rows],
        8,
        qos=table,
        user_qos={1: "one", 2: "four", 3: "pu4", 4: "pj1", 5: "high"},
        priority_type="multifactor",
        priority_weight_qos=10_000,
        over_time_limit=1 << 30,
    )
    assert np.abs(np.array(found) - [row[-1] for row in rows]).max() <= 30


# -- whose QOS ------------------------------------------------------------------------


def test_the_qos_of_a_partition_comes_first(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("AccountingStorageEnforce=limits\nPartitionName=all Nodes=ALL Default=YES QOS=part\n")
    own = {"few": {"GrpJobs": 1}}
    assert starts(AT_LIMIT, 8, conf=conf, qos={**own, "part": {}}, user_qos={1: "few"})[1] == 300
    assert starts(AT_LIMIT, 8, conf=conf, qos={**own, "part": {"GrpJobs": 2}}, user_qos={1: "few"})[1] == 1
    assert starts(AT_LIMIT, 8, conf=conf, qos={"part": {"GrpJobs": 1}}) == [0, 300, 360]


def test_limits_count_if_the_slurm_conf_enforces_them(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    said = {"conf": conf, "qos": {"few": {"GrpJobs": 1}}, "user_qos": {1: "few"}}
    for words, second in (("associations,qos", 1), ("limits", 300), ("safe,qos", 300), ("all", 300)):
        conf.write_text(f"AccountingStorageEnforce={words}\nPartitionName=all Nodes=ALL Default=YES\n")
        assert starts(AT_LIMIT, 8, **said)[1] == second, words
    conf.write_text("PartitionName=all Nodes=ALL Default=YES\n")
    assert starts(AT_LIMIT, 8, **said)[1] == 1
    assert starts(AT_LIMIT, 8, **said, enforce_limits=True)[1] == 300


def test_a_queue_of_the_log_may_be_a_qos() -> None:
    jobs = JobTable.build(
        submit_us=[0, US], run_us=[60 * US] * 2, estimate_us=[60 * US] * 2, nodes=[1, 1], queue=[3, 3]
    )
    said = {"qos": {"few": {"GrpJobs": 1}, "high": {}}, "queue_qos": {3: "few"}, "user_qos": {-1: "high"}}
    assert simulate(jobs, 4, SchedulerConfig(decide={"slurm": said})).start_us.tolist() == [0, 60 * US]


# -- the table ------------------------------------------------------------------------

PRINTED = """\
Name|Priority|GraceTime|Preempt|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|GrpJobs|MaxTRES|MaxWall|MaxTRESPU|MaxJobsPU|MinTRES
normal|0|00:00:00||cluster|||1.000000||||||||
debug|100|00:00:00||cluster|DenyOnLimit||1.000000|cpu=16,node=6||node=2|00:30:00|node=4|2|
"""


def test_what_sacctmgr_prints_is_the_table(tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    path.write_text(PRINTED)
    debug = Qos("debug", priority=100, grp_nodes=4, user_nodes=4, user_jobs=2, max_nodes=2, max_wall=30)
    assert read_qos(path, 4) == (debug, Qos("normal"))
    said = {"debug": {"Priority": 100, "GrpTRES": "node=4", "MaxTRESPU": "node=4", "MaxJobsPU": 2}}
    said["debug"] |= {"MaxTRES": "node=2", "MaxWall": "00:30:00"}
    assert read_qos(said, None) == (debug, Qos("normal"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"GrpTRESMins": "cpu=100"}, r"qos q: GrpTRESMins=cpu=100: the twin does not know this"),
        ({"Preempt": "few"}, "qos q: Preempt=few: no such QOS; there are: normal, q"),
        ({"PreemptMode": "suspend"}, "qos q: PreemptMode=suspend: the twin suspends no jobs"),
        (
            {"PreemptMode": "requeue,within"},
            "PreemptMode=requeue,within: jobs of one QOS do not preempt each other",
        ),
        ({"PreemptExemptTime": "soon"}, "qos q: PreemptExemptTime=soon: 'soon' is no time"),
        ({"GraceTime": "soon"}, "qos q: GraceTime=soon: 'soon' is no time"),
        ({"Flags": "NoReserve"}, "qos q: Flags=NoReserve: the twin does not know this"),
        ({"UsageFactor": -2}, "qos q: UsageFactor=-2: expected a number that is not negative"),
        ({"LimitFactor": 2}, "qos q: LimitFactor=2: the twin does not know this"),
        ({"MaxTRESPU": "cpu=4"}, "qos q: MaxTRESPU=cpu=4: set cpus_per_node"),
        (
            {"MaxTRESPU": "gres/gpu=4"},
            "qos q: MaxTRESPU=gres/gpu=4: the twin knows node and cpu; leave gres/gpu",
        ),
        ({"MaxTRESPU": "4"}, "qos q: MaxTRESPU=4: expected TRES=NUMBER, such as node=4"),
        ({"MaxJobsPU": "few"}, "qos q: MaxJobsPU=few: expected a number"),
        ({"MaxWall": "soon"}, "qos q: MaxWall=soon: 'soon' is no time"),
    ],
)
def test_what_the_twin_does_not_know_is_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Slurm(qos={"q": columns}).rules(4)


def test_a_file_that_is_no_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    path.write_text("Name|Priority\nnormal\n")
    with pytest.raises(ValueError, match=r"qos.txt:2: 1 columns, the heading has 2"):
        read_qos(path, None)
    path.write_text("Priority\n")
    with pytest.raises(ValueError, match=r"qos.txt:1: no heading"):
        read_qos(path, None)
    with pytest.raises(ValueError, match=r"gone.txt cannot be read"):
        read_qos(tmp_path / "gone.txt", None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"user_qos": {1: "few"}}, "there is no table of them: set qos"),
        ({"qos": {}, "user_qos": {1: "few"}}, "user_qos 1 has QOS 'few'; there are: normal"),
        ({"qos": {}, "queue_qos": {2: "few"}}, "queue_qos 2 has QOS 'few'; there are: normal"),
        ({"qos": {}, "cpus_per_node": 0}, "cpus_per_node must be at least 1, not 0"),
    ],
)
def test_names_that_are_not_there_are_told(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Slurm(**settings).rules(4)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"MaxTRES": "node=1"},
            r"QOS few takes no more than 1 nodes, and 2 of its jobs .* job 1 \(2 nodes, 5 min",
        ),
        ({"GrpTRES": "node=1"}, "QOS few takes no more than 1 nodes"),
        ({"MaxTRESPU": "node=1"}, "QOS few takes no more than 1 nodes"),
        ({"MinTRES": "node=3"}, "QOS few takes no fewer than 3 nodes"),
        ({"MaxWall": "4"}, "QOS few takes limits up to 4 minutes, and 1 of its jobs"),
        ({"GrpJobs": 0}, "QOS few takes no more than 0 nodes"),
    ],
)
def test_a_job_that_its_qos_would_never_start_is_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        starts(AT_LIMIT, 8, qos={"few": columns}, user_qos={1: "few"})


RECORDED_QOS = (
    Qos("a_name_of_more_than_ten_letters", priority=100, grp_jobs=5, max_nodes=2, min_nodes=1),
    Qos("long", 10, grp_nodes=12, user_jobs=4, user_nodes=2, max_wall=7 * 1440, preempt=("scavenger",)),
    Qos("normal"),
    Qos("scavenger", grace_time=120, usage_factor=0.0),
)
"""What Slurm 24.11 was told; `cpu=384,node=12` and `cpu=64,node=2` are as many nodes of 32 CPUs."""


@pytest.mark.parametrize("form", ["parsable", "parsable2", "wide", "json", "yaml"])
def test_each_form_of_sacctmgr_says_the_same_qos(form: str) -> None:
    path = RECORDED / f"slurm/24.11/sacctmgr-qos-{form}.txt"
    *others, scavenger = RECORDED_QOS
    if form == "wide":  # it was asked for a few columns
        scavenger = Qos("scavenger", usage_factor=0.0)
    assert read_qos(path, 32, left_out=[]) == (*others, scavenger)


def test_an_exemption_is_in_seconds_in_json_and_in_minutes_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    time = {"set": True, "infinite": False, "number": 90}
    path.write_text(json.dumps({"qos": [{"name": "normal", "preempt": {"exempt_time": time}}]}))
    normal = Qos("normal", preempt_exempt_time=90)
    assert read_qos(path, None) == (normal,)
    path.write_text("Name|PreemptExemptTime\nnormal|00:01:30\n")
    assert read_qos(path, None) == (normal,)
    assert read_qos({"normal": {"PreemptExemptTime": 2}}, None)[0].preempt_exempt_time == 120


@pytest.mark.parametrize("form", ["parsable2", "json"])
def test_what_a_table_of_a_site_says_and_the_twin_does_not_do_is_named(form: str, tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    path.write_bytes((RECORDED / f"slurm/24.11/sacctmgr-qos-{form}.txt").read_bytes())
    slurm = Slurm(qos=path, user_qos={1: "long"})
    assert slurm.rules(4).qos[1].max_wall == 7 * 1440
    told = slurm.not_followed(JobTable.empty(), 4)
    named = "a_name_of_more_than_ten_letters"
    for each in (
        "qos long: GrpTRES=cpu=384,node=12: cpu is no limit in the twin, unless cpus_per_node is set",
        "qos long: MaxSubmitPU=20: Slurm would take no more jobs at once",
        f"qos {named}: MaxTRESPA=node=6: Slurm would have more jobs of an account wait",
        f"qos {named}: MaxJobsPA=3: Slurm would have more jobs of an account wait",
        "qos scavenger: MaxTRESMins=cpu=10000: Slurm would refuse jobs that may use more",
    ):
        assert f"qos.txt: {each}" in told
    for column in ("GrpSubmit=50", "GrpWall=", "Flags=OVER"):
        assert sum(column.lower() in each.lower() for each in told) == 1, column
    assert len(told) == 9


def test_a_value_that_was_cut_at_its_width_is_refused() -> None:
    cut = RECORDED / "slurm/24.11/sacctmgr-qos-fixed.txt"
    with pytest.raises(
        ValueError, match=r"fixed.txt:4: GrpTRES=cpu=384,node\+ is cut at the width.*--parsable2"
    ):
        read_qos(cut, 32)


def test_blanks_between_columns_are_counted_as_sacctmgr_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    path.write_text(
        "Name       Descr      Priority\r\n---------- ---------- --------\r\n"
        "für-alle  any one, +       10\r\n\r\nshort\r\n"
    )
    assert read_qos(path, None) == (Qos("für-alle", priority=10), Qos("normal"), Qos("short"))
    path.write_text("Name  Priority\n----- --------\nnormal       1\n")
    with pytest.raises(ValueError, match=r"qos.txt:3: a value is wider than its column; write what"):
        read_qos(path, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "      Name   Priority\n    normal          0\n",
            ":1: the line of dashes below the heading is missing",
        ),
        ("      Code   Priority\n---------- ----------\n    normal          0\n", ":1: no column Name"),
        ('{"associations": []}\n', ": no list `qos` of objects"),
        ('{"qos": [5]}\n', ": no list `qos` of objects"),
        ('{"qos": [\n', " cannot be read: Expecting value: line 2"),
        ("%YAML 1.1\n--- !!map\n:[\n", " cannot be read: "),
        (
            "Priority|Flags\n",
            r":1: no heading with Name\|\.\.\. \(write it again without -n and with that column\)",
        ),
        ("Priority\n", r":1: no heading with Name\|\.\.\."),
        ("Cluster - 'emu':Fairshare=1\n", ":1: this is what sacctmgr dump writes; write what"),
        ('{"qos": [{"id": 1}]}\n', ": number 1 of `qos`: this QOS has no name"),
    ],
)
def test_a_file_in_no_form_is_refused_with_what_it_is(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "qos.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"qos.txt{said}"):
        read_qos(path, None)


def test_lists_of_tres_have_units_and_types_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    path.write_text("Name|MaxTRESPU\ngpu|node=3,gres/gpu:a100-40gb=2,mem=500G\n")
    told: list[LeftOut] = []
    assert read_qos(path, None, left_out=told)[0].user_nodes == 3
    said = "qos gpu: MaxTRESPU=node=3,gres/gpu:a100-40gb=2,mem=500G:"
    assert [str(each) for each in told] == [
        f"{said} gres/gpu:a100-40gb is no limit in the twin",
        f"{said} mem is no limit in the twin",
    ]
