"""How long checkpoints take: by hand, and what holds for any transfers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.machine.checkpoint_io import GB, MICRO, NEVER, Channel, CheckpointIO

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("nodes", "data_gb", "write_us"),
    [
        (1, 4, 2_000_000),  # 2 GB/s, the node's own
        (108, 4, 2_000_000),  # 108 nodes are the first to use all of 216 GB/s
        (512, 4, 9_481_482),  # 512 x 4 / 216
        (49_152, 16, 3_640_889_097),  # 49,152 x 16 / 216, with the rate rounded down to whole bytes
        (512, 0, 0),
    ],
)
def test_a_checkpoint_alone_by_the_papers_figures(nodes: int, data_gb: float, write_us: int):
    io = CheckpointIO(data_gb=data_gb)
    assert io.write_us(nodes) == write_us
    assert io.read_us(nodes) == io.write_us(nodes)


def test_two_that_write_at_once_share_the_cap():
    """Each could have 2 GB/s a node; together they want 4, the cap is 3."""
    channel = Channel(node_rate=2 * GB, cap=3 * GB)
    channel.begin(1, 1, 4 * GB * MICRO, 0)
    assert channel.next_end_us == 2 * SECOND
    channel.begin(2, 1, 4 * GB * MICRO, SECOND)  # job 1 has 2 GB left, both now have 1.5 GB/s
    assert channel.next_end_us == SECOND + 1_333_334
    assert channel.ended(SECOND + 1_333_334) == [1]
    # Job 2 has moved 2 GB and has the node's 2 GB/s again.
    assert channel.next_end_us == pytest.approx(SECOND + 1_333_334 + SECOND, abs=2)
    assert channel.ended(channel.next_end_us) == [2]
    assert channel.next_end_us == NEVER


def test_a_wide_job_has_the_same_rate_a_node_as_a_narrow_one():
    channel = Channel(node_rate=2 * GB, cap=4 * GB)
    channel.begin(1, 1, 4 * GB * MICRO, 0)
    channel.begin(2, 3, 4 * GB * MICRO, 0)
    assert channel.ended(4 * SECOND - 1) == []
    assert channel.ended(4 * SECOND) == [1, 2]


def test_one_that_is_given_up_leaves_its_share_to_the_others():
    channel = Channel(node_rate=4 * GB, cap=4 * GB)
    channel.begin(1, 1, 4 * GB * MICRO, 0)
    channel.begin(2, 1, 4 * GB * MICRO, 0)
    channel.cancel(2, SECOND)
    assert channel.next_end_us == SECOND + SECOND // 2


def test_a_job_transfers_once_at_a_time():
    channel = Channel(GB, GB)
    channel.begin(1, 1, GB, 0)
    with pytest.raises(ValueError, match="job 1 is transferring already"):
        channel.begin(1, 1, GB, 5)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=8),
    st.integers(1, 100),
)
def test_nobody_is_faster_than_the_cap_allows_and_all_end(transfers: list[tuple[int, int, int]], cap_gb: int):
    channel = Channel(node_rate=2 * GB, cap=cap_gb * GB)
    now_us, moved = 0, 0
    ended: list[int] = []
    for job, (nodes, data, wait_s) in enumerate(transfers):
        channel.begin(job, nodes, data * GB * MICRO, now_us)
        moved += nodes * data * GB
        until_us = now_us + wait_s * SECOND
        while channel.next_end_us <= until_us:
            now_us = channel.next_end_us
            ended += channel.ended(now_us)
        now_us = until_us
    while channel.next_end_us != NEVER:
        now_us = channel.next_end_us
        ended += channel.ended(now_us)
    assert sorted(ended) == list(range(len(transfers)))
    assert moved * SECOND <= cap_gb * GB * now_us


def test_bandwidths_are_above_nothing():
    with pytest.raises(ValueError, match="write_cap_gb_s must be at least"):
        CheckpointIO(write_cap_gb_s=0)
