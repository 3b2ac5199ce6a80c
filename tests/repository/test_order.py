"""Workers begin with slow tests and end with quick ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from order import slow_first


class Item:
    """As much of a test as its order hangs on. `limit_s`: of the marker `timeout`."""

    def __init__(self, module, name, *, slow=False, live=False, limit_s=None, alone=False):
        self.path, self.name = Path(f"test_{module}.py"), f"{module}{name}"
        self.fixturenames = ("alone",) if alone else ()
        marks = {"slow": slow, "live": live, "timeout": limit_s}
        self._marks = {name: value for name, value in marks.items() if value}

    def get_closest_marker(self, name):
        return self._marks.get(name)


def quick(module, count):
    return [Item(module, number) for number in range(count)]


def ordered(items, workers=2):
    return [item.name for item in slow_first(items, workers)]


def test_the_slow_modules_are_at_the_heads_of_the_workers_parts():
    items = [*quick("a", 3), Item("b", 0, slow=True), *quick("c", 3), Item("d", 0, slow=True, limit_s=900)]
    assert ordered(items) == ["d0", "a0", "a1", "a2", "b0", "c0", "c1", "c2"]


def test_a_module_stays_whole_also_if_only_one_of_its_tests_is_slow():
    items = [*quick("a", 2), Item("b", 0), Item("b", 1, slow=True), Item("b", 2), *quick("c", 3)]
    assert ordered(items) == ["b0", "b1", "b2", "a0", "a1", "c0", "c1", "c2"]


def test_those_that_wait_for_each_other_are_one_workers_and_those_that_wait_for_others_systems_anothers():
    slurm, nova = (Item(module, 0, slow=True, live=True, limit_s=900) for module in "ag")
    fleets = [Item(module, 0, slow=True, alone=True) for module in "be"]
    items = [slurm, fleets[0], *quick("c", 2), Item("d", 0, slow=True), fleets[1], *quick("f", 2), nova]
    assert ordered(items, 3) == ["b0", "e0", "c0", "a0", "g0", "c1", "d0", "f0", "f1"]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_nothing_is_lost_or_done_twice(workers):
    items = [Item(module, number, slow=module < 7) for module in range(10) for number in range(module)]
    assert sorted(ordered(items, workers)) == sorted(item.name for item in items)


def test_no_test_at_all_is_in_order_too():
    assert ordered([], 3) == []
