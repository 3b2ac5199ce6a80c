"""The runbook has each alert, each reason not to be ready and each state, and commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from balancer.console.commands import cli
from balancer.lifecycle.records import NodeRecord
from balancer.lifecycle.states import NodeState
from balancer.service.claims import claimed_by_another
from balancer.service.ledger_conflict import another_claims

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/balancer/runbook.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((ROOT / "deploy/prometheus/balancer.rules.yml").read_text(encoding="utf-8"))


def rows(heading):
    """The rows of the table below a heading, without its first two lines."""
    part = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (table,) = (each for each in part if each.startswith(f"{heading}\n"))
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_it_has_each_alert_once_in_the_order_of_the_rules():
    assert [row[0] for row in rows("Alerts")] == [
        f"`{rule['alert']}`" for group in RULES["groups"] for rule in group["rules"]
    ]


def test_it_has_each_state_of_a_node_once():
    stuck = [row[0].strip("`") for row in rows("A node is stuck")]
    assert sorted(stuck) == sorted(state.value for state in NodeState)


@pytest.mark.parametrize("heading", ["Alerts", "Not ready", "A node is stuck"])
def test_no_cell_is_empty(heading):
    assert all(all(cells) for cells in rows(heading))


def test_each_of_its_reasons_is_one_that_the_service_gives():
    source = "".join(
        (ROOT / "balancer" / "service" / name).read_text(encoding="utf-8")
        for name in ("claims.py", "engine.py", "writer.py")
    )
    quarantined = NodeRecord(
        name="n01", state=NodeState.QUARANTINED, since_us=0, doubt="its mark is of ledger 5f3a9c01, event 7-0"
    )
    source += another_claims([quarantined, quarantined], {}, "0badcafe") + claimed_by_another(
        "5f3a9c01", "0badcafe"
    )
    for said, _ in rows("Not ready"):
        for piece in filter(None, (each.strip(" `") for each in said.split("..."))):
            assert piece in source, piece


def test_its_commands_exist():
    spans = re.findall(r"`(balancer [^`]+)`", PAGE) + re.findall(r"^    (balancer .*)$", PAGE, re.MULTILINE)
    assert len(spans) > 30
    for span in spans:
        command: click.Command = cli
        words = shlex.split(span)[1:]
        while words and isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, span
            command = found
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, span
