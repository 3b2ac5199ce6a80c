"""Each way to start a live run refuses, with the key, what it does not carry out."""

from pathlib import Path

import pytest

from command_line import emulate
from emulator.live.containers import remote_fleet
from emulator.live.containers.startup import check_containers
from emulator.live.resume import keep
from emulator.runs.scenario import ScenarioError, load

FLEET = Path(__file__).parents[3] / "scenarios" / "fleet.yaml"
FREE = "live.pace=free"
FAULT = "live.faults=[{at_s: 10, do: kill, target: batch}]"
NOVA = "live.ondemand=nova"
SLURM = "live.batch=slurm"


def keep_check(scenario):
    with keep(Path("/nowhere"), scenario, 16):
        pass


@pytest.mark.parametrize(
    ("check", "changes", "said"),
    [
        (check_containers, (SLURM,), "live.batch: a fleet in containers has torque only, not slurm"),
        (check_containers, ("live.batch={slurm: {users: {1: a}}}",), "live.batch: "),
        (check_containers, ("live.batch=no_such_thing",), "live.batch: "),
        (check_containers, ("live.batch={torque: {speed: 3}}",), "live.batch: .*no parameter 'speed'"),
        (check_containers, (NOVA,), "live.ondemand: "),
        (check_containers, ("live.ondemand={manager: {speed: 3}}",), "live.ondemand: .*no parameter 'speed'"),
        (check_containers, ("live.hooks=in_process",), "live.hooks: .* has script only, not in_process"),
        (check_containers, ("live.jobs=cpu-bound",), "live.jobs: "),
        (keep_check, (SLURM,), "live.batch: a run with --keep has torque only"),
        (keep_check, (NOVA,), "live.ondemand: "),
        (keep_check, ("live.jobs=cpu-bound",), "live.jobs: "),
        (remote_fleet.SLURM.launcher.check, (), "live.batch: .* has slurm only, not torque"),
        (remote_fleet.SLURM.launcher.check, (SLURM, NOVA), "live.ondemand: "),
        (remote_fleet.SLURM.launcher.check, (SLURM, FAULT), "live.faults: "),
        (remote_fleet.NOVA.launcher.check, (SLURM, NOVA), "live.batch: "),
        (remote_fleet.NOVA.launcher.check, (), "live.ondemand: .* has nova only, not manager"),
        (remote_fleet.NOVA.launcher.check, (NOVA, FAULT), "live.faults: "),
    ],
)
def test_what_a_launcher_does_not_carry_out_is_refused_with_the_key(check, changes, said):
    scenario = load(FLEET, (*changes, FREE))
    with pytest.raises(ScenarioError, match=f"^{said}"):
        check(scenario)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("live.batch={torque: {}}", "live.ondemand={manager: {}}"),
        ("live.batch={torque: null}",),
        ("live.hooks=script",),
    ],
)
def test_a_plug_in_is_the_same_with_and_without_an_empty_table_of_parameters(changes):
    scenario = load(FLEET, changes)
    check_containers(scenario)
    assert (scenario.live.batch_name, scenario.live.ondemand_name) == ("torque", "manager")
    assert scenario.live.pace == "held"


def test_our_own_systems_with_an_empty_table_can_be_kept_as_well(tmp_path):
    scenario = load(FLEET, ("live.batch={torque: {}}", "live.ondemand={manager: {}}"))
    with keep(tmp_path, scenario, 16) as kept:
        assert not kept.is_resumed


def test_with_parameters_slurm_and_nova_are_what_their_containers_have():
    remote_fleet.SLURM.launcher.check(load(FLEET, ("live.batch={slurm: {}}",)))
    remote_fleet.NOVA.launcher.check(load(FLEET, ("live.ondemand={nova: {}}",)))


@pytest.mark.parametrize(
    ("item", "error"),
    [("{}", "is written as"), ("{torque: {}, slurm: {}}", "has one name, and here are 2: torque, slurm")],
)
def test_what_names_no_plug_in_or_two_is_an_error_of_the_scenario(item, error):
    with pytest.raises(ScenarioError, match=rf"live\.batch: a batch system {error}"):
        load(FLEET, (f"live.batch={item}",))


def test_hooks_are_scripts_only_where_every_node_has_a_container():
    check_containers(load(FLEET), has_rest=True)
    with pytest.raises(ScenarioError, match=r"^live\.hooks: "):
        check_containers(load(FLEET, ("live.hooks=script",)), has_rest=True)


@pytest.mark.parametrize("command", [("fleet", "up"), ("fleet", "swarm", "up", "--hosts", "2")])
@pytest.mark.parametrize("change", ["live.batch=no_such_thing", "live.hooks=in_process"])
def test_fleets_refuse_it_before_they_start_anything(command, change):
    done = emulate(*command, FLEET, "--set", change)
    assert done.exit_code == 2
    assert change.partition("=")[0] in done.output
