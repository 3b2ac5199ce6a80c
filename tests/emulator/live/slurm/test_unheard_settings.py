"""What the twin of Slurm is told the real one hears, or the run is refused with the key."""

from dataclasses import fields
from pathlib import Path

import pytest

from emulator.cluster.slurm_scheduler import Slurm
from emulator.live.slurm.requirements import unheard_setting
from emulator.live.slurm.system import SlurmSystem
from emulator.runs.scenario import ScenarioError, from_mapping

VALUES = {
    "conf": "site.conf", "queues": {1: "batch"}, "shares": {1: 2.0}, "qos": {"normal": {"priority": 1}},
    "queue_qos": {1: "normal"}, "user_qos": {1: "normal"}, "priority_type": "multifactor",
    "reservations": {"r": {"start_s": 10, "end_s": 20}}, "select": {"cores": 4},
}  # fmt: skip
CARRIED_OUT = {"reservations", "select"}
IN_THE_DATABASE = {"qos", "queue_qos", "user_qos", "cpus_per_node", "shares"}
SWITCHES = {each.name for each in fields(Slurm) if each.name not in VALUES and "bool" in str(each.type)}


def a_scenario(key):
    value = VALUES.get(key, key in SWITCHES or 7)
    return from_mapping(
        {
            "name": "told", "nodes": 16, "workload": {"generate": [{"daily_batch": {"days": 0.02, "jobs": 2}}]},
            "scheduler": {"slurm": {key: value}}, "live": {"batch": "slurm"},
        }
    )  # fmt: skip


@pytest.mark.parametrize("has_database", [False, True])
@pytest.mark.parametrize("key", [each.name for each in fields(Slurm)])
def test_each_key_of_the_twin_is_heard_or_named(key, has_database):
    said = unheard_setting(a_scenario(key), {}, has_database=has_database)
    is_heard = key in CARRIED_OUT | (IN_THE_DATABASE if has_database else set())
    assert said == "" if is_heard else said.startswith(f"scheduler.slurm.{key}: ")


def test_a_run_with_a_key_that_slurm_would_not_hear_does_not_begin():
    with pytest.raises(ScenarioError, match=r"^scheduler\.slurm\.bf_interval: .* live\.batch\.slurm\.conf"):
        SlurmSystem().check(a_scenario("bf_interval"), None, None, None)


def test_what_live_batch_says_as_well_is_heard():
    said = {"conf": Path("site.conf"), "queues": {1: "batch"}}
    assert [unheard_setting(a_scenario(key), said, has_database=False) for key in said] == ["", ""]
