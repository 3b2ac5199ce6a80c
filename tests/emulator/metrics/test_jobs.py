from __future__ import annotations

import numpy as np
import pytest

from emulator.metrics import jobs

US = 1_000_000


def us(*times_s: float) -> np.ndarray:
    return np.array([round(time_s * US) for time_s in times_s], np.int64)


def test_wait_is_start_minus_submit_and_response_is_end_minus_submit():
    assert jobs.wait_us(us(5, 7), us(9, 7)).tolist() == us(4, 0).tolist()
    assert jobs.response_us(us(5, 7), us(19, 8)).tolist() == us(14, 1).tolist()


def test_bounded_slowdown_divides_by_at_least_the_threshold_and_is_never_below_one():
    # 100 s response of a 50 s run; 100 s of a 1 s run (bounded to 10 s); 3 s of a 3 s run.
    slowdown = jobs.bounded_slowdown(us(100, 100, 3), us(50, 1, 3))

    assert slowdown.tolist() == [2, 10, 1]
    assert jobs.bounded_slowdown(us(100), us(1), threshold_s=50).tolist() == [2]


def test_a_threshold_of_zero_is_refused():
    with pytest.raises(ValueError, match="above 0 s, not 0"):
        jobs.bounded_slowdown(us(1), us(1), threshold_s=0)


def test_the_bounded_slowdown_of_wang_bounds_the_run_in_both_places():
    assert jobs.bounded_slowdown_wang(us(60, 600), us(1, 1200)).tolist() == [1.1, 1.5]


def test_slowdown_weighted_by_area_gives_large_jobs_their_weight():
    # areas 2 * 10 = 20 and 1 * 40 = 40, slowdowns 3 and 1.5: (60 + 60) / 60
    assert jobs.slowdown_weighted_by_area(np.array([2, 1], np.int32), us(30, 60), us(10, 40)) == 2


def test_a_job_of_no_length_has_no_weight_in_the_slowdown_by_area():
    assert jobs.slowdown_weighted_by_area(np.array([2, 9], np.int32), us(30, 99), us(10, 0)) == 3
    assert jobs.slowdown_weighted_by_area(np.array([9], np.int32), us(99), us(0)) is None


def test_figures_of_no_jobs_do_not_exist():
    assert jobs.mean_s(us()) is None
    assert jobs.mean(np.empty(0)) is None
    assert jobs.percentiles_s(us(), (50, 90)) == [None, None]


def test_percentiles_lie_between_the_closest_ranks():
    assert jobs.percentiles_s(us(1, 2, 3, 4), (0, 50, 100)) == [1, 2.5, 4]
