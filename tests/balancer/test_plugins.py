"""Plug-ins by name, and what is said about a wrong name or parameter."""

import importlib
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from balancer import plugins
from balancer.algorithms.basic import Basic
from balancer.algorithms.hint import Hint
from balancer.drivers.torque import TorqueDriver
from balancer.plugins import ALGORITHMS, BATCH_DRIVERS, PluginError, listing, made, make_plugin, plugin_names


class Mood(StrEnum):
    CALM = "calm"


class Tuned:
    def __init__(self, margin: int, share: float = 0.5, moods: tuple[Mood, ...] = ()) -> None:
        if isinstance(margin, int) and margin > 9:
            raise ValueError("margin is at most 9")
        self.values = (margin, share, moods)

    def plan(self, view):
        raise AssertionError("not called here")


@dataclass
class One:
    limit: int

    def plan(self, view):
        raise AssertionError("not called here")


def tuned(values):
    return made(ALGORITHMS, "tuned", Tuned, values)


def test_basic_and_hint_are_installed():
    assert {"basic", "hint"} <= set(plugin_names(ALGORITHMS))
    assert isinstance(make_plugin(ALGORITHMS, "basic"), Basic)
    assert isinstance(make_plugin(ALGORITHMS, {"hint": {}}), Hint)


def test_parameters_get_their_declared_types():
    assert tuned({"margin": 3}).values == (3, 0.5, ())
    assert tuned({"margin": 3, "moods": ["calm"]}).values == (3, 0.5, (Mood.CALM,))


def test_an_inherited_parameter_has_the_type_that_is_declared_where_its_class_stands(tmp_path, monkeypatch):
    (tmp_path / "declaring_module.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from pathlib import Path as Place\n\n\n@dataclass\nclass Parent:\n    place: Place\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    parent = importlib.import_module("declaring_module").Parent

    @dataclass
    class Child(parent):
        def plan(self, view):
            raise AssertionError("not called here")

    assert made(ALGORITHMS, "child", Child, {"place": "conf"}).place == Path("conf")


def test_one_parameter_may_be_given_without_its_name():
    assert made(ALGORITHMS, "one", One, 3) == One(3)
    assert tuned(3).values == (3, 0.5, ()), "the others have defaults"


def test_a_driver_takes_its_settings_as_parameters():
    driver = make_plugin(BATCH_DRIVERS, {"torque": {"timeout_s": 3, "note": ""}})
    assert isinstance(driver, TorqueDriver)
    assert (driver.settings.timeout_s, driver.settings.note) == (3, "")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"margin": 1, "shaer": 1}, "algorithm tuned has no parameter 'shaer'; did you mean 'share'?"),
        ({"zzz": 1}, "algorithm tuned has no parameter 'zzz'; there are: margin, moods, share"),
        ({}, "algorithm tuned needs the parameter 'margin'"),
        ({"margin": "3"}, "algorithm tuned: margin: must be a whole number, not '3'"),
        ({"margin": True}, "algorithm tuned: margin: must be a whole number, not True"),
        ({"margin": 1, "moods": ["wild"]}, "algorithm tuned: moods: must be 'calm', not ['wild']"),
        ({"margin": 10}, "margin is at most 9"),
    ],
)
def test_a_wrong_parameter_is_named_and_the_nearest_right_one_too(parameters, message):
    with pytest.raises(ValueError) as bad:
        tuned(parameters)
    assert str(bad.value) == message


@dataclass
class Room:
    size: int


class Housed:
    def __init__(self, room: Room, spare: Room | None = None, others: dict[str, Room] | None = None) -> None:
        self.values = (room, spare, others)

    def plan(self, view):
        raise AssertionError("not called here")


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"room": {"size": 1, "colour": 2}}, "room: colour"),
        ({"room": {"size": 1}, "spare": {"size": 1, "colour": 2}}, "spare: colour"),
        ({"room": {"size": 1}, "others": {"a": {"size": 1, "colour": 2}}}, "others: a.colour"),
    ],
)
def test_a_key_that_a_table_of_settings_does_not_have_is_named(parameters, key):
    with pytest.raises(PluginError) as bad:
        made(ALGORITHMS, "housed", Housed, parameters)
    assert str(bad.value) == f"algorithm housed: {key}: there is no such key"


def test_tables_of_settings_are_what_they_are_declared_as():
    rooms = {"room": {"size": 1}, "others": {"a": {"size": 2}}}
    assert made(ALGORITHMS, "housed", Housed, rooms).values == (Room(1), None, {"a": Room(2)})
    with pytest.raises(PluginError, match="algorithm housed: room: "):
        made(ALGORITHMS, "housed", Housed, {"room": None})


def test_an_algorithm_without_parameters_says_so():
    with pytest.raises(PluginError, match="algorithm basic has no parameter 'reserve'; it has none"):
        make_plugin(ALGORITHMS, {"basic": {"reserve": 3}})
    with pytest.raises(PluginError, match="algorithm basic has no parameters, not 3"):
        make_plugin(ALGORITHMS, {"basic": 3})


def test_an_unknown_algorithm_is_named_and_the_nearest_right_one_too():
    with pytest.raises(PluginError, match="there is no algorithm 'basics'; did you mean 'basic'"):
        make_plugin(ALGORITHMS, "basics")


@pytest.mark.parametrize("item", [7, {}, ["basic"]])
def test_what_is_neither_a_name_nor_one_with_parameters_is_refused(item):
    with pytest.raises(PluginError, match="an algorithm is written as `name` or `name: "):
        make_plugin(ALGORITHMS, item)


def test_two_names_are_named():
    with pytest.raises(PluginError, match="an algorithm has one name, and here are 2: basic, hint"):
        make_plugin(ALGORITHMS, {"basic": {}, "hint": {"x": 1}})


@pytest.mark.parametrize("thing", [type("Odd", (), {}), 7])
def test_what_has_no_plan_is_no_algorithm(thing):
    with pytest.raises(PluginError, match="algorithm odd is no algorithm: it has no plan"):
        made(ALGORITHMS, "odd", thing)


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch):
    broken = EntryPoint("broken", "no_such_module:Thing", ALGORITHMS)
    monkeypatch.setattr(plugins, "installed", lambda _: {"broken": broken})
    with pytest.raises(PluginError, match=r"algorithm broken \(no_such_module:Thing\) cannot be loaded"):
        make_plugin(ALGORITHMS, "broken")


def test_the_listing_has_parameters_with_defaults_and_the_first_line():
    torque = listing(BATCH_DRIVERS)["torque"]
    assert torque["about"] == "`balancer.drivers.base.BatchDriver` for Torque."
    assert torque["parameters"] == {
        "pbsnodes": "pbsnodes",
        "qmgr": "qmgr",
        "qstat": "qstat",
        "timeout_s": 15.0,
        "ask_for_cycle": True,
        "note": "lent to on-demand by the Balancer",
        "claim": True,
    }
    assert torque["from"] == "balancer.drivers.torque:TorqueDriver"
