"""The one thread that reads for everybody."""

from __future__ import annotations

from balancer.service.reader import Reader
from manual_clock import ManualClock


def test_it_is_idle_only_when_no_reading_is_wanted_or_under_way():
    seen = []

    def read(_with_cloud: bool) -> bool:
        seen.append(reader.is_idle)
        return True

    reader = Reader(read, ManualClock(), 0.0, threaded=False)
    seen.append(reader.is_idle)
    reader.ask()
    seen.append(reader.is_idle)
    reader.step()
    seen.append(reader.is_idle)
    assert seen == [True, False, False, True]
