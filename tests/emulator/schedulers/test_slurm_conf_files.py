"""A slurm.conf as a site has it: DEFAULT lines, included files, its own names of nodes, partitions that are not up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from command_line import emulate
from emulator.cluster.slurm_scheduler import Slurm
from emulator.report.files import load
from emulator.schedulers.slurm.conf import read_conf
from emulator.schedulers.slurm.conf_fragment import read_fragment
from emulator.schedulers.slurm.conf_lines import ConfError, read_lines, site_nodes
from emulator.schedulers.slurm.node_sizes import parameters_in
from emulator.schedulers.slurm.refusals import refusals
from emulator.schedulers.slurm.releases import RELEASES
from emulator.schedulers.slurm.rules import Partition, Rules
from emulator.schedulers.slurm.select import NodeKind, Select, SharedNodes, Size
from emulator.schedulers.slurm.settings import SlurmSettings
from emulator.schedulers.slurm.unsupported_settings import not_followed
from emulator.workload.table import JobTable
from testdata import RECORDED

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.schedulers.slurm.releases import Release

NAMES = ("n001", "n002", "n003", "n004")


def conf(folder: Path, text: str, name: str = "slurm.conf") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def partitions(folder: Path, text: str, nodes: int = 4) -> tuple[Partition, ...]:
    found = read_conf(conf(folder, text), nodes)
    return tuple(found["partitions"])


def test_default_lines_set_what_the_lines_below_begin_with(tmp_path: Path) -> None:
    assert partitions(
        tmp_path,
        "PartitionName=first Nodes=ALL\n"
        "PartitionName=DEFAULT MaxTime=3:00:00 MaxNodes=3 GraceTime=90\n"
        "partitionname=batch nodes=ALL DEFAULT=yes\n"
        "PartitionName=default MaxNodes=2 PriorityTier=5\n"
        "PartitionName=hp Nodes=ALL MaxTime=60 GraceTime=0\n",
    ) == (
        Partition("first"),
        Partition("batch", max_time=180, max_nodes=3, grace_time=90),
        Partition("hp", priority_tier=5, max_time=60, max_nodes=2),
    )


def test_the_site_s_own_names_of_nodes_are_taken_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = (
        "NodeName=DEFAULT CPUs=64 State=UNKNOWN\n"
        "NodeName=cn[01-02]\n"
        "NodeName=gpu1 Gres=gpu:4 \\\n  Weight=10 # the only one\n"
        "NodeName=fat-1\n"
        "NodeName=new[1-9] State=FUTURE\n"
        "NodeSet=big Nodes=gpu1,fat-1\n"
        "PartitionName=batch Nodes=cn[01-02] Default=YES\n"
        "PartitionName=big Nodes=big,cn02\n"
    )
    assert [each.nodes for each in partitions(tmp_path, text)] == [(0, 1), (2, 3, 1)]
    lines = read_fragment(tmp_path / "slurm.conf", NAMES).lines
    assert lines == (
        "PartitionName=batch Nodes=n[001-002] Default=YES OverSubscribe=EXCLUSIVE",
        "PartitionName=big Nodes=n[003-004,002] OverSubscribe=EXCLUSIVE",
    )


def test_partitions_alone_say_names_where_there_are_as_many(tmp_path: Path) -> None:
    text = "PartitionName=a Nodes=x[1-2]\nPartitionName=b Nodes=x[1-4]\n"
    assert [each.nodes for each in partitions(tmp_path, text)] == [(0, 1), (0, 1, 2, 3)]


def test_nodes_in_no_partition_need_not_be_nodes_of_the_run(tmp_path: Path) -> None:
    text = "NodeName=login1\nNodeName=cn[1-4]\nPartitionName=a Nodes=cn[1-3]\nPartitionName=b Nodes=cn[2-4]\n"
    assert [each.nodes for each in partitions(tmp_path, text)] == [(0, 1, 2), (1, 2, 3)]


def test_included_files_are_read_in_their_place_beside_the_file_that_names_them(tmp_path: Path) -> None:
    conf(tmp_path, "PartitionName=DEFAULT MaxTime=60\nInclude more.conf\n", "parts/limits.conf")
    conf(tmp_path, "PartitionName=a Nodes=ALL\n", "parts/more.conf")
    text = "\N{ZERO WIDTH NO-BREAK SPACE}INCLUDE\tparts/limits.conf # of the site\nPartitionName = b Nodes = ALL\n"
    assert [(each.name, each.max_time) for each in partitions(tmp_path, text)] == [("a", 60), ("b", 60)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "\nInclude nowhere.conf\n",
            r"slurm\.conf:2: Include nowhere\.conf: there is no file .*put it there",
        ),
        ("Include parts-%c.conf\n", r"slurm\.conf:1: Include parts-%c\.conf: %c stands for a cluster's name"),
        ("include slurm.conf\n", r"slurm\.conf:1: Include slurm\.conf: the file includes itself"),
        (
            "NodeName=cn[1-9]\nPartitionName=a Nodes=cn[1-9]\n",
            r"slurm\.conf:2: node cn1 is one of 9 nodes of the site \(cn1 to cn9\), and the run has 4: say 9 nodes",
        ),
        (
            "NodeName=cn[1-4]\nPartitionName=a Nodes=cn[1-5]\n",
            r"slurm\.conf:2: there is no node cn5; nodes are cn1",
        ),
        ("NodeName=cn[\n", r"slurm\.conf:1: NodeName=cn\["),
        (
            "PartitionName=a Nodes=ALL State=ASLEEP\n",
            "State=ASLEEP: a partition is UP, DOWN, DRAIN or INACTIVE",
        ),
        ("PartitionName=a Nodes\n", r"slurm\.conf:1: expected KEY=VALUE, not 'Nodes'"),
    ],
)
def test_what_cannot_be_followed_is_an_error_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfError, match=problem):
        read_conf(conf(tmp_path, text), 4)


def test_a_node_with_two_lines_is_refused_with_both(tmp_path: Path) -> None:
    path = conf(tmp_path, "NodeName=DEFAULT CPUs=4\nNodeName=n[001-003]\nNodeName=n[003-004] CPUs=8\n")
    with pytest.raises(ConfError) as caught:
        read_lines(path)
    assert str(caught.value) == f"{path}:3: NodeName=n003 is at {path}:2 too; keep one of them"


@pytest.mark.parametrize("text", ["", "\n", "# ClusterName=x\n"])
def test_a_file_without_settings_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        ConfError, match=r"slurm\.conf: there is no setting in it; name the slurm\.conf of the"
    ):
        read_conf(conf(tmp_path, text), 4)


@pytest.mark.parametrize("state", ["DOWN", "drain", "Inactive"])
def test_a_partition_that_is_not_up_takes_no_jobs(tmp_path: Path, state: str) -> None:
    path = conf(tmp_path, f"PartitionName=a Nodes=ALL\nPartitionName=b Nodes=ALL State={state}\n")
    slurm = Slurm(conf=path, queues={2: "b"})
    jobs = JobTable.build(
        submit_us=[0, 0], run_us=[1, 1], estimate_us=[60_000_000] * 2, nodes=[1, 1], queue=[1, 2]
    )
    (found,) = refusals(jobs, slurm, slurm.rules(4), 4)
    assert found[0] == f"partition b is {state.upper()}: it takes no jobs"
    assert found[1].tolist() == [False, True]
    assert Rules().partitions[0].state == "UP"


def test_a_partition_with_several_lines_has_the_nodes_of_all(tmp_path: Path) -> None:
    text = "PartitionName=a Nodes=n001 MaxNodes=1\nPartitionName=a Nodes=n003 MaxTime=5\n"
    assert partitions(tmp_path, text) == (Partition("a", (0, 2), max_time=5),)


SITE = """\
NodeName=DEFAULT CPUs=32 State=UNKNOWN
NodeName=cn[01-03] Weight=10
NodeName=fat1 Weight=20 State=DOWN Reason="power"
TopologyPlugin=topology/tree
CompleteWait=32
PriorityFlags=FAIR_TREE,MAX_TRES   # as in the manual
PriorityUsageResetPeriod=MONTHLY
SchedulerParameters=bf_interval=60,partition_job_depth=10,max_switch_wait=9,max_rpc_cnt=150,bf_yield_sleep=5,made_up=1
SlurmctldLogFile=/var/log/slurmctld.log
MadeUp=yes
PartitionName=DEFAULT AllowGroups=staff MaxCPUsPerNode=24 \\
  State=UP
PartitionName=batch Nodes=cn[01-03],fat1 Default=YES
PartitionName=old Nodes=fat1 AllowGroups=ALL MaxCPUsPerNode=UNLIMITED State=DOWN
"""
IN_A_ROW = "the twin chooses whole nodes by their place in a row"
WHOLE_NODES = "jobs have whole nodes in the twin unless `select` is set"
NOT_FOLLOWED = (
    f"TopologyPlugin=topology/tree: Slurm would keep a job on few switches; {IN_A_ROW}",
    "CompleteWait=32: Slurm would start no job for so long while nodes are cleaned up; the twin's are free at once",
    "PriorityFlags=MAX_TRES: Slurm would work priorities out by it; the twin does not",
    "PriorityUsageResetPeriod=MONTHLY: Slurm would set all usage to 0 then; in the twin it only decays",
    "max_switch_wait: the twin has no switches",
    "made_up: no word of SchedulerParameters that is known here, so what it would have done is not",
    "MadeUp=yes: no key that is known here, so what it would have done is not",
    "partition batch: AllowGroups=staff: Slurm would refuse others; in the twin everybody may use it",
    f"partition batch: MaxCPUsPerNode=24: Slurm would use no more of a node; {WHOLE_NODES}",
    "State=DOWN of fat1: the twin has these nodes up",
)


def test_what_a_site_s_file_says_and_the_twin_does_not_do_is_named(tmp_path: Path) -> None:
    assert not_followed(conf(tmp_path, SITE)) == tuple(f"slurm.conf: {each}" for each in NOT_FOLLOWED)
    other = "TopologyPlugin=topology/flat\nCompleteWait=0\nPriorityUsageResetPeriod=NONE\nPreemptMode=OFF\n"
    assert not_followed(conf(tmp_path, other, "other.conf")) == ()


def test_a_run_its_report_and_whatif_name_it_too(tmp_path: Path) -> None:
    path, log = conf(tmp_path, SITE), tmp_path / "log.txt"
    rows = "".join(f"{at}|{1000 + at}|{1000 + at}|60|1|2|COMPLETED|batch\n" for at in range(1, 20))
    log.write_text(f"JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State|Partition\n{rows}")
    runs = ["run", str(log), "--nodes", "4", "--scheduler", f"slurm:{path}", "--out", str(tmp_path / "out")]
    done = emulate(*runs)
    assert (
        done.exit_code,
        "slurm.conf: CompleteWait=32: Slurm would start" in " ".join(done.output.split()),
    ) == (
        0,
        True,
    )
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    *found, by_default = summary["not_followed"]
    assert found == [f"slurm.conf: {each}" for each in NOT_FOLLOWED]
    assert by_default.startswith(
        "slurm.conf: no SelectType, which means select/cons_tres since Slurm 23.11: "
    )
    assert "CompleteWait=32: Slurm would start" in (tmp_path / "out" / "report.html").read_text()
    assert load(tmp_path / "out").not_followed == tuple(summary["not_followed"])
    asked = ["whatif", "--log", str(log), "--slurm-conf", str(path), "--set", "bf_interval=30", "--json"]
    notes = json.loads(emulate(*asked).stdout)["notes"]
    assert f"4 nodes, by the NodeName lines of {path}" in notes
    assert f"slurm.conf: {NOT_FOLLOWED[1]}" in notes


def test_a_template_is_told_from_a_file_with_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(
        ConfError, match=r"slurm.conf:1: expected KEY=VALUE.*\(a template: have it filled in first\)"
    ):
        read_conf(conf(tmp_path, "{% if ha %}\nClusterName=x\n"), 4)


def settings(folder: Path, text: str) -> dict[str, object]:
    found = read_conf(conf(folder, text), 4)
    return {
        key: value
        for key, value in found.items()
        if not key.startswith(("enforce", "partitions", "default_p"))
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('PriorityType="priority/multifactor"\n', {"priority_type": "multifactor"}),
        (
            "KillWait=5 OverTimeLimit=2   JobRequeue=0\n",
            {"kill_wait": 5, "over_time_limit": 2, "job_requeue": False},
        ),
        ("SCHEDULERPARAMETERS=BF_INTERVAL=60,Defer\n", {"bf_interval": 60, "defer": True}),
        ('SchedulerParameters="bf_interval=60, defer"\n', {"bf_interval": 60, "defer": True}),
        ("SchedulerParameters=bf_interval=60,defer\nSchedulerParameters=bf_window=100\n", {"bf_window": 100}),
        ("KillWait=5\nKillWait=6 # later\n", {"kill_wait": 6}),
        ("MessageTimeout=60\nKillWait=5\n", {"kill_wait": 5, "message_timeout": 60}),
        ("PreemptExemptTime=1:30\n", {"preempt_exempt_time": 90}),
        ("PreemptExemptTime=-1\n", {"preempt_exempt_time": -1}),
    ],
)
def test_settings_are_read_as_slurm_reads_them(
    tmp_path: Path, text: str, expected: dict[str, object]
) -> None:
    assert settings(tmp_path, text) == expected


def test_a_partition_has_the_nodes_that_there_are(tmp_path: Path) -> None:
    text = (
        "NodeName=cn[1-3]\nNodeName=cloud1 State=CLOUD\nNodeName=new[1-2] State=FUTURE\nNodeSet=none Feature=x\n"
        "PartitionName=a Nodes=cn[1-2],cn[2-3],cn1\n"  # overlapping
        "PartitionName=b Nodes=cloud1,new[1-2]\n"
        "PartitionName=c Nodes=new[1-2]\n"
        'PartitionName=d Nodes=""\n'
        "PartitionName=e\n"
        "PartitionName=f Nodes=none\n"
    )
    assert [each.nodes for each in partitions(tmp_path, text)] == [(0, 1, 2), (3,), (), (), (), ()]
    assert read_fragment(tmp_path / "slurm.conf", NAMES).lines[3] == (
        'PartitionName=d Nodes="" OverSubscribe=EXCLUSIVE'
    )
    assert not_followed(tmp_path / "slurm.conf") == (
        "slurm.conf: State=FUTURE of new1, new2: the twin has no nodes that are still to come",
    )
    slurm = Slurm(conf=tmp_path / "slurm.conf", queues={2: "d"})
    jobs = JobTable.build(
        submit_us=[0, 0], run_us=[1, 1], estimate_us=[60_000_000] * 2, nodes=[1, 1], queue=[1, 2]
    )
    (found,) = refusals(jobs, slurm, slurm.rules(4), 4)
    assert (found[0], found[1].tolist()) == ("partition d takes no more than 0 nodes", [False, True])


def test_an_included_file_of_the_site_is_looked_for_beside_the_one_that_names_it(tmp_path: Path) -> None:
    conf(tmp_path, "PartitionName=a Nodes=ALL\n", "parts.conf")
    assert [each.name for each in partitions(tmp_path, "Include /etc/nowhere/slurm/parts.conf\n")] == ["a"]


def test_a_comment_in_another_encoding_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_bytes("# für alle\nPartitionName=a Nodes=ALL\n".encode("latin-1"))
    assert [each.name for each in read_conf(path, 4)["partitions"]] == ["a"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "\nInclude conf.d/*.conf\n",
            r"slurm\.conf:2: Include conf\.d/\*\.conf: Slurm takes no wildcards here",
        ),
        ("\nPriorityWeightAge=1.5\n", r"slurm\.conf:2: PriorityWeightAge=1\.5: .*expected a whole number"),
        (
            "\nSchedulerParameters=bf_window=2-0\n",
            r"slurm\.conf:2: .*bf_window is '2-0': expected a whole number",
        ),
        (
            "\n\nPartitionName=a Nodes=ALL MaxTime=7days\n",
            r"slurm\.conf:3: PartitionName=a .*'7days' is no time",
        ),
    ],
)
def test_an_error_names_file_line_and_what_is_expected(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfError, match=problem):
        read_conf(conf(tmp_path, text), 4)


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_what_scontrol_shows_is_read_like_the_file(tmp_path: Path, release: str) -> None:
    recorded = (RECORDED / f"slurm/{release}/config.txt").read_text()
    shown = "Configuration data as of " + recorded.partition("Configuration data as of ")[2]
    found = settings(tmp_path, shown)
    assert (found["kill_wait"], found["bf_interval"], found["sched_interval"], found["over_time_limit"]) == (
        30,
        1,
        1,
        0,
    )
    told = not_followed(tmp_path / "slurm.conf")
    assert [each for each in told if "no key that is known here" in each] == []


GPU_NODES = (
    "NodeName=g[1-2] Gres=gpu:a100:4,nvme:1\nNodeName=h1 Gres=gpu:2(S:0-1),gpu:1g.5gb:1\nNodeName=n1\n"
)


@pytest.mark.parametrize(
    ("gres", "told"),
    [
        ("", ()),
        ("AutoDetect=nvml\n", ()),
        ("NodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] # all\nName=nvme Count=1\n", ()),
        (
            "NodeName=n1 Name=gpu File=/dev/dri/renderD128,/dev/dri/renderD129\nnodename=h1 name=GPU count=2\n",
            (
                "gres.conf has 2 GPUs of h1, and slurm.conf 3: Slurm would not use the node if it has fewer",
                "2 GPUs a node of n1",
            ),
        ),
    ],
)
def test_gpus_of_nodes_are_named_by_slurm_conf_and_the_gres_conf_beside_it(
    tmp_path: Path, gres: str, told: tuple[str, ...]
) -> None:
    if gres:
        conf(tmp_path, gres, "gres.conf")
    found = not_followed(conf(tmp_path, GPU_NODES))
    why = "Slurm has jobs wait for them; the twin does not"
    each = [*told, f"3 GPUs a node of h1: {why}", f"4 GPUs a node of g1, g2: {why}"]
    assert len(found) == len(each)
    for said in each:
        assert any(sentence.startswith(f"slurm.conf: {said}") for sentence in found), said


def test_a_gres_conf_alone_says_gpus_too_or_is_refused_with_its_line(tmp_path: Path) -> None:
    path = conf(tmp_path, "NodeName=n[1-2]\nGresTypes=gpu\n")
    types = "slurm.conf: GresTypes=gpu: no job waits for them in the twin, but for GPUs if `select` has some"
    assert not_followed(path) == (types,)
    conf(tmp_path, "AutoDetect=nvml\n", "gres.conf")
    assert not_followed(path) == (
        types,
        "slurm.conf: gres.conf: AutoDetect: what GPUs nodes have is not said; in the twin jobs wait for none",
    )
    conf(tmp_path, "NodeName=n1 Name=gpu File=/dev/nvidia[0-7]\n", "gres.conf")
    assert not_followed(path)[1].startswith("slurm.conf: 8 GPUs a node of n1: ")
    for text, problem in (
        ("\nNodeName=n1 Name=gpu Count=few\n", r"gres\.conf:2: Count=few: expected a whole number"),
        ("NodeName=n[1- Name=gpu\n", r"gres\.conf:1: "),
        ("NodeName=n1 Name=gpu File\n", r"gres\.conf:1: expected KEY=VALUE, not 'File'"),
    ):
        conf(tmp_path, text, "gres.conf")
        with pytest.raises(ConfError, match=problem):
            not_followed(path)


ALIKE = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu\nNodeName=n[1-2] CPUs=8 Gres=gpu:4\n"


def named_beside(path: Path, **select: Any) -> list[str]:
    nodes = len(site_nodes(read_lines(path)))
    found = not_followed(path, Select(8, **select).on(nodes))
    return [each.removeprefix("slurm.conf: ") for each in found]


def test_a_site_whose_nodes_have_as_many_gpus_as_select_says_is_followed(tmp_path: Path) -> None:
    path = conf(tmp_path, ALIKE)
    assert named_beside(path, gpus=4) == []
    assert named_beside(path, gpus=2) == ["4 GPUs a node of n1, n2: in the twin each has 2"]
    types = "GresTypes=gpu: no job waits for them in the twin, but for GPUs if `select` has some"
    gpus = (
        "4 GPUs a node of n1, n2: Slurm has jobs wait for them; the twin does not unless `select` has gpus: 4"
    )
    assert named_beside(path) == [types, gpus]
    assert not_followed(path)[-1] == f"slurm.conf: {gpus}"


def test_what_partitions_say_of_shared_nodes_is_named_beside_select(tmp_path: Path) -> None:
    words = "OverSubscribe=NO DefMemPerCPU=100 ExclusiveUser=YES"
    said = f"{ALIKE}PartitionName=a Nodes=ALL Default=YES {words}\nPartitionName=b Nodes=n1 OverSubscribe=EXCLUSIVE\n"
    assert named_beside(conf(tmp_path, said), gpus=4) == [
        "partition a: DefMemPerCPU=100: in the twin a job has the memory that it says, else all of its nodes",
        "partition a: ExclusiveUser=YES: in the twin jobs share nodes as `select` says",
        "partition b: OverSubscribe=EXCLUSIVE: in the twin a job has the cores that it says",
    ]
    assert not_followed(conf(tmp_path, said))[1:4] == (
        "slurm.conf: SelectTypeParameters=CR_Core: jobs have whole nodes in the twin unless `select` is set",
        "slurm.conf: GresTypes=gpu: no job waits for them in the twin, but for GPUs if `select` has some",
        "slurm.conf: partition a: DefMemPerCPU=100: memory is no reason to wait, unless `select` is set",
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("SelectType=select/cons_tres\n", "CR_Core_Memory"),
        ("SelectType=select/cons_res\nSelectTypeParameters=CR_Socket\n", "CR_Core"),
        ("SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory,CR_LLN\n", "CR_CPU_Memory"),
        ("SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n", "CR_CPU"),
        ("SelectType=select/linear\n", None),
        ("", None),
    ],
)
def test_what_a_site_s_jobs_share_is_read_of_its_file(tmp_path: Path, said: str, found: str | None) -> None:
    path = conf(tmp_path, f"{said}NodeName=n[1-2] CPUs=4\n")
    assert parameters_in(path, "22.05") == found
    assert SlurmSettings(conf=path, select=Select(), release="22.05").select_parameters == (
        found or "CR_Core"
    )
    assert SlurmSettings(conf=path, select=Select(4)).select_parameters == "CR_Core"
    assert parameters_in(conf(tmp_path, said), "22.05") is None  # nobody says what nodes have


def test_a_file_without_select_type_has_the_default_of_its_release(tmp_path: Path) -> None:
    path = conf(tmp_path, "NodeName=n[1-2] CPUs=4\n")
    assert [parameters_in(path, each) for each in RELEASES] == [None, "CR_Core", "CR_Core"]
    assert parameters_in(conf(tmp_path, "NodeName=n[1-2] CPUs=4 RealMemory=9\n"), "24.11") == "CR_Core_Memory"
    path = conf(tmp_path, "NodeName=n[1-2] CPUs=4\n")
    jobs = JobTable.empty()
    (named,) = SlurmSettings(conf=path).not_followed(jobs, 2)
    assert named.startswith(
        "slurm.conf: no SelectType, which means select/cons_tres since Slurm 23.11: jobs have whole"
    )
    assert SlurmSettings(conf=path, release="22.05").not_followed(jobs, 2) == ()


MIXED = """\
NodeName=DEFAULT RealMemory=64000
NodeName=thin[1-2] CPUs=16
NodeName=fat1 Sockets=2 CoresPerSocket=12 ThreadsPerCore=2 RealMemory=512000
NodeName=gpu1 Boards=2 SocketsPerBoard=2 CoresPerSocket=4 Gres=gpu:a100:4 Weight=20
PartitionName=all Nodes=ALL Default=YES
"""


@pytest.mark.parametrize(("release", "sets"), [("22.05", (1, 2, 2, 0, 3)), ("24.11", (1, 1, 1, 0, 2))])
def test_whole_nodes_are_of_the_sets_of_their_lines_by_weight(
    tmp_path: Path, release: Release, sets: tuple[int, ...]
) -> None:
    lines = "NodeName=c3 Weight=2\nNodeName=c[1-2] Port=7 Weight=2\nNodeName=c4\n"
    settings = SlurmSettings(conf=conf(tmp_path, lines), release=release, nodes_added=1)
    assert settings.node_sets(5) == sets
    assert replace(settings, conf=None).node_sets(5) == (0,) * 5


def test_nodes_have_what_their_lines_say_unless_select_says_it(tmp_path: Path) -> None:
    conf(tmp_path, "NodeName=thin2 Name=gpu File=/dev/nvidia0\n", "gres.conf")
    path = conf(tmp_path, MIXED)
    memory: dict[str, Any] = {"parameters": "CR_Core_Memory"}
    found = SlurmSettings(conf=path, select=Select(**memory)).shared_nodes(4)
    sizes = (Size(16, 64000, 0), Size(16, 64000, 1), Size(48, 512000, 0), Size(16, 64000, 4))
    assert found == SharedNodes("CR_Core_Memory", sizes, (1, 1, 1, 20))
    without = SlurmSettings(conf=path, select=Select(), release="22.05").shared_nodes(4)
    assert without == SharedNodes(
        "CR_Core", tuple(size._replace(memory_mib=0) for size in sizes), (1, 1, 1, 20)
    )
    named = not_followed(path, found)
    assert named == ("slurm.conf: ThreadsPerCore of fat1: in the twin each thread is a core",)
    said = SlurmSettings(conf=path, select=Select(16, gpus=4)).shared_nodes(4)
    assert said is not None
    assert said.weights == (1, 1, 1, 20)
    kinds = {"all": NodeKind("ALL", 16, gpus=4)}
    by_kind = SlurmSettings(conf=path, select=Select(kinds=kinds)).shared_nodes(4)
    assert (
        not_followed(path, by_kind)[0]
        == "slurm.conf: Weight=1,20: in the twin nodes have the weights of `select`"
    )
    assert "Weight" not in not_followed(path)[0]
    assert not_followed(path, said)[1:] == (
        "slurm.conf: no GPUs a node of thin1, fat1: in the twin each has 4",
        "slurm.conf: 1 GPUs a node of thin2: in the twin each has 4",
    )


def test_nodes_of_which_a_line_says_too_little_are_refused_with_it(tmp_path: Path) -> None:
    select = Select(parameters="CR_Core_Memory")
    for text, problem in (
        ("NodeName=n[001-002] CPUs=8\n", r"slurm\.conf:1: CR_Core_Memory needs the RealMemory of node n001"),
        ("NodeName=n001 CPUs=few RealMemory=9\n", r"slurm\.conf:1: CPUs=few: expected a whole number"),
        ("PartitionName=all Nodes=n001\n", r"slurm\.conf: no NodeName line says what node n001 has"),
    ):
        nodes = 2 if "002" in text else 1
        with pytest.raises(ConfError, match=problem):
            SlurmSettings(conf=conf(tmp_path, text), select=select).shared_nodes(nodes)
    with pytest.raises(ValueError, match="say what nodes have: `cores`"):
        SlurmSettings(conf=conf(tmp_path, MIXED), select=select, nodes_added=1).shared_nodes(5)


def test_what_select_does_not_say_of_nodes_and_gpus_is_named(tmp_path: Path) -> None:
    said = ALIKE.replace("cons_tres", "linear").replace("=gpu\n", "=gpu,nvme\n") + "NodeName=n3\n"
    assert named_beside(conf(tmp_path, said), parameters="CR_CPU", gpus=4) == [
        "SelectType=select/linear: the twin takes select/cons_tres",
        "SelectTypeParameters=CR_Core: the twin takes CR_CPU",
        "GresTypes=gpu,nvme: the twin takes gpu",
        "no GPUs a node of n3: in the twin each has 4",
    ]
    conf(tmp_path, "AutoDetect=nvml\n", "gres.conf")
    assert named_beside(conf(tmp_path, ALIKE.replace(" Gres=gpu:4", "")), gpus=4) == [
        "gres.conf: AutoDetect: what GPUs nodes have is not said; in the twin jobs wait for 4 of each node"
    ]
