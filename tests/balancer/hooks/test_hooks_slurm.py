"""Slurm's hooks on the controller: they tell what they know and always end well."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import balancer
from balancer.clock import wall_us
from balancer.hooks.slurm import time_limit_s
from balancer.hooks.torque import main
from testdata import RECORDED

SCRIPTS = Path(balancer.__file__).parent / "hook_scripts"
ENVIRONMENTS = RECORDED / "slurm" / "hooks-env.txt"


def recorded(hook: str) -> dict[str, str]:
    """The environment that a real slurmctld gave to this hook."""
    part = ENVIRONMENTS.read_text(encoding="utf-8").split(f"=== {hook} at ")[1].split("\n\n")[0]
    pairs = (line.strip().partition("=") for line in part.splitlines()[1:])
    return {name: value for name, _, value in pairs if name.startswith("SLURM")}


@pytest.fixture
def job(monkeypatch):
    """Job 37 on n01 and n02, as the recorded controller told its hooks."""

    def take(hook: str) -> None:
        for name, value in recorded(hook).items():
            monkeypatch.setenv(name, value)

    take("prologctld")
    return take


def test_a_prolog_on_the_controller_reports_all_nodes_of_the_job_at_once(job, fake):
    assert main(["slurm-prolog"]) == 0
    assert fake.seen == [("/v1/update_nodes", {"states": {"n01": "busy", "n02": "busy"}, "job": "37"})]


def test_an_epilog_on_the_controller_reports_the_nodes_idle(job, fake):
    job("epilogctld")
    assert main(["slurm-epilog"]) == 0
    assert fake.seen == [("/v1/update_nodes", {"states": {"n01": "idle", "n02": "idle"}, "job": "37"})]


def test_the_time_limit_is_told_where_slurm_tells_it(job, fake, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_START_TIME", "1795224832")
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1795225132")
    assert main(["slurm-prolog"]) == 0
    assert fake.seen[0][1]["remaining_s"] == 300.0


@pytest.mark.parametrize("end", ["", "soon", "1795224832", "0"])
def test_a_time_limit_that_makes_no_sense_is_left_out(end):
    assert time_limit_s({"SLURM_JOB_START_TIME": "1795224832", "SLURM_JOB_END_TIME": end}) is None


@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
@pytest.mark.parametrize("hook", ["slurm-prolog", "slurm-epilog"])
def test_no_answer_of_the_balancer_keeps_a_job_from_running(job, fake, hook, status):
    fake.status = status
    assert main([hook]) == 0


@pytest.mark.parametrize("hook", ["slurm-prolog", "slurm-epilog"])
def test_a_balancer_that_is_down_keeps_no_job_from_running(job, fake, monkeypatch, hook):
    monkeypatch.setenv("BALANCER_URL", "http://127.0.0.1:9")
    assert main([hook]) == 0


def test_a_balancer_that_hangs_costs_no_more_than_the_deadline(job, fake, monkeypatch):
    monkeypatch.setenv("BALANCER_HOOK_DEADLINE_S", "0.2")
    fake.answers.clear()
    start_us = wall_us()
    assert main(["slurm-prolog"]) == 0
    assert wall_us() - start_us < 20_000_000


@pytest.mark.parametrize("nodes", ["", "n[01-", "n[02-01]", "n01,n01", "n 1", "\udcff"])
def test_nodes_that_cannot_be_read_are_a_message_and_nothing_else(job, fake, monkeypatch, capsys, nodes):
    monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    monkeypatch.delenv("SLURM_NODELIST", raising=False)
    assert main(["slurm-prolog"]) == 0
    assert "the nodes of job 37 are not known" in capsys.readouterr().err
    assert fake.seen == []


def test_outside_slurm_nothing_is_told(fake, monkeypatch, capsys):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n01")
    assert main(["slurm-epilog"]) == 0
    assert "must be run by slurmctld" in capsys.readouterr().err
    assert fake.seen == []


@pytest.mark.parametrize("body", ["exit 0", "exit 1", "exit 2", "exit 127", "kill -9 $$"])
@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_the_installed_scripts_always_end_well(tmp_path, hook, body):
    command = tmp_path / "balancer"
    command.write_text(f"#!/bin/sh\necho $* > {tmp_path}/called\n{body}\n", encoding="utf-8")
    command.chmod(0o755)
    script = shutil.copy(SCRIPTS / f"slurm-{hook}", tmp_path / hook)
    env = {"PATH": "/bin:/usr/bin", "BALANCER_COMMAND": str(command)}
    assert subprocess.run([script], env=env, check=False, capture_output=True).returncode == 0
    assert (tmp_path / "called").read_text(encoding="utf-8") == f"hook slurm-{hook}\n"


def test_a_missing_balancer_command_does_not_matter_to_an_installed_script(tmp_path):
    env = {"PATH": "/bin:/usr/bin", "BALANCER_COMMAND": str(tmp_path / "nowhere")}
    assert (
        subprocess.run([SCRIPTS / "slurm-prolog"], env=env, check=False, capture_output=True).returncode == 0
    )
