"""`balancer usage` says what GET /v1/usage answers, for today and for this week."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime

import pytest
from werkzeug.serving import make_server

from balancer.clock import micros
from balancer.console.usage import begins
from balancer.http.app import create_app
from command_line import balance

HOUR_US = micros(3600)
MONDAY_US = micros(datetime.fromisoformat("2026-03-02T00:00:00+00:00").timestamp())


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def command(world, monkeypatch):
    """A service on which 2 nodes were lent for 3 h on Monday and 1 for 2 h on Tuesday, where 9 were refused."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    w = world(nodes=3, reserve=3, reconcile_period_s=0)
    w.settled()
    for begin_us, nodes, hours in ((MONDAY_US, 2, 3), (MONDAY_US + 24 * HOUR_US, 1, 2)):
        w.clock.advance_to(begin_us + HOUR_US)
        lent = w.asked(nodes).nodes
        w.clock.advance_to(begin_us + (1 + hours) * HOUR_US)
        w.engine.release_nodes(lent)
        w.settled()
    w.asked(9)
    server = make_server("127.0.0.1", 0, create_app(w.engine), threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield lambda *options: balance("usage", "--url", f"http://127.0.0.1:{server.port}", *options)
    server.shutdown()
    thread.join()
    server.server_close()
    monkeypatch.undo()
    time.tzset()


def told(done, lines):
    """Its last lines: the service of this process logs to the same place."""
    return done.stdout.splitlines()[-lines:]


def test_it_tells_today_and_this_week(command):
    done = command()
    assert done.exit_code == 0, done.output
    assert [" ".join(line.split()) for line in told(done, 3)] == [
        "PERIOD FROM REQUESTS GRANTED REJECTED NODES_GRANTED NODES_REJECTED LENT_NODE_H",
        "today 2026-03-03T00:00:00Z 2 1 1 1 9 2.0",
        "week 2026-03-02T00:00:00Z 3 2 1 3 9 8.0",
    ]


def test_as_json_it_has_the_fields_of_the_api_and_any_period_can_be_chosen(command):
    done = command("--json", "--start", "2026-03-02T02:00:00Z", "--end", "2026-03-02T03:00:00Z")
    found = json.loads(told(done, 1)[0])
    assert found == {
        "chosen": {
            "start_s": MONDAY_US / 1e6 + 7200,
            "end_s": MONDAY_US / 1e6 + 10_800,
            "requests": 0,
            "granted": 0,
            "rejected": 0,
            "nodes_granted": 0,
            "nodes_rejected": 0,
            "lent_node_h": 2.0,
            "lent_since_s": MONDAY_US / 1e6 + 7200,
        }
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--start", "yesterday"], "--start 'yesterday' is not an ISO 8601 time"),
        (["--end", "2026-03-02"], "--end goes with --start"),
    ],
)
def test_a_wrong_period_is_refused_with_what_to_do(command, options, said):
    done = command(*options)
    assert done.exit_code == 2
    assert said in done.stderr


def test_days_and_weeks_begin_at_midnight_by_local_clocks_also_where_these_change(berlin):
    found = begins(datetime.fromisoformat("2026-03-29T12:00:00+02:00").timestamp())
    assert found == {
        "today": datetime.fromisoformat("2026-03-29T00:00:00+01:00").timestamp(),
        "week": datetime.fromisoformat("2026-03-23T00:00:00+01:00").timestamp(),
    }
