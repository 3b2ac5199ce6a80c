"""The README's table of a day is what its three policies give."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import emulator

ROOT = Path(__file__).parents[3]
POLICIES = {
    "two machines, 52 and 12 nodes": {"mechanism": {"static_partition": {"ondemand_nodes": 12}}},
    "Balancer, 6 nodes in reserve": {},
    "Balancer, 12 nodes in reserve, refilled": {
        "mechanism.balancer.static_reserve": 12,
        "mechanism.balancer.reserve_rule": "refilled",
    },
}


def rows_of_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("## What it buys you")[1].split("## ")[0]
    return dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.MULTILINE)[1:])


def test_the_table_has_a_row_for_each_policy():
    assert set(rows_of_the_readme()) - {"---"} == set(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_of_the_readme_is_what_its_run_gives(policy, tmp_path):
    emulator.run(ROOT / "scenarios" / "default.yaml", changes=POLICIES[policy], out=tmp_path / "run")
    figures = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    minutes, seconds = divmod(round(figures["mean_wait_s"]), 60)
    assert rows_of_the_readme()[policy] == (
        f"{figures['ondemand_granted']} of {figures['ondemand_requests']} | {minutes} min {seconds:02} s "
        f"| {figures['reserve_idle_node_h']:.0f} node-h"
    )
