"""Whose rules the twin of Slurm goes by: those of the release that the scenario, or the cluster itself, names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.slurm_scheduler import Slurm, slurm_in
from emulator.live.slurm.calibration import settings_in_logs
from emulator.live.slurm.programs import Programs
from emulator.live.slurm.requirements import other_release
from emulator.runs.scenario import from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.conf_lines import ConfError
from emulator.schedulers.slurm.releases import RELEASES, followed
from emulator.schedulers.slurm.rules import Rules
from emulator.schedulers.slurm.unsupported_settings import not_followed
from oracle.reference import Job
from oracle.slurm import SlurmReference
from oracle.slurm_kit import schedule, with_rules

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.runs.scenario import Scenario
    from emulator.schedulers.slurm.releases import Release

SHOWN = "Configuration data as of 2026-11-27T02:37:31\nPriorityType = priority/basic\nSLURM_VERSION = {}\n\n"


def starts(rows: list[tuple[int, int, int]], nodes: int, release: Release) -> list[int]:
    """(submit, run = limit, nodes) in seconds, cycles every 40 s. The reference starts them likewise."""
    jobs = [
        Job(number, at * US, run_s * US, run_s * US, width)
        for number, (at, run_s, width) in enumerate(rows, 1)
    ]
    rules = Rules(release=release, bf_interval=40)
    record = with_rules(Slurm(), rules, jobs, nodes)
    assert schedule(record) == SlurmReference(rules, nodes, jobs).run()
    order = np.argsort(record.jobs.number)
    return [start // US for start in record.start_us[order].tolist()]


def test_since_24_11_a_plan_lasts_to_the_end_of_the_block_in_which_the_job_does() -> None:
    """The second job is planned from 320 to 380, so the third from 360 on 22.05, where the last would be in its way."""
    rows = [(20, 300, 3), (21, 60, 3), (22, 60, 4), (23, 300, 1)]
    found = {release: starts(rows, 4, release) for release in RELEASES}
    assert found["22.05"][3] > found["24.11"][3] == 60
    assert found["26.05"] == found["24.11"]


def test_the_default_priority_is_that_of_the_release() -> None:
    assert [Slurm(release=release).rules(4).priority_type for release in RELEASES] == [
        "basic", "multifactor", "multifactor",
    ]  # fmt: skip
    assert Slurm(release="26.05", priority_type="basic").rules(4).priority_type == "basic"


def test_nobody_names_a_release_and_it_is_the_newest() -> None:
    assert Slurm().rules(4).release == RELEASES[-1] == "26.05"


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("20.11.9", "22.05"), ("22.05.8", "22.05"), ("24.05.4", "22.05"), ("24.11.5", "24.11"), ("25.11.1", "24.11"),
        ("26.05.5", "26.05"), ("27.05", "26.05"),
    ],
)  # fmt: skip
def test_another_release_has_the_rules_of_the_one_before(version: str, release: str) -> None:
    assert followed(version) == release


def test_what_a_cluster_shows_names_its_release_and_a_scenario_stands_above(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.txt"
    conf.write_text(SHOWN.format("24.11.5"))
    rules = Slurm(conf=conf).rules(4)
    assert (rules.release, rules.priority_type) == ("24.11", "basic")
    assert Slurm(conf=conf, release="22.05").rules(4).release == "22.05"
    assert not_followed(conf) == ()
    conf.write_text(SHOWN.format("25.05.3"))
    assert not_followed(conf) == ("slurm.txt: SLURM_VERSION=25.05.3: the twin goes by the rules of 24.11",)
    conf.write_text(SHOWN.format("today's"))
    with pytest.raises(ConfError, match=r"slurm\.txt:3: .*no version of Slurm, as 24\.11\.5"):
        Slurm(conf=conf).said_release()


def test_an_unknown_release_is_told() -> None:
    with pytest.raises(ValueError, match=r"release is one of 22\.05, 24\.11, 26\.05, not '23\.11'"):
        Rules(release="23.11")  # type: ignore[arg-type]


def in_both_clocks(scheduler: object) -> Scenario:
    workload = {"generate": [{"daily_batch": {"days": 0.02, "jobs": 2}}]}
    return from_mapping(
        {"name": "both", "nodes": 4, "workload": workload, "scheduler": scheduler, "live": {"batch": "slurm"}}
    )


def test_the_twin_and_the_real_slurm_are_of_one_release_or_the_run_is_refused(tmp_path: Path) -> None:
    told = in_both_clocks({"slurm": {"release": "26.05"}})
    assert other_release(told, None, lambda: "26.05.5") == ""
    said = other_release(told, tmp_path, lambda: "22.05.8")
    assert "scheduler.slurm.release says Slurm 26.05" in said
    assert f"live.batch.slurm.root: {tmp_path} has 22.05.8" in said
    assert "this machine, without live.batch.slurm.root, has none" in other_release(told, None, lambda: "")


def test_so_is_one_whose_slurm_conf_was_shown_by_another_release(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.txt"
    conf.write_text(SHOWN.format("24.11.5"))
    told = in_both_clocks({"slurm": {"conf": str(conf)}})
    assert "scheduler.slurm.conf says Slurm 24.11" in other_release(told, None, lambda: "26.05.5")


@pytest.mark.parametrize("scheduler", ["slurm", "fcfs+easy"])
def test_who_names_no_release_is_not_asked(scheduler: str) -> None:
    def ask() -> str:
        raise AssertionError

    assert other_release(in_both_clocks(scheduler), None, ask) == ""


def test_slurmctld_says_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Programs, "bound", lambda *_: '#!/bin/sh\nexec echo slurm-wlm 26.05.5 "$@"\n')
    assert Programs().version() == "26.05.5"
    monkeypatch.setattr(Programs, "bound", lambda *_: "#!/bin/sh\nexit 1\n")
    assert Programs().version() == ""


def test_calibrate_takes_the_release_and_message_timeout_from_the_logs_of_the_run(tmp_path: Path) -> None:
    assert settings_in_logs(tmp_path) == {}
    (tmp_path / "logs").mkdir()
    line = "[2026-01-01T00:00:00.003] slurmctld version 25.11.2 started on cluster emulator\n"
    (tmp_path / "logs" / "slurmctld-log.txt").write_text(line)
    assert settings_in_logs(tmp_path) == {"release": "24.11"}
    (tmp_path / "logs" / "slurm.conf").write_text("TCPTimeout=9\nMessageTimeout=700\n")
    assert settings_in_logs(tmp_path) == {"release": "24.11", "message_timeout": 700}
    rules = replace(Slurm(), **settings_in_logs(tmp_path)).rules(4)
    assert (rules.since_24_11, rules.message_timeout) == (True, 700)


def test_a_release_may_be_a_number_as_yaml_reads_it() -> None:
    twin = slurm_in(SchedulerConfig(decide={"slurm": {"release": 26.05}}))
    assert twin == Slurm(release="26.05")
