"""What a scenario's faults are to whoever carries them out."""

import pytest

from emulator.config.run_parts import FaultPart
from emulator.live.faults import Slow, Steps, steps_of


def test_a_fault_that_lasts_is_two_steps_in_order_of_time():
    faults = [
        FaultPart(at_s=300, do="kill", target="balancer", for_s=60),
        FaultPart(at_s=320, do="slow", target="n003", delay_ms=20),
    ]
    steps = steps_of(faults)
    assert [(step.at_us, step.text()) for step in steps] == [
        (300_000_000, "kill balancer"),
        (320_000_000, "slow n003 by 20 ms"),
        (360_000_000, "start balancer"),
    ]
    assert Slow(**steps[1].as_json()["slow"]) == Slow(delay_ms=20)


def test_steps_are_done_one_at_a_time_and_once():
    steps = Steps(steps_of([FaultPart(at_s=1, do="pause", target="n001", for_s=1)]))
    assert steps.due(999_999) is None
    assert steps.due(5_000_000).text() == "pause n001"
    assert (steps.finish(1), steps.finish(0), steps.finish(0)) == (False, True, False)
    assert steps.due(5_000_000).text() == "unpause n001"


@pytest.mark.parametrize(
    ("slow", "text", "discipline"),
    [
        (Slow(), "to 1000 kbit/s", "tbf rate 1000kbit burst 16kb latency 400ms"),
        (Slow(256), "to 256 kbit/s", "tbf rate 256kbit burst 16kb latency 400ms"),
        (Slow(None, 20), "by 20 ms", "netem delay 20ms"),
        (Slow(256, 20), "by 20 ms and to 256 kbit/s", "netem delay 20ms rate 256kbit"),
    ],
)
def test_slow_is_a_rate_or_a_delay_or_both(slow, text, discipline):
    assert (slow.text(), " ".join(slow.discipline())) == (text, discipline)
