"""What a scenario says of a plug-in is the same as `name`, `{name: null}` and `{name: {}}`, whoever looks at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from emulator.live.slurm.calibration import settings_of
from emulator.plugins import KINDS, named, plugin_names
from emulator.study.longer_waits import chains

ROOT = Path(__file__).parents[2]
SETTINGS = {"mechanism", "batch", "ondemand", "driver", "cloud", "decide"}
"""What such settings are called where they are looked at. (`algorithm` is a word of studies as well.)"""

FORMS = ["slurm", {"slurm": None}, {"slurm": {}}]


@pytest.mark.parametrize("item", FORMS)
def test_the_three_forms_are_one(item):
    assert named(item, "slurm") == {}
    assert named(item, "torque") is None


def test_parameters_are_given_and_what_names_two_or_none_is_nobody():
    assert named({"slurm": {"conf": "a"}}, "slurm") == {"conf": "a"}
    assert [named(item, "slurm") for item in (None, {}, {"slurm": {}, "torque": {}})] == [None, None, None]


@pytest.mark.parametrize("batch", FORMS)
def test_a_run_on_slurm_is_calibrated_however_it_was_named(batch):
    record = SimpleNamespace(
        clock="live", scenario={"live": {"batch": batch}}, interrupted=False, start_us=np.zeros(1)
    )
    assert settings_of(record) == {"priority_weight_age": 0, "priority_weight_fairshare": 0}


def test_runs_of_a_sweep_over_waits_are_one_chain_whatever_form_the_first_has():
    def run(mechanism):
        as_json = {"name": "", "mechanism": mechanism}
        return SimpleNamespace(
            key=str(mechanism), scenario=SimpleNamespace(mechanism=mechanism, as_json=lambda: as_json)
        )

    runs = [run(each) for each in ("balancer", {"balancer": {"wait_s": 300}}, {"balancer": None})]
    assert [len(chain) for chain in chains(SimpleNamespace(runs=runs)).chains] == [3]


def looks_by_hand(tree, names):
    """Comparisons of such a setting with the name of a plug-in: true for one of its forms only."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Compare):
            said = [each.left, *each.comparators]
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "get":
            said = [each.func.value, *each.args]
        else:
            continue
        called = {
            each.id if isinstance(each, ast.Name) else each.attr
            for each in said
            if isinstance(each, ast.Name | ast.Attribute)
        }
        texts = {
            each.value for each in said if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
        if called & SETTINGS and texts & names:
            yield ast.unparse(each)


@cache
def plug_ins():
    return {name for group in KINDS for name in plugin_names(group)}


def test_no_module_compares_a_plug_ins_setting_with_a_name_by_hand():
    found = {}
    for package in ("balancer", "emulator"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if any(word in text for word in SETTINGS) and (
                hits := list(looks_by_hand(ast.parse(text), plug_ins()))
            ):
                found[path.relative_to(ROOT).as_posix()] = hits
    assert found == {}


@pytest.mark.parametrize(
    "line",
    ['live.batch == "torque"', '"balancer" in mechanism', 'mechanism.get("balancer")', 'x.driver != "slurm"'],
)
def test_the_search_finds_what_it_is_for(line):
    assert list(looks_by_hand(ast.parse(line), plug_ins())) == [line.replace('"', "'")]
