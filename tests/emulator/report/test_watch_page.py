"""The page of a run that goes on: what there is so far, at no cost when nobody looks, until the run is over."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from http.client import HTTPConnection
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from balancer.clock import US
from chromium_kit import browser
from emulator.record.run_record import UNDER_WAY
from emulator.report.watch_page import WatchPage
from emulator.runs.preparation import prepare
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import load
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation import loop
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable
from polling import until
from testdata import TRACES

CHART = "document.querySelector('.gantt canvas').gantt"


class Hand:
    """A wall clock that is moved by hand."""

    def __init__(self):
        self.now_us = 0

    def __call__(self):
        return self.now_us


@pytest.fixture
def hand():
    return Hand()


@pytest.fixture
def page(hand):
    with WatchPage("a day", wall=hand) as opened:
        yield opened


def after(jobs):
    """The record of a run of which so many jobs have come; one on each node, one after the other."""
    table = JobTable.build(
        number=range(1, jobs + 1),
        submit_us=[10 * US * n for n in range(jobs)],
        run_us=[60 * US] * jobs,
        nodes=[1] * jobs,
    )
    return simulate(table, 4, SchedulerConfig())


def so_far(jobs):
    return replace(after(jobs), interrupted=UNDER_WAY)


def asked(url, path, host=None):
    """(status, body) of one call."""
    url = urlsplit(url)
    connection = HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("GET", path, headers={"Host": host or url.netloc})
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, body


def state(page, seen=0):
    return state_at(page.url, seen)


def state_at(url, seen):
    status, body = asked(url, f"{urlsplit(url).path}state?seen={seen}")
    return json.loads(body) if status == 200 else status


def test_nothing_is_made_of_a_run_that_nobody_looks_at(page, hand):
    def never():
        raise AssertionError("nobody asked")

    page.offer(never)
    assert state(page) == 204
    hand.now_us += 6 * US  # who asked has gone
    page.offer(never)
    page.end(after(1))
    assert state(page) == 204


def test_who_looks_is_given_what_is_newer_than_what_they_have(page, hand):
    assert state(page) == 204
    page.offer(lambda: so_far(3))
    first = state(page)
    assert (first["number"], first["over"], len(first["chart"]["start"])) == (1, False, 3)
    assert first["now"].startswith("under way: cluster time 00:01:20, 3 jobs run")
    assert "wait time" in dict(first["figures"])
    assert state(page, seen=1) == 204
    page.offer(lambda: so_far(4))
    assert state(page, seen=1) == 204  # half a second has not passed
    hand.now_us += US
    page.offer(lambda: so_far(4))
    assert len(state(page, seen=1)["chart"]["start"]) == 4


def test_what_cannot_be_read_is_told_and_the_run_goes_on(page, hand):
    def half_written():
        raise ValueError("a line of the log is half-written")

    assert state(page) == 204
    page.offer(half_written)
    said = state(page)
    assert said["now"] == (
        "under way: what there is so far cannot be shown: ValueError: a line of the log is half-written"
    )
    assert "chart" not in said  # the last one stays
    hand.now_us += US
    page.offer(lambda: so_far(4))
    assert (state(page)["number"], len(state(page)["chart"]["start"])) == (2, 4)


def test_it_takes_a_twentieth_of_the_runs_time_at_most(page, hand):
    def slow():
        hand.now_us += 3 * US
        return so_far(2)

    made = []
    for _ in range(130):
        state(page)
        page.offer(lambda: made.append(hand.now_us) or slow())
        hand.now_us += US
    assert [later - earlier for earlier, later in pairwise(made)] == [63 * US, 63 * US]


def test_the_end_waits_until_the_page_has_it(page):
    assert state(page) == 204
    ended = threading.Thread(target=page.end, args=(after(5),))
    ended.start()
    found = 204
    while found == 204:
        found = state(page)
    ended.join(60)
    assert (found["over"], found["now"].split(":")[0], ended.is_alive()) == (True, "over", False)


def test_who_does_not_know_the_key_or_comes_by_another_name_sees_nothing(page):
    path = urlsplit(page.url).path
    assert asked(page.url, path)[0] == 200
    for wrong in ("/", "/state", "/x/", "/x/state", f"{path}else", "//"):
        assert asked(page.url, wrong)[0] == 404
    assert asked(page.url, path, host="evil.example:80")[0] == 404
    assert asked(page.url, f"{path}state?seen=x")[0] == 204


@pytest.mark.slow
def test_a_watched_run_is_the_run(page, hand, monkeypatch):
    """Records are made at every instant that is offered, and nothing of the run changes by that."""
    monkeypatch.setattr(loop, "_PAUSE_AFTER", 3)
    monkeypatch.setattr(loop, "_next_pause", lambda instants, _: instants)
    scenario = load(TRACES.parent / "scenarios" / "default.yaml")
    shown = []

    def on_progress(*_):
        hand.now_us += 10 * US
        answer = state(page, seen=len(shown))
        if answer != 204:
            shown.append(answer["number"])
        return True

    watched = run_virtual(scenario, prepare(scenario), on_progress, page=page)
    alone = run_virtual(scenario, prepare(scenario))
    assert len(shown) > 10
    for column in ("state", "start_us", "end_us"):
        assert (getattr(watched, column) == getattr(alone, column)).all()
    assert (watched.horizon_us, watched.interrupted) == (alone.horizon_us, "")


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_in_a_browser_it_follows_the_run_and_keeps_what_is_zoomed_to(page, hand, tmp_path):
    with browser(tmp_path) as seen:
        seen.open(page.url)
        seen.wait_for(f"document.querySelector('.gantt canvas') && {CHART}")

        def shown(jobs):
            hand.now_us += US
            page.offer(lambda: so_far(jobs))
            return seen.evaluate(f"{CHART}.runs") == jobs

        until(lambda: shown(3))
        assert seen.evaluate(f"{CHART}.view.t1") == 80  # all of it
        assert seen.evaluate(f"[{CHART}.view.n0, {CHART}.view.n1]") == [
            0,
            4,
        ]  # nodes too, of which there was none yet
        seen.evaluate("document.querySelector('[data-do=in]').click()")
        zoomed = seen.evaluate(f"JSON.stringify({CHART}.view)")
        until(lambda: shown(8))
        assert seen.evaluate(f"JSON.stringify({CHART}.view)") == zoomed
        ended = threading.Thread(target=page.end, args=(after(9),))
        ended.start()
        seen.wait_for("document.getElementById('now').textContent.startsWith('over: ')")
        ended.join(60)
        assert seen.evaluate(f"{CHART}.runs") == 9
        assert seen.evaluate("document.querySelectorAll('dd').length") > 5
        seen.resize(400, 800)
        assert seen.evaluate("document.documentElement.scrollWidth") <= 400
        assert [each for each in seen.console if "favicon" not in each] == []


@pytest.mark.slow
def test_a_live_run_is_watched_while_its_processes_work(tmp_path):
    command = (
        sys.executable,
        "-c",
        "from emulator.cli import main; main()",
        "run",
        str(TRACES / "two-cores.swf"),
    )
    more = ("--clock", "live", "--speed", "300", "--watch", "--quiet", "--out", str(tmp_path / "out"))
    with subprocess.Popen((*command, *more), stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        url = re.search(r"watch the run at (\S+)", run.stderr.readline())[1]
        last = {"number": 0, "over": False}
        while not last["over"]:
            found = state_at(url, last["number"])
            last = last if found == 204 else found
        assert run.wait(60) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert last["number"] > 1
    assert f"{summary['jobs_run']} jobs run" in last["now"]
