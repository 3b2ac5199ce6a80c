"""The dashboard in a real browser, with tokens on: log in, watch, filter, log out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from balancer.client import Balancer
from balancer.clock import seconds
from balancer.timestamps import parse_iso
from chromium_kit import browser
from parts import AXE


def token(running, role: str) -> str:
    command = [sys.executable, "-c", "from balancer.cli import main; main()", "token", "create"]
    command += ["--db", str(running.folder / "ledger.db"), "--role", role, "--name", role]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def watched(service, tmp_path):
    """A service with tokens on, a page that has logged in, and a client that may take nodes."""
    running = service(6)
    running.start("--auth", "--reserve", "1")
    operator, reader = token(running, "operator"), token(running, "read-only")
    with browser(tmp_path) as page, Balancer(running.url, token=operator) as client:
        page.open(running.url + "/")
        page.wait_for("location.pathname === '/login' && document.activeElement?.id === 'token'")
        page.wait_for("document.querySelector('button')?.disabled === false")
        page.type(reader)
        page.press("Enter")
        page.wait_for("location.pathname === '/' && document.getElementById('live')?.className === 'on'")
        yield page, client
    assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium")
def test_an_operator_logs_in_and_sees_what_happens_as_it_happens(watched):
    page, client = watched
    page.wait_for("document.querySelectorAll('#nodes tbody tr').length === 6")
    granted = client.request_nodes(1).nodes[0]
    row = f"[...document.querySelectorAll('#nodes tbody tr')].find((row) => row.cells[0].textContent === '{granted}')"
    page.wait_for(f"{row}.cells[1].textContent === 'on demand'")
    page.wait_for("document.getElementById('events').innerText.includes('1 node requested')")
    page.wait_for(f"{row}.cells[3].textContent.startsWith('r')")
    client.release_nodes([granted])
    page.wait_for(f"document.getElementById('events').innerText.includes('Given back: {granted}')")
    assert page.wait_for("document.querySelectorAll('#chart polygon').length") >= 1
    assert page.console == []
    assert page.evaluate("document.cookie") == ""


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium")
def test_it_is_used_with_the_keyboard_and_fits_a_narrow_window_in_light_and_dark(watched):
    page, _ = watched
    page.wait_for("document.querySelectorAll('#nodes tbody tr').length === 6")
    page.press("/")
    page.wait_for("document.activeElement?.id === 'filter'")
    page.type("n03")
    page.wait_for("document.querySelectorAll('#nodes tbody tr').length === 1")
    assert page.evaluate("document.getElementById('shown').textContent") == "1 of 6"
    light = page.evaluate(
        "getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).color"
    )
    page.dark()
    page.resize(400, 800)
    dark = page.evaluate(
        "getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).color"
    )
    assert light != dark
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    unnamed = (
        "[...document.querySelectorAll('button, input')].filter((e) => !e.textContent && !e.labels.length)"
    )
    assert page.evaluate(f"{unnamed}.length") == 0
    assert page.console == []


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium")
def test_the_cookie_reads_and_does_not_write_and_logging_out_ends_it(watched):
    page, client = watched
    before = client.status()["newest_event"]
    call = {"method": "POST", "body": '{"nodes": 1}', "headers": {"Content-Type": "application/json"}}
    assert page.evaluate(f"fetch('/v1/request_nodes', {json.dumps(call)}).then((a) => a.status)") == 401
    assert client.status()["newest_event"] == before
    page.evaluate("document.getElementById('logout').click()")
    page.wait_for("location.pathname === '/login'")
    assert page.evaluate("fetch('/v1/nodes').then((a) => a.status)") == 401


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium")
def test_another_sites_page_can_neither_read_nor_write(service, tmp_path):
    running = service(2)
    running.start("--reserve", "1")
    page_of_others = tmp_path / "evil.html"
    page_of_others.write_text("<!doctype html><title>evil</title>", encoding="utf-8")
    with browser(tmp_path) as page, running.client() as client:
        page.open(page_of_others.as_uri())
        page.wait_for("document.title === 'evil'")
        before = client.status()["newest_event"]
        for options in (
            {"method": "POST", "mode": "no-cors", "body": '{"nodes": 1}'},
            {
                "method": "POST",
                "mode": "no-cors",
                "body": '{"nodes": 1}',
                "headers": {"Content-Type": "text/plain"},
            },
            {"method": "POST", "body": '{"nodes": 1}', "headers": {"Content-Type": "application/json"}},
            {"method": "GET"},
        ):
            call = f"fetch('{running.url}/v1/request_nodes', {json.dumps(options)})"
            assert page.evaluate(f"{call}.then((answer) => answer.text()).catch(() => '')") == ""
        assert client.status()["newest_event"] == before
    assert running.stop() == 0


def now_s(client):
    return seconds(parse_iso(client.status()["now"]))


def text(page, name):
    return page.evaluate(f"document.getElementById('{name}').textContent")


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium", "axe")
def test_a_new_service_shows_its_day_and_the_figures_of_the_api_at_each_size(service, tmp_path):
    running = service(6)
    running.start("--reserve", "2")
    with browser(tmp_path) as page, running.client() as client:
        lent = client.request_nodes(2).nodes
        earliest_s = now_s(client) + 250
        running.start_job(client, "7.server", "n06", remaining_s=250)
        latest_s = now_s(client) + 250
        page.open(running.url + "/login")
        page.wait_for("!!document.getElementById('token')")
        assert page.barriers(AXE) + page.texts_in_the_way() == []
        # Each time is relative, and says which it is when it is pointed at.
        page.open(running.url + "/")
        row = "[...document.querySelectorAll('#nodes tbody tr')].find((row) => row.cells[0].textContent === 'n06')"
        page.wait_for(f"({row})?.cells[5].textContent.startsWith('in ')")
        shown_ms = page.evaluate(f"Date.parse({row}.cells[5].firstChild.dateTime)")
        assert earliest_s - 1 < shown_ms / 1000 < latest_s + 1  # the page shows whole seconds
        assert page.evaluate(f"{row}.cells[5].firstChild.title") != ""
        for width in (1280, 400):
            for is_dark in (False, True):
                page.resize(width, 900)
                page.dark(is_dark=is_dark)
                page.open(running.url + "/")
                page.wait_for("document.querySelectorAll('#chart polygon.OD_ALLOC').length === 1")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate("document.querySelectorAll('#chart text').length") > 4
                assert page.barriers(AXE) + page.texts_in_the_way() == []
                page.open(running.url + "/docs")
                page.wait_for("document.readyState === 'complete' && location.pathname === '/docs'")
                page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.barriers(AXE) + page.texts_in_the_way() == []
        page.open(running.url + "/")
        page.wait_for("document.getElementById('live')?.className === 'on'")
        status, used = client.status(), client.usage()
        assert status["headroom"]["nodes"] == 4
        assert text(page, "tile-headroom") == f"{status['headroom']['nodes']} nodes"
        assert text(page, "tile-granted") == f"{used.granted} request" == "1 request"
        assert text(page, "tile-refused") == f"{used.rejected} of {used.requests}" == "0 of 1"
        assert text(page, "tile-lent") == f"{used.lent_node_h:.1f} node-h".replace(".0 ", " ")
        assert text(page, "tile-quarantined") == f"{status['nodes']['QUARANTINED']} nodes"
        assert text(page, "tile-asleep") == f"{status['asleep']} nodes"
        assert text(page, "tile-hook").endswith(("just now", "ago"))
        assert text(page, "h-pools") == "Pools since the service began"
        assert page.evaluate("document.getElementById('logout')") is None
        assert "of 0 nodes" not in text(page, "events")
        client.release_nodes(list(lent))
        assert page.console == []
    assert running.stop() == 0


_TIMES_IN_THE_WAY = """(() => {
  const svg = document.getElementById("chart");
  const found = [];
  for (let span_s = 1; span_s <= 86400; span_s = Math.ceil(span_s * 1.07)) {
    for (const start_s of [1795992000, 1795992007.3, 1796003999]) {
      const steps = [[start_s, [6]]];
      drawPools(svg, { start_s, end_s: start_s + span_s, states: ["IDLE"], steps }, ["IDLE"], { IDLE: "idle" });
      const boxes = [...svg.querySelectorAll("text[text-anchor=middle]")].map((each) => each.getBBox());
      if (boxes.length < 2) found.push(`${span_s}: ${boxes.length} times`);
      boxes.forEach((box, at) => {
        const before = at ? boxes[at - 1].x + boxes[at - 1].width : 0;
        if (box.x < before || box.x + box.width > svg.viewBox.baseVal.width) found.push(`${span_s}: time ${at}`);
      });
    }
  }
  return found;
})()"""
"""Charts of a second to a day: where a time covers another or leaves the picture."""


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("chromium")
def test_the_times_below_the_pools_have_room_however_long_the_service_runs(service, tmp_path):
    running = service(6)
    running.start()
    with browser(tmp_path) as page:
        for width in (1280, 700, 400):
            page.resize(width, 900)
            page.open(running.url + "/")
            page.wait_for("document.getElementById('live')?.className === 'on'")
            assert page.evaluate(_TIMES_IN_THE_WAY) == []
    assert running.stop() == 0
