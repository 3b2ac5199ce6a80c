"""Plug-ins from files: what they are known as, what kind they are, and what is said where that cannot be."""

from __future__ import annotations

import threading

import pytest

from balancer.config import ConfigError, read_config
from balancer.plugin_files import PluginFile, files_of, in_use, load
from balancer.plugins import (
    ALGORITHMS,
    IN_USE,
    PREDICTORS,
    PluginError,
    find_plugin,
    make_plugin,
    plugin_names,
)
from emulator.plugins import KINDS

SOURCE = '''
from __future__ import annotations
from dataclasses import dataclass
import math

@dataclass
class KeepSome:
    """Keeps some."""
    keep: int = 1
    def plan(self, view): ...

class HPCOrder:
    name = "my_order"
    plugin_kind = "queue_order"
    def __call__(self, jobs, config): ...

@dataclass
class Named:
    name: str = "not this"
    def predict(self, history, slot): return 1

def widest(jobs, config): ...

class Both:
    def plan(self, view): ...
    def predict(self, history, slot): ...

class Odd:
    pass

class Basic:
    def plan(self, view): ...

class Wrong:
    plugin_kind = "algoritm"
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my.py"
    path.write_text(SOURCE)
    return path


def loaded(file, *names, kinds=KINDS):
    return load([PluginFile(file=file, name=name) for name in names], kinds)


def test_a_plugin_is_known_by_its_class_or_by_its_attribute_name(file):
    found = loaded(file, "KeepSome", "HPCOrder", "Named", "widest")
    assert [(each.group, each.name) for each in found.things] == [
        ("balancer.algorithms", "keep_some"),
        ("emulator.queue_orders", "my_order"),
        ("balancer.predictors", "named"),
        ("emulator.queue_orders", "widest"),
    ]


def test_it_is_known_inside_the_block_and_nowhere_else(file):
    with in_use(loaded(file, "KeepSome")):
        assert make_plugin(ALGORITHMS, {"keep_some": {"keep": 3}}).keep == 3
        elsewhere = []
        other = threading.Thread(target=lambda: elsewhere.append(plugin_names(ALGORITHMS)))
        other.start()
        other.join()
        assert "keep_some" not in elsewhere[0]
    assert "keep_some" not in plugin_names(ALGORITHMS)


def test_a_changed_file_is_another_one_and_two_runs_may_have_each_its_own(file):
    before = loaded(file, "KeepSome")
    file.write_text(SOURCE.replace("keep: int = 1", "keep: int = 7"))
    after = loaded(file, "KeepSome")
    assert before != after
    for plugins, keep in ((before, 1), (after, 7), (before, 1)):
        with in_use(plugins):
            assert make_plugin(ALGORITHMS, "keep_some").keep == keep


def test_a_file_that_is_not_what_was_written_down_is_refused(file):
    (stored,) = files_of(loaded(file, "KeepSome"))
    assert load([stored]).things[0].sha256 == stored.sha256
    file.write_text(SOURCE + "\n")
    with pytest.raises(
        PluginError, match=r"my\.py has changed since it was written down .*take its `sha256` out"
    ):
        load([stored])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("KeepSum", "has no 'KeepSum'; did you mean 'KeepSome'?"),
        ("Both", "could be an algorithm or a predictor; say which with `plugin_kind = 'algorithm'`"),
        ("Odd", "what kind of plug-in is it? It has not what one of them needs (mechanism: on_arrival or"),
        ("Wrong", "there is no kind of plug-in 'algoritm'; did you mean 'algorithm'?"),
        (
            "Basic",
            "there is an algorithm 'basic' already (balancer.algorithms.basic:Basic); give it another name",
        ),
    ],
)
def test_what_cannot_be_told_is_an_error_that_names_the_file(file, name, text):
    with pytest.raises(PluginError) as error:
        loaded(file, name)
    assert str(file) in str(error.value)
    assert text in str(error.value)


def test_a_service_knows_its_own_kinds_only(file):
    with pytest.raises(PluginError, match=r"\(jobs, config\) says nothing; name them as in one of: "):
        load([PluginFile(file=file, name="widest")])


def test_two_of_a_name_are_one_too_many(file, tmp_path):
    other = tmp_path / "other.py"
    other.write_text(SOURCE)
    with pytest.raises(
        PluginError, match=r"other\.py:KeepSome: there is .* 'keep_some' already \(.*my\.py:KeepSome\)"
    ):
        load([PluginFile(file=file, name="KeepSome"), PluginFile(file=other, name="KeepSome")], KINDS)


def test_the_same_one_twice_is_one(file):
    assert len(loaded(file, "KeepSome", "KeepSome").things) == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = 1\n\n\ny = x / 0\n", "my.py, line 4: ZeroDivisionError: division by zero"),
        ("def f(:\n", "my.py, line 1: SyntaxError: invalid syntax"),
        ("import no_such_module\n", "my.py, line 1: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_file_that_raises_is_named_with_the_line(file, source, text):
    file.write_text(source)
    with pytest.raises(PluginError) as error:
        loaded(file, "KeepSome")
    assert text in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PluginError, match=r"gone\.py: No such file or directory"):
        loaded(tmp_path / "gone.py", "KeepSome")


@pytest.mark.parametrize(
    "written", ["my.py", "my.py:", ":Thing", "my.py:a b", {"file": "my.py"}, {"my.py": "Thing"}]
)
def test_how_it_is_written_is_said(written):
    with pytest.raises(ValueError, match=r"a plug-in is given as FILE\.py:NAME, for example my\.py:MyThing"):
        PluginFile.model_validate(written)


def config(folder, text):
    path = folder / "balancer.yaml"
    path.write_text("nodes: n[1-4]\n" + text)
    return read_config(path, {})


def test_the_service_takes_them_relative_to_its_configuration_file(file):
    made = config(file.parent, "plugins: [my.py:KeepSome]\nalgorithm: {keep_some: {keep: 4}}\n")
    assert made.make_algorithm().keep == 4
    assert made.algorithm_name == "keep_some"
    assert IN_USE.get().things == ()


def test_what_the_command_gave_is_added_to_the_configuration(file):
    with in_use(loaded(file, "Named")):
        made = config(file.parent, "plugins: [my.py:KeepSome]\nalgorithm: {keep_some: {keep: 4}}\n")
    with made.plugged_in():
        assert {"named"} <= set(plugin_names(PREDICTORS))
        assert {"keep_some"} <= set(plugin_names(ALGORITHMS))


def test_one_of_another_kind_is_told_as_what_it_is_taken_for(file):
    with in_use(loaded(file, "KeepSome")), pytest.raises(PluginError) as error:
        find_plugin(PREDICTORS, "keep_some")
    assert str(error.value) == f"there is no predictor 'keep_some'; {file}:KeepSome has what an algorithm has"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plugins: my.py:KeepSome\n", "plugins: a list of FILE.py:NAME is expected, not 'my.py:KeepSome'"),
        ("plugins: [my.py]\n", "plugins: a plug-in is given as FILE.py:NAME"),
        ("plugins: [{file: my.py, name: KeepSome, kind: x}]\n", "plugins: unknown key 'kind'"),
        ("plugins: [my.py:KeepSum]\n", "did you mean 'KeepSome'?"),
    ],
)
def test_a_wrong_key_plugins_names_the_configuration_file(file, text, message):
    with pytest.raises(ConfigError) as error:
        config(file.parent, text)
    assert "balancer.yaml: " in str(error.value)
    assert message in str(error.value)


def test_a_wrong_parameter_of_the_algorithm_names_the_key(file):
    made = config(file.parent, "plugins: [my.py:KeepSome]\nalgorithm: {keep_some: {kepe: 4}}\n")
    with pytest.raises(
        ConfigError, match="algorithm: algorithm keep_some has no parameter 'kepe'; did you mean 'keep'"
    ):
        made.make_algorithm()
