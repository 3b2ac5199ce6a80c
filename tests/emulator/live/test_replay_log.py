"""The log of a replay, whole and cut short."""

from __future__ import annotations

import pytest

from emulator.live.replay_log import LeaseResult, ReplayLog, partial_path, read_replay


def test_a_finished_log_has_its_name_and_everything_in_it(tmp_path):
    log = ReplayLog(tmp_path / "replay.jsonl")
    log.write("submitted", 1_500_000, 1, job_id="1.pbs", tries=1)
    log.write("submit_failed", 2_000_000, 2, reason="no such queue")
    log.write("lease_granted", 3_000_001, 3, nodes=2)
    log.write("lease_ended", 9_000_001, 3)
    log.write("lease_rejected", 4_000_000, 4, reason="No valid host was found.")
    log.count("qsub_errors")
    log.finish(10_000_000, "")
    result = read_replay(tmp_path / "replay.jsonl")
    assert not partial_path(tmp_path / "replay.jsonl").exists()
    assert (result.job_ids, result.submitted_us, result.failed) == (
        {1: "1.pbs"},
        {1: 1_500_000},
        {2: "no such queue"},
    )
    assert result.leases == {
        3: LeaseResult(3, granted=True, decided_us=3_000_001, ended_us=9_000_001),
        4: LeaseResult(4, granted=False, decided_us=4_000_000, reason="No valid host was found."),
    }
    assert (result.interrupted, result.counted["qsub_errors"]) == ("", 1)


def test_what_a_killed_replayer_left_can_be_read(tmp_path):
    path = tmp_path / "replay.jsonl"
    log = ReplayLog(path)
    log.write("submitted", 0, 1, job_id="1.pbs", tries=1)
    log._lines.close()
    with partial_path(path).open("a", encoding="utf-8") as file:
        file.write('{"event": "submi')
    result = read_replay(path)
    assert result.job_ids == {1: "1.pbs"}
    assert result.interrupted == "the replayer did not finish its log"


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "replay.jsonl"
    path.write_text('{"event": "over", "at_s": 0, "interrupted": "", "counted": {}}\nnonsense\n')
    with pytest.raises(ValueError, match=r"replay\.jsonl:2: not a line of a replay log"):
        read_replay(path)
