"""Numbers that Slurm would not take, and words for the largest ones: the twin's tables have 64 bits of microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.conf import read_conf
from emulator.schedulers.slurm.conf_lines import ConfError
from emulator.schedulers.slurm.select import Select, Size
from emulator.schedulers.slurm.settings import SlurmSettings
from emulator.schedulers.slurm.times import MOST
from emulator.schedulers.slurm.unsupported_settings import not_followed
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from pathlib import Path

HUGE = 10**22
NUMBERS = (
    "bf_interval", "bf_window", "bf_resolution", "bf_max_job_test", "bf_max_job_user", "bf_min_age_reserve",
    "bf_max_job_part", "bf_max_job_user_part", "bf_max_job_assoc", "bf_max_job_start", "bf_job_part_count_reserve",
    "partition_job_depth", "sched_max_job_start",
    "bf_after_quiet", "sched_interval", "sched_min_interval", "default_queue_depth", "over_time_limit", "kill_wait",
    "preempt_exempt_time", "priority_weight_age", "priority_max_age", "priority_decay_half_life",
    "priority_calc_period",
)  # fmt: skip


def run(**slurm: object) -> None:
    """Two jobs, of which the second waits for the first."""
    jobs = JobTable.build(
        submit_us=[0, 0], run_us=[9_000_000] * 2, estimate_us=[60_000_000] * 2, nodes=[2, 2], queue=[1, 1]
    )
    record = simulate(jobs, 2, SchedulerConfig(decide={"slurm": {"priority_type": "multifactor", **slurm}}))
    assert record.start_us[1] >= 9_000_000


@pytest.mark.parametrize("name", NUMBERS)
def test_a_setting_is_no_larger_than_slurm_s_own_and_the_largest_one_runs(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at most 4294967295, not {HUGE}"):
        run(**{name: HUGE})
    run(**{name: MOST})


@pytest.mark.parametrize(
    "line",
    [
        "OverTimeLimit=UNLIMITED",
        "PriorityCalcPeriod=INFINITE",
        "PriorityMaxAge=UNLIMITED",
        "PriorityDecayHalfLife=UNLIMITED",
        f"PartitionName=a Nodes=ALL MaxTime={HUGE} MaxNodes=UNLIMITED",
    ],
)
def test_a_time_without_end_in_a_slurm_conf_is_the_largest(tmp_path: Path, line: str) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(f"PriorityType=priority/multifactor\n{line}\n")
    run(conf=path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("SchedulerParameters=bf_interval=0", "bf_interval must be at least 1, not 0"),
        (f"SchedulerParameters=bf_window={HUGE}", "more than 4294967295, the most that Slurm takes"),
        (f"PriorityWeightAge={HUGE}", "more than 4294967295, the most that Slurm takes"),
        ("PriorityType=priority/site", "priority_type is basic or multifactor, not 'site'"),
        (f"PartitionName=a Nodes=ALL PriorityTier={HUGE}", "PriorityTier is .*: more than 65533"),
        (f"PartitionName=a Nodes=ALL MaxNodes={HUGE}", "more than 4294967295"),
    ],
)
def test_a_value_that_slurm_does_not_take_is_named_with_file_and_line(
    tmp_path: Path, line: str, problem: str
) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(f"ClusterName=c\n{line}\n")
    with pytest.raises(ConfError, match=rf"slurm\.conf:2: .*{problem}"):
        read_conf(path, 4)


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (f"CPUs={10**8} RealMemory=9", "node n1 has 100000000 CPUs; expected 1 to 65533"),
        ("Sockets=2 CoresPerSocket=0 RealMemory=9", "node n1 has 0 CPUs; expected 1 to 65533"),
        (f"CPUs=4 RealMemory={HUGE}", "RealMemory=.* more than 4294967295"),
        (f"CPUs=4 RealMemory=9 Gres=gpu:{HUGE}", "GPUs; expected at most 65533"),
    ],
)
def test_a_node_is_no_larger_than_slurm_s_own(tmp_path: Path, node: str, problem: str) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(f"SelectType=select/cons_tres\nNodeName=n1 {node}\n")
    with pytest.raises(ConfError, match=rf"slurm\.conf:2: .*{problem}"):
        SlurmSettings(conf=path, select=Select()).shared_nodes(1)


@pytest.mark.parametrize(
    ("node", "cores", "memory_mib"),
    [
        ("CPUs=64 RealMemory=1000 CoreSpecCount=2 MemSpecLimit=100", 62, 900),
        ("Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 CoreSpecCount=2 RealMemory=1000", 60, 1000),
        ("CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 CoreSpecCount=2 RealMemory=1000", 30, 1000),
        ("CPUs=64 CpuSpecList=0-3,32,34 RealMemory=1000", 58, 1000),
    ],
)
def test_what_a_node_keeps_for_its_system_no_job_gets(
    tmp_path: Path, node: str, cores: int, memory_mib: int
) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(f"SelectType=select/cons_tres\nNodeName=n1 {node}\n")
    shared = SlurmSettings(conf=path, select=Select()).shared_nodes(1)
    assert shared is not None
    assert shared.sizes == (Size(cores, memory_mib, 0),)
    path.write_text("SelectType=select/cons_tres\nNodeName=n1 CPUs=4 RealMemory=9 MemSpecLimit=9\n")
    with pytest.raises(ConfError, match=r"slurm\.conf:2: MemSpecLimit leaves jobs no memory of node n1"):
        SlurmSettings(conf=path, select=Select()).shared_nodes(1)


def test_keys_of_nodes_that_are_not_followed_are_named(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text("NodeName=DEFAULT RealMemroy=9\nNodeName=n[1-2] CPUs=4 Port=7 RestrictedCoresPerGPU=2\n")
    gpus = "NodeName=n[1-2]: RestrictedCoresPerGPU=2: Slurm would keep these cores for jobs with GPUs; "
    gpus += "in the twin any job may have them"
    assert not_followed(path) == (
        f"slurm.conf: {gpus}",
        "slurm.conf: NodeName=n[1-2]: RealMemroy=9: no key that is known here, so what it would have done is not",
    )


def test_gpus_of_several_types_in_one_node_are_named_where_jobs_wait_for_gpus(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    nodes = "NodeName=n1 CPUs=4 Gres=gpu:a100:2(S:0-1)\nNodeName=n2 CPUs=4 Gres=gpu:2,nvme:1\n"
    path.write_text(f"GresTypes=gpu\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n{nodes}")
    slurm = SlurmSettings(conf=path, select=Select())
    assert not_followed(path, slurm.shared_nodes(2)) == ()
    (tmp_path / "gres.conf").write_text("NodeName=n2 Name=gpu Type=H100 File=/dev/nvidia[0-1]\n")
    assert not_followed(path, slurm.shared_nodes(2)) == ()
    (tmp_path / "gres.conf").write_text("NodeName=n1 Name=gpu Type=H100 File=/dev/nvidia[0-1]\n")
    (named,) = not_followed(path, slurm.shared_nodes(2))
    assert named.startswith(
        "slurm.conf: types of GPUs (a100, h100) of node n1: in the twin a job that asks for one"
    )


def test_a_job_that_is_refused_is_named_with_what_it_asks_for() -> None:
    with pytest.raises(
        ValueError, match=r"the first is job 1 \(2 nodes, 1 minute\): change that, or take them out"
    ):
        run(qos={"normal": {"MaxTRES": "node=1"}})
    jobs = JobTable.build(submit_us=[0], run_us=[1], estimate_us=[1], nodes=[1]).with_extra(
        cores=np.array([9]), gpus=np.array([1])
    )
    scheduler = SchedulerConfig(decide={"slurm": {"select": {"cores": 8, "gpus": 1}}})
    with pytest.raises(ValueError, match=r"job 1 \(1 node, 1 minute, of each 9 cores, 1 GPUs\)"):
        simulate(jobs, 2, scheduler)


def test_what_select_and_reservations_say_has_bounds() -> None:
    for select in ({"cores": 10**9}, {"cores": 4, "gpus": 10**9}):
        with pytest.raises(ValueError, match="must be at most 65533"):
            run(select=select)
    with pytest.raises(
        ValueError, match=r"reservation r: start_s .* before end_s, which is at most 4294967295"
    ):
        run(reservations={"r": {"start_s": 0, "end_s": HUGE}})


def test_a_scheduler_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text("SchedulerType=sched/wiki2\n")
    assert not_followed(path) == (
        "slurm.conf: SchedulerType=sched/wiki2: the twin knows it not, and takes sched/backfill",
    )
    path.write_text("SchedulerType=sched/builtin\n")
    assert not_followed(path) == ()
