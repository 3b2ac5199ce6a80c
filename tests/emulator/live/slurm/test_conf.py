"""A site's slurm.conf: what schedules is taken, what binds it to its machines is not."""

from pathlib import Path

import pytest

from emulator.schedulers.slurm.conf_fragment import read_fragment, slurm_conf
from emulator.schedulers.slurm.conf_lines import ConfError

NAMES = ("n001", "n002", "n003", "n004")
SITE = """\
# the cluster of a site
ClusterName=site
SlurmctldHost=head
AccountingStorageHost=db
NodeName=node[001-900] CPUs=64 RealMemory=256000
MessageTimeout=30
PriorityType=priority/multifactor
PriorityWeightAge = 1000   # a day is worth a thousand
SchedulerParameters=bf_window=2880,\\
bf_resolution=300
PartitionName=debug Nodes=n00[1-2] MaxTime=30 DefMemPerCPU=1000 AllowGroups=staff PriorityTier=10
PartitionName=batch Nodes=ALL Default=YES
"""


def fragment(tmp_path, text=SITE):
    path = tmp_path / "slurm.conf"
    path.write_text(text, encoding="utf-8")
    return read_fragment(path, NAMES)


def test_what_schedules_is_taken_over_and_the_rest_is_told(tmp_path):
    found = fragment(tmp_path)
    assert found.lines == (
        "PriorityType=priority/multifactor",
        "PriorityWeightAge=1000",
        "SchedulerParameters=bf_window=2880,bf_resolution=300",
        "PartitionName=debug Nodes=n00[1-2] MaxTime=30 PriorityTier=10 OverSubscribe=EXCLUSIVE",
        "PartitionName=batch Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE",
    )
    assert found.left_out == (
        "slurm.conf:2: ClusterName=site",
        "slurm.conf:3: SlurmctldHost=head",
        "slurm.conf:4: AccountingStorageHost=db",
        "slurm.conf:5: NodeName=node[001-900] CPUs=64 RealMemory=256000",
        "slurm.conf:6: MessageTimeout=30",
        "slurm.conf:11: DefMemPerCPU=1000",
        "slurm.conf:11: AllowGroups=staff",
    )
    assert found.partitions == ["debug", "batch"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "PartitionName=a Nodes=node[1-3]\n",
            r"slurm.conf:1: there is no node node1; nodes are n001 to n004, or ALL",
        ),
        ("\nPartitionName=a Nodes=n[\n", r"slurm.conf:2: Nodes=n\["),
        ("SchedulerType\n", r"slurm.conf:1: expected KEY=VALUE, not 'SchedulerType'"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_line(tmp_path, text, problem):
    with pytest.raises(ConfError, match=problem):
        fragment(tmp_path, text)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ConfError, match=r"nowhere\.conf: cannot be read"):
        read_fragment(tmp_path / "nowhere.conf", NAMES)


def whole(found, speed=300.0, names=NAMES, ports=(2, 3, 4, 5), node_sets=()):
    return slurm_conf(
        found,
        names,
        home=Path("/run/home"),
        spool=Path("/run/home/spool"),
        log=Path("/run/log"),
        jobcomp=Path("/run/jobcomp"),
        host="here",
        user="me",
        port=1,
        node_ports=ports,
        speed=speed,
        hooks={},
        node_sets=node_sets,
    ).splitlines()


def test_whole_nodes_of_several_sets_have_weights(tmp_path):
    lines = whole(fragment(tmp_path, ""), node_sets=(1, 1, 0, 1))
    nodes = [line.split(" NodeHostname")[0] + line.partition("RealMemory=100")[2] for line in lines]
    assert [line for line in nodes if line.startswith("NodeName")] == [
        "NodeName=n[001-002,004] Weight=2 State=UNKNOWN",
        "NodeName=n003 Weight=1 State=UNKNOWN",
    ]


def test_the_site_has_the_last_word_where_it_may_have_one(tmp_path):
    lines = whole(fragment(tmp_path, "OverTimeLimit=5\nPartitionName=p Nodes=ALL Default=YES\n"))
    assert [line for line in lines if line.startswith(("OverTimeLimit", "PartitionName"))] == [
        "OverTimeLimit=5",
        "PartitionName=p Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE",
    ]


def test_patience_is_wall_time(tmp_path):
    found = fragment(tmp_path, "")
    assert "MessageTimeout=3100" in whole(found)
    assert "MessageTimeout=65000" in whole(found, speed=100_000)
    assert (
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE"
        in whole(found)
    )


@pytest.mark.parametrize(
    ("names", "ports", "written"),
    [
        (NAMES, (20, 21, 25, 26), "NodeName=n[001-004] {} Port=[20-21,25-26]"),
        (
            ("n1", "n2", "login", "n9", "n10"),
            (5, 4, 6, 7, 9),
            "NodeName=n[1-2],login,n[9,10] {} Port=[5,4,6-7,9]",
        ),
        (("one",), (9,), "NodeName=one {} Port=9"),
    ],
)
def test_all_nodes_are_one_line_each_with_its_port(tmp_path, names, ports, written):
    lines = [line for line in whole(fragment(tmp_path, ""), names=names, ports=ports) if "NodeName" in line]
    where = "NodeHostname=here NodeAddr=127.0.0.1"
    assert lines == [f"{written.format(where)} CPUs=1 RealMemory=100 State=UNKNOWN"]


def test_accounts_and_qos_count_where_there_is_a_database(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text(
        "AccountingStorageEnforce=qos\nAccountingStorageHost=db\nPartitionName=a Nodes=ALL QOS=long AllowAccounts=b\n"
    )
    partition = "PartitionName=a Nodes=ALL {}OverSubscribe=EXCLUSIVE"
    assert read_fragment(path, NAMES).lines == (partition.format(""),)
    found = read_fragment(path, NAMES, has_database=True)
    assert found.lines == ("AccountingStorageEnforce=qos", partition.format("QOS=long AllowAccounts=b "))
    assert found.left_out == ("slurm.conf:2: AccountingStorageHost=db",)
