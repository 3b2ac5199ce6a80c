"""A log shaken."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.clock import US
from emulator.workload.shake import Shake
from emulator.workload.table import JobTable, Kind


def jobs(count: int = 200) -> JobTable:
    return JobTable.build(
        submit_us=[30 * US * job for job in range(count)],
        run_us=[100 * US] * count,
        estimate_us=[105 * US, 90 * US] * (count // 2),
        nodes=[1] * count,
        number=list(range(1, count + 1)),
        kind=[Kind.BATCH] * (count - 1) + [Kind.ON_DEMAND],
    )


def shaken(seed: int, **parameters) -> JobTable:
    return Shake(**parameters).apply_random(jobs(), nodes=8, rng=np.random.default_rng(seed))


def test_batch_jobs_come_a_little_earlier_or_later_in_another_way_for_each_seed():
    found = shaken(1, submit_s=60)
    by_number = dict(zip(found.number.tolist(), found.submit_us.tolist(), strict=True))
    moved = np.array([by_number[job + 1] - 30 * US * job for job in range(200)])
    assert (np.abs(moved) <= 60 * US).all()
    assert {-1, 1} <= set(np.sign(moved))
    assert moved[-1] == 0, "a lease stays"
    assert (np.diff(found.submit_us) >= 0).all()
    assert found.submit_us.min() >= 0
    assert found.run_us.tolist() == jobs().run_us.tolist()
    assert shaken(2).submit_us.tolist() != found.submit_us.tolist()
    assert shaken(1, submit_s=0).submit_us.tolist() == jobs().submit_us.tolist()


def test_run_times_change_by_a_share_and_stay_within_what_was_asked_for():
    found = shaken(1, submit_s=0, run_share=0.2)
    assert found.run_us.min() >= 80 * US
    asked, over = found.run_us[found.number % 2 == 1], found.run_us[found.number % 2 == 0]
    assert asked.max() == 105 * US
    assert over.max() <= 100 * US, "what ran beyond its estimate runs no longer"
    assert len(np.unique(found.run_us)) > 100


@pytest.mark.parametrize("wrong", [{"submit_s": -1}, {"run_share": 1}])
def test_a_shake_has_bounds(wrong):
    with pytest.raises(ValueError, match="shake: "):
        Shake(**wrong)
