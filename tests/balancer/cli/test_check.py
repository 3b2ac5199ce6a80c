"""`balancer check`: what is not so in batch system and cloud is a line each, before the service runs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from balancer.console import cli
from balancer.drivers.base import SiteCheck
from balancer.drivers.torque import TorqueDriver


@pytest.fixture
def check(service, monkeypatch):
    """`check(*arguments)` beside a fake Torque with the nodes n01 to n03: exit status and lines."""
    site = service(3)
    monkeypatch.setenv("PATH", site.environment["PATH"])

    def run(*arguments, nodes="n[01-03]"):
        ended = CliRunner().invoke(cli, ["check", "--nodes", nodes, *arguments])
        return ended.exit_code, ended.output.splitlines()

    return run


def test_a_site_at_which_all_is_well(check):
    assert check() == (
        0,
        [
            "ok      torque answers",
            "ok      torque lists the nodes",
            "ok      what it says of them can be read",
        ],
    )


def test_nodes_that_the_batch_system_does_not_know_are_named(check):
    status, lines = check(nodes="n[01-08]")
    assert status == 1
    assert lines[1] == (
        "not so  torque lists the nodes: n04, n05, n06 and 2 more not known to torque: mend `nodes`, or add them there"
    )


def test_what_the_driver_finds_is_told_and_fails(check, monkeypatch):
    found = (SiteCheck("may drain nodes", "root is asleep: wake root"), SiteCheck("sees all jobs", ""))
    monkeypatch.setattr(TorqueDriver, "check_site", lambda *_: found, raising=False)
    status, lines = check()
    assert (status, lines[3:]) == (
        1,
        ["not so  may drain nodes: root is asleep: wake root", "ok      sees all jobs"],
    )


def test_a_batch_system_that_does_not_answer(check, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    status, (line,) = check()
    assert (status, line.startswith("not so  torque answers: pbsnodes cannot be started")) == (1, True)


def test_as_json(check):
    status, lines = check("--json")
    assert (status, json.loads("\n".join(lines))[0]) == (0, {"what": "torque answers", "problem": ""})


def test_a_wrong_configuration_is_a_wrong_call(check):
    status, lines = check(nodes="n[3-1]")
    assert (status, lines[0].startswith("balancer: ")) == (2, True)
