"""Algorithms by name, and what is said about a wrong name or parameter."""

from importlib.metadata import EntryPoint

import pytest

from balancer.algorithms import loader
from balancer.algorithms.basic import Basic
from balancer.algorithms.hint import Hint
from balancer.algorithms.loader import BadAlgorithm, algorithm_names, load_algorithm, make_algorithm


class Tuned:
    def __init__(self, margin: int, share: float = 0.5) -> None:
        if margin > 9:
            raise ValueError("margin is at most 9")
        self.values = (margin, share)

    def plan(self, view):
        raise AssertionError("not called here")


def test_basic_and_hint_are_installed():
    assert {"basic", "hint"} <= set(algorithm_names())
    assert isinstance(load_algorithm("basic"), Basic)
    assert isinstance(load_algorithm("hint", {}), Hint)


def test_parameters_get_their_declared_types():
    assert make_algorithm("tuned", Tuned, {"margin": "3"}).values == (3, 0.5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"margin": 1, "shaer": 1}, "algorithm tuned has no parameter 'shaer'; did you mean 'share'?"),
        ({"zzz": 1}, "algorithm tuned has no parameter 'zzz'; there are margin, share"),
        ({}, "algorithm tuned needs the parameter 'margin'"),
        ({"margin": "many"}, "algorithm tuned, parameter margin = 'many': Input should be a valid integer"),
        ({"margin": 10}, "algorithm tuned: margin is at most 9"),
    ],
)
def test_a_wrong_parameter_is_named_and_the_nearest_right_one_too(parameters, message):
    with pytest.raises(BadAlgorithm) as bad:
        make_algorithm("tuned", Tuned, parameters)
    assert str(bad.value).startswith(message)


def test_an_algorithm_without_parameters_says_so():
    with pytest.raises(BadAlgorithm, match="algorithm basic has no parameter 'reserve'; it has none"):
        load_algorithm("basic", {"reserve": 3})


def test_an_unknown_algorithm_is_named_and_the_nearest_right_one_too():
    with pytest.raises(BadAlgorithm, match="there is no algorithm 'basics'; did you mean 'basic'"):
        load_algorithm("basics")


def test_a_class_without_plan_is_no_algorithm():
    with pytest.raises(BadAlgorithm, match=r"algorithm odd has no method plan\(view\)"):
        make_algorithm("odd", type("Odd", (), {}), {})


def test_what_is_no_class_is_no_algorithm():
    with pytest.raises(BadAlgorithm, match="algorithm odd is not a class with named parameters"):
        make_algorithm("odd", 7, {})


def test_an_algorithm_that_cannot_be_imported_is_named(monkeypatch):
    broken = EntryPoint("broken", "no_such_module:Thing", loader.GROUP)
    monkeypatch.setattr(loader, "entry_points", lambda **_: [broken])
    with pytest.raises(BadAlgorithm, match=r"algorithm broken \(no_such_module:Thing\) cannot be loaded"):
        load_algorithm("broken")
