"""A slurm.conf as a site has it: DEFAULT lines, included files, its own names of nodes, partitions that are not up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emulator.live.slurm.conf import read_fragment
from emulator.live.slurm.conf_lines import ConfError
from emulator.schedulers.slurm.conf import read_conf
from emulator.schedulers.slurm.refusals import refusals
from emulator.schedulers.slurm.rules import Partition, Rules
from emulator.schedulers.slurm.scheduler import Slurm
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from pathlib import Path

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
        "PartitionName=DEFAULT MaxTime=3:00:00 MaxNodes=3\n"
        "partitionname=batch nodes=ALL DEFAULT=yes\n"
        "PartitionName=default MaxNodes=2 PriorityTier=5\n"
        "PartitionName=hp Nodes=ALL MaxTime=60\n",
    ) == (
        Partition("first"),
        Partition("batch", max_time=180, max_nodes=3),
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
