"""Local times of logs: whose clock it was, and the hours in which clocks change."""

from __future__ import annotations

import pytest

from command_line import emulate
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.study.logs import read_logs
from emulator.workload.files import TraceError
from emulator.workload.formats import load
from emulator.workload.local_times import in_zone
from emulator.workload.outages import read_outages
from emulator.workload.reservations import read_reservations

HEADER = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State"
NOON_UTC = 1_768_046_400
"""2026-01-10, 12:00 UTC."""
HOUR = 3600
BERLIN = "Europe/Berlin"


@pytest.fixture
def sacct_file(text_file):
    def build(*spans, name="sacct.txt"):
        """Jobs of an hour on one node, each with submit and start."""
        rows = [f"{at}|{submit}|{start}|3600|1|COMPLETED" for at, (submit, start) in enumerate(spans, 1)]
        return text_file(HEADER, *rows, name=name)

    return build


NOON = ("2026-01-10T12:00:00", "2026-01-10T12:10:00")


@pytest.mark.parametrize(("zone", "submit"), [(None, NOON_UTC), ("UTC", NOON_UTC), (BERLIN, NOON_UTC - HOUR)])
def test_local_times_of_sacct_are_of_the_zone_that_is_named(sacct_file, rows_of, zone, submit):
    with in_zone(zone):
        log = load(sacct_file(NOON))
    assert rows_of(log, "submit_s", "wait_s") == [(submit, 600)]


def test_an_offset_goes_before_the_zone(sacct_file, rows_of):
    with in_zone("America/Chicago") as zone:
        log = load(sacct_file(("2026-01-10T12:00:00+0100", "2026-01-10T12:10:00+01:00")))
    assert (rows_of(log, "submit_s", "wait_s"), zone.is_used) == ([(NOON_UTC - HOUR, 600)], False)


def test_of_an_hour_that_comes_twice_the_first_counts_that_is_not_before_the_submit(sacct_file, rows_of):
    path = sacct_file(("2026-10-25T02:50:00", "2026-10-25T02:10:00"))
    with in_zone(BERLIN):
        log = load(path)
    assert rows_of(log, "wait_s") == [(1200,)]
    said = "a time in the hour that Europe/Berlin has twice; the first that fits is taken"
    remedy = "SLURM_TIME_FORMAT=%s in front of sacct avoids that"
    assert log.remarks == {f"{said} ({remedy})": 1}
    with pytest.raises(
        TraceError, match=r"is before Submit .* \(were clocks set back\? run sacct with SLURM_TIME"
    ):
        load(path)


def test_a_wait_over_the_change_of_clocks_is_as_long_as_it_was(sacct_file, rows_of):
    with in_zone(BERLIN):
        log = load(sacct_file(("2026-03-29T01:50:00", "2026-03-29T03:10:00")))
    assert (rows_of(log, "wait_s"), log.remarks) == ([(1200,)], {})


def test_an_hour_that_the_zone_skips_is_told(sacct_file):
    with in_zone(BERLIN):
        (said,) = load(sacct_file(("2026-03-29T02:30:00", "2026-03-29T03:40:00"))).remarks
    assert "in the hour that Europe/Berlin skips; is it the right zone?" in said


def test_tables_over_time_have_local_times_too_but_not_openstacks(text_file):
    def first_s(*lines):
        return float(load(text_file(*lines)).column("submit_s").min())

    local = ("timestamp,nodes", "2026-01-10 12:00:00,1", "2026-01-10 13:00:00,1")
    gnocchi = ("timestamp,granularity,nodes", "2026-01-10 12:00:00,60,1", "2026-01-10 13:00:00,60,1")
    with in_zone(BERLIN):
        assert (first_s(*local), first_s(*gnocchi)) == (NOON_UTC - HOUR, NOON_UTC)


def test_weekly_files_begin_at_the_zones_midnight(tmp_path):
    heading = "SubmitTime,StartTime,EndTime,QueuedTime,RunTime,NodesRequested,walltime,bslowdown\n"
    for day in ("2015-03-01", "2015-03-08", "2015-03-15"):
        (tmp_path / f"{day}.csv").write_text(f"{heading}0,0,60,0,60,1,60,1\n")
    with in_zone("America/Chicago"):
        log = load(tmp_path)
    assert log.zero_unix_s == 1_425_189_600
    assert log.column("submit_s").tolist() == [0, 7 * 86_400, 14 * 86_400 - HOUR]  # clocks were set forward


def test_times_of_nodes_that_were_down_or_reserved_are_of_the_zone(text_file):
    down = text_file("NodeName|TimeStart|TimeEnd", "n1|2026-01-10T12:00:00|2026-01-10T13:00:00", name="down")
    kept = text_file("name,begin,end,nodes", "x,2026-01-10T12:00:00,2026-01-10T13:00:00,n1", name="kept")
    with in_zone(BERLIN):
        spans = {"n1": [(NOON_UTC - HOUR, NOON_UTC)]}
        assert read_outages(down, until_s=0) == spans
        assert read_reservations(kept, until_s=0) == (spans, {"x"})


def test_logs_are_laid_together_only_if_both_or_none_say_when_they_were(sacct_file):
    local, plain = sacct_file(NOON), sacct_file((NOON_UTC, NOON_UTC + 600), name="unix.txt")
    for batch, ondemand in ((local, plain), (plain, local)):
        with pytest.raises(
            ScenarioError, match=r"txt: its times say no offset .* say with --time-zone whose clock"
        ):
            read_logs(load(batch), load(ondemand), batch_nodes=2)
    assert "are taken for those of one clock" in read_logs(load(local), load(local), batch_nodes=2).notes[-1]
    with in_zone(BERLIN):
        found = read_logs(load(plain), load(sacct_file(("2026-01-10T13:00:00",) * 2)), batch_nodes=2)
    assert found.leases.submit_us.tolist() == [NOON_UTC * 1_000_000]


def test_a_converted_log_says_whose_clock_it_was(sacct_file, tmp_path):
    out = tmp_path / "out.swf"
    for words, key, value in (
        ((), "AssumedZone", "UTC"),
        (("--time-zone", BERLIN), "TimeZoneString", BERLIN),
    ):
        assert emulate("trace", "convert", *words, sacct_file(NOON), out).exit_code == 0
        assert load(out).keys[key] == (value,)


def test_commands_tell_of_a_zone_that_is_none_or_was_not_used(sacct_file):
    wrong = emulate("trace", "check", "--time-zone", "Mars", sacct_file(NOON), "--nodes", 1)
    said = "there is no time zone 'Mars'; names are such as Europe/Berlin, America/Chicago or UTC"
    assert (wrong.exit_code, wrong.stderr) == (2, f"emulator: --time-zone: {said}\n")
    unused = emulate("trace", "check", "--time-zone", BERLIN, sacct_file((100, 200)), "--nodes", 1)
    assert "--time-zone Europe/Berlin: all times say when they were, so it was not used" in unused.stderr
    assumed = emulate("trace", "check", sacct_file(NOON), "--nodes", 1)
    assert "they say no offset (--time-zone)" in " ".join(assumed.stdout.split())


def test_a_scenario_says_the_zone_and_one_that_means_nothing_is_refused(sacct_file, tmp_path):
    def run(log, *words):
        return emulate("run", log, "--nodes", 2, "--out", tmp_path / "run", "--no-report", "--quiet", *words)

    assert run(sacct_file(NOON), "--time-zone", BERLIN).exit_code == 0
    assert "time_zone" in (tmp_path / "run" / "summary.json").read_text()
    unused = run(sacct_file((100, 200)), "--set", f"workload.time_zone={BERLIN}")
    assert (unused.exit_code, "workload.time_zone: all times of" in unused.stderr) == (2, True)
    for part, why in (
        ({"generate": ["daily_batch"], "time_zone": BERLIN}, "there is no `trace`"),
        ({"trace": "x.swf", "time_zone": "Mars"}, "there is no time zone 'Mars'"),
    ):
        with pytest.raises(ScenarioError, match=why):
            from_mapping({"nodes": 2, "workload": part})
