"""Which clock the service goes by."""

from __future__ import annotations

import pytest

from balancer.clock import SystemClock
from balancer.config import ConfigError, read_config
from balancer.plugins import CLOCKS, make_plugin
from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock


@pytest.mark.parametrize("item", ["wall", {"wall": {}}])
def test_the_wall_clock_is_called_wall(item):
    assert isinstance(make_plugin(CLOCKS, item), SystemClock)


def test_another_package_brings_its_own_with_parameters(tmp_path):
    master = SharedClockMaster(tmp_path / "clock", speed=60, start_us=7)
    clock = make_plugin(CLOCKS, {"shared": {"path": str(tmp_path / "clock"), "rank": "forecast"}})
    assert isinstance(clock, SharedClock)
    assert (clock.speed, clock.now_us(), clock.alarm()._rank) == (master.speed, 7, EventPriority.FORECAST)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("sundial", "there is no clock 'sundial'; there are: shared, wall"),
        ({"wall": {"speed": 2}}, "clock wall has no parameter 'speed'; it has none"),
        (
            {"shared": {"path": "/nowhere/clock"}},
            "there is no clock /nowhere/clock: No such file or directory",
        ),
        ({"shared": {"path": "x", "rank": "boss"}}, "there is no rank 'boss'; there are: job_end, "),
        ({"wall": {}, "shared": {}}, "a clock has one name, and here are 2: wall, shared"),
        (7, "a clock is written as"),
    ],
)
def test_a_wrong_clock_is_an_error_that_says_what_to_do(item, said):
    with pytest.raises(ValueError, match=said):
        make_plugin(CLOCKS, item)


def test_the_configuration_names_its_key():
    config = read_config(None, {"nodes": "n1", "clock": "sundial"})
    with pytest.raises(ConfigError, match="clock: there is no clock 'sundial'"):
        config.make_clock()
