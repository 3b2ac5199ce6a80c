from __future__ import annotations

import io

import pytest
from rich.console import Console

from emulator.kernel.compiled import cache_folder
from emulator.report.progress import COMPILING, ReadingProgress, RunProgress, clock_text
from emulator.workload.files import WATCH, open_trace

US = 1_000_000


class Wall:
    now_us = 0

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def wall():
    return Wall()


def console(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=140, color_system=None)


def test_nothing_is_shown_in_the_first_two_seconds(wall):
    out = console(terminal=False)
    with RunProgress(jobs=10, console=out, wall=wall) as progress:
        for wall.now_us in range(0, 2 * US, US // 10):
            progress.update(wall.now_us, 1)

    assert out.file.getvalue() == ""


def test_without_a_terminal_a_line_comes_every_five_seconds(wall):
    out = console(terminal=False)
    with RunProgress(jobs=100, console=out, wall=wall) as progress:
        for second in range(13):
            wall.now_us = second * US
            progress.update(second * 3600 * US, 5 * second, granted=second, rejected=1)

    assert out.file.getvalue().splitlines() == [
        "cluster time 02:00:00, 10 of 100 jobs done, on demand 2 granted, 1 rejected",
        "cluster time 07:00:00, 35 of 100 jobs done, on demand 7 granted, 1 rejected, about 13 s left",
        "cluster time 12:00:00, 60 of 100 jobs done, on demand 12 granted, 1 rejected, about 8 s left",
    ]


def test_nothing_is_said_of_the_time_left_before_there_is_something_to_go_by(wall):
    out = console(terminal=False)
    with RunProgress(jobs=1_000_000, console=out, wall=wall) as progress:
        for second, done in ((0, 0), (4, 300_000), (9, 49_999), (59, 49_999), (64, 20_000)):
            wall.now_us = second * US
            progress.update(0, done)

    assert [line.partition("done")[2] for line in out.file.getvalue().splitlines()] == [
        "", "", "", ", about 52 min 16 s left",
    ]  # fmt: skip


def test_on_a_terminal_there_is_a_bar_that_goes_away(wall, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = console(terminal=True)
    with RunProgress(jobs=100, end_us=100 * US, console=out, wall=wall) as progress:
        for wall.now_us, done in ((0, 0), (5 * US, 7), (6 * US, 7)):
            progress.update(7 * wall.now_us, done)

    assert "42 %" in out.file.getvalue()
    assert "7 of 100 jobs done, about 1 min 6 s left" in out.file.getvalue()
    assert out.file.getvalue().endswith("\x1b[2K")


def test_the_first_run_of_a_version_says_that_it_compiles(wall, tmp_path, monkeypatch):
    monkeypatch.setenv("EMULATOR_CACHE_DIR", str(tmp_path))
    for quiet, said in ((False, f"{COMPILING}\n"), (True, "")):
        out = console(terminal=False)
        RunProgress(jobs=10, console=out, wall=wall, quiet=quiet).announce_compiling()
        assert out.file.getvalue() == said
    (cache_folder() / "a kernel").mkdir(parents=True)
    out = console(terminal=False)
    RunProgress(jobs=10, console=out, wall=wall).announce_compiling()
    assert out.file.getvalue() == ""


def test_what_compiling_took_is_no_measure_of_the_time_left(wall, tmp_path, monkeypatch):
    monkeypatch.setattr("emulator.kernel.compiled.cache_folder", lambda: tmp_path / "none")
    out = console(terminal=False)
    with RunProgress(jobs=100, console=out, wall=wall) as progress:
        progress.announce_compiling()
        for wall.now_us, done in ((20 * US, 10), (21 * US, 20), (25 * US, 55)):
            progress.update(wall.now_us, done)

    _, *shown = out.file.getvalue().splitlines()
    assert shown == ["cluster time 00:00:25, 55 of 100 jobs done, about 5 s left"]


def test_quiet_is_quiet(wall):
    out = console(terminal=True)
    with RunProgress(jobs=10, console=out, wall=wall, quiet=True) as progress:
        wall.now_us = 60 * US
        progress.update(0, 5)

    assert out.file.getvalue() == ""


def test_cluster_time_is_written_with_days():
    assert [clock_text(time_s) for time_s in (0, 3725.9, 273_906)] == ["00:00:00", "01:02:05", "3 d 04:05:06"]


def test_a_run_that_goes_on_is_not_taken_for_one_that_did_all_before_in_a_moment(wall):
    out = console(terminal=False)
    with RunProgress(jobs=100, end_us=50 * US, console=out, wall=wall, what="jobs and leases") as progress:
        for wall.now_us, done in ((0, 80), (3 * US, 80), (10 * US, 90)):
            progress.update(60 * US, done)

    assert out.file.getvalue().splitlines() == [
        "cluster time 00:01:00, 80 of 100 jobs and leases done",
        "cluster time 00:01:00, 90 of 100 jobs and leases done, about 10 s left",
    ]


def test_jobs_that_left_their_nodes_more_than_once_are_no_more_than_there_are(wall):
    out = console(terminal=False)
    with RunProgress(jobs=335, console=out, wall=wall) as progress:
        for wall.now_us in (0, 3 * US):
            progress.update(3600 * US, 361)

    assert out.file.getvalue() == "cluster time 01:00:00, 335 of 335 jobs done\n"


def test_the_last_jobs_that_outlast_every_submit_have_no_fraction_of_a_second_to_go(wall):
    out = console(terminal=False)
    with RunProgress(jobs=100, end_us=100 * US, console=out, wall=wall) as progress:
        for wall.now_us, done in ((0, 0), (120 * US, 99), (120 * US + 300_000, 99)):
            progress.update(100 * US, done)

    assert "about 1 s left" in out.file.getvalue()
    assert "about 0" not in out.file.getvalue()


def test_a_log_that_is_read_for_long_says_how_far_it_is(wall, tmp_path):
    path = tmp_path / "log.swf"
    path.write_bytes(b"x" * (1 << 20))
    out, quiet = console(terminal=False), console(terminal=False)
    shown = ReadingProgress(lambda: False, console=out, wall=wall)
    silent = ReadingProgress(lambda: True, console=quiet, wall=wall)

    def watch(*read):
        wall.now_us += 2 * US
        shown.update(*read)
        silent.update(*read)

    token = WATCH.set(watch)
    try:
        with open_trace(path) as stream:
            while stream.read(1 << 17):
                pass
    finally:
        WATCH.reset(token)
    lines = out.file.getvalue().splitlines()
    assert [line.replace(f" of {path} read", "") for line in lines] == [
        "25.0 %",
        "62.5 %, about 5 s left",
    ]
    assert quiet.file.getvalue() == ""
