"""A key that is given twice is refused wherever people write YAML: the last one would win in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import balancer
import emulator
from balancer.config import ConfigError, read_config
from balancer.wrong_values import not_yaml
from balancer.yaml_text import read_yaml
from command_line import balance
from emulator.runs.scenario import ScenarioError, read_document

OF_PROGRAMS = {"schedulers/slurm/sacctmgr.py"}
"""Files that read what a program wrote, as it wrote it."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reserve: 1\nwait_s: 5\nreserve: 2\n", ", line 3: not valid YAML: the key reserve is given twice"),
        ("driver:\n  slurm:\n    a: 1\n    a: 1\n", ", line 4: not valid YAML: the key a is given twice"),
        ("- {a: 1, a: 2}\n", ", line 1: not valid YAML: the key a is given twice"),
    ],
)
def test_a_key_given_twice_is_refused_with_its_line(text, said):
    with pytest.raises(yaml.YAMLError) as error:
        read_yaml(text)
    assert not_yaml(error.value) == said


def test_everything_else_reads_as_ever():
    text = "usual: &usual {reserve: 1, wait_s: 5}\nours: {<<: *usual, reserve: 2}\n1: a\n'1': b\n"
    assert read_yaml(text) == yaml.safe_load(text)


def test_the_services_configuration_names_it(tmp_path):
    file = tmp_path / "balancer.yaml"
    file.write_text("nodes: n1\nreserve: 1\nreserve: 0\n")
    with pytest.raises(
        ConfigError, match=r"balancer\.yaml, line 3: not valid YAML: the key reserve is given twice"
    ):
        read_config(file, {})


def test_a_scenario_names_it(tmp_path):
    file = tmp_path / "day.yaml"
    file.write_text("nodes: 4\nworkload: {}\nnodes: 8\n")
    with pytest.raises(
        ScenarioError, match=r"day\.yaml, line 3: not valid YAML: the key nodes is given twice"
    ):
        read_document(file)


def test_no_module_reads_yaml_of_people_otherwise():
    folders = [Path(each.__file__).parent for each in (balancer, emulator)]
    others = {
        file.relative_to(folder).as_posix()
        for folder in folders
        for file in folder.rglob("*.py")
        if "safe_load(" in file.read_text(encoding="utf-8")
    }
    assert others == OF_PROGRAMS


def test_a_predictors_parameter_that_is_no_yaml_is_a_wrong_call():
    ended = balance("predict", "--once", "--set", "combine={")
    assert (ended.exit_code, "--set combine={: not valid YAML" in ended.output) == (2, True)
