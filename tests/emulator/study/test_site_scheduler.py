"""The site's own slurm.conf for the runs of a merger, with its QOS and associations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emulator.runs.scenario import ScenarioError
from emulator.schedulers.config import SchedulerConfig
from emulator.study.logs import read_logs
from emulator.study.site_scheduler import under_scheduler
from emulator.workload.formats import load

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.study.logs import Logs

HEADING = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State|User|Account|QOS\n"
JOBS = ("1|100|100|60|1|2|COMPLETED|ann|physics|high", "2|101|160|60|1|2|COMPLETED|bob|physics|normal")
LEASES = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State\n1|100|100|60|1|1|COMPLETED\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "batch.txt").write_text(HEADING + "\n".join((*JOBS, "")))
    (tmp_path / "leases.txt").write_text(LEASES)
    (tmp_path / "slurm.conf").write_text(
        "AccountingStorageEnforce=limits\nNodeName=n[1-4]\nPartitionName=all Nodes=ALL Default=YES\n"
    )
    (tmp_path / "qos.txt").write_text("Name|Priority|MaxTRESPU\nnormal|0|node=1\nhigh|9|\n")
    (tmp_path / "assoc.txt").write_text(
        "Account|User|Share|MaxTRES\nroot||1|\n physics||1|\n  physics|ann|1|node=1\n"
    )
    return tmp_path


def logs(site: Path) -> Logs:
    return read_logs(load(site / "batch.txt"), load(site / "leases.txt"), batch_nodes=4, lay_together=True)


def kept(site: Path, **files: Path) -> list[int]:
    """Numbers of the jobs that the site's Slurm would start; the twin takes what the scenario says."""
    found, said = under_scheduler(logs(site), f"slurm:{site / 'slurm.conf'}", 1, **files)
    assert SchedulerConfig(decide=said).make_machine() is not None
    return found.batch.number.tolist()


def test_jobs_have_the_qos_that_the_log_says_of_each(site: Path) -> None:
    assert kept(site) == [1, 2]
    assert kept(site, qos=site / "qos.txt") == [1]
    _, said = under_scheduler(logs(site), f"slurm:{site / 'slurm.conf'}", 1, qos=site / "qos.txt")
    assert sorted(said["slurm"]["qos_names"].values()) == ["high", "normal"]


def test_jobs_have_the_association_of_their_user(site: Path) -> None:
    assert kept(site, associations=site / "assoc.txt") == [2]
    found, said = under_scheduler(
        logs(site), f"slurm:{site / 'slurm.conf'}", 1, associations=site / "assoc.txt"
    )
    assert sorted(said["slurm"]["users"].values()) == ["ann", "bob"]
    assert any("of the log without an association" in note for note in found.notes)


def test_a_table_that_cannot_be_read_is_told_with_its_name(site: Path) -> None:
    (site / "qos.txt").write_text("nothing of the kind\n")
    with pytest.raises(ScenarioError, match=r"--scheduler slurm:.*qos\.txt"):
        kept(site, qos=site / "qos.txt")
