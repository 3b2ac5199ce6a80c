"""A run as a page while it lasts (`emulator run --watch`): how far it is, its figures so far, its schedule so far.

The page asks for the state; a state is made only when somebody asks, and no more often than costs a twentieth of the
run's time. The address has a key in it: other users of the machine cannot guess it.
"""

from __future__ import annotations

import json
import secrets
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from balancer.clock import US, seconds, wall_us
from emulator.clock.background_server import Serving
from emulator.metrics import summarize
from emulator.record.run_record import UNDER_WAY
from emulator.report import gantt
from emulator.report.progress import clock_text
from emulator.report.summary_text import summary_rows
from emulator.text.number_text import number

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.record.run_record import RunRecord

_LEAST_US = US // 2
_SHARE = 20
_LAST_S = 3.0
"""How long the end of a run waits for the page to come for it."""
_WATCHED_US = 5 * US


class WatchPage(Serving):
    """Serves the page of one run at `url`, from entering to leaving. Raises OSError where it cannot listen."""

    def __init__(
        self, title: str, *, bounded_slowdown_threshold_s: float = 10, wall: Callable[[], int] = wall_us
    ) -> None:
        self._title, self._threshold_s, self._wall = title, bounded_slowdown_threshold_s, wall
        self._key = secrets.token_urlsafe(9)
        self._changed = threading.Condition()
        self._state: bytes | None = None
        self._number = self._sent = 0
        self._asked_us: int | None = None
        self._due_us = 0
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        server.daemon_threads = True
        super().__init__(server, "watch-page")

    @property
    def url(self) -> str:
        return f"http://{self._host}/{self._key}/"

    @property
    def _host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def offer(self, make: Callable[[], RunRecord]) -> None:
        """The run goes on: `make` gives its record so far, and is called only where somebody looks.

        Where it fails (a live run's files may be half-written) the page says so: a look must not end the run.
        """
        now_us = self._wall()
        if now_us < self._due_us or not self._is_watched(now_us):
            return
        try:
            self._show(make(), over=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told on the page
            text = f"{UNDER_WAY}: what there is so far cannot be shown: {type(error).__name__}: {error}"
            self._tell({"over": False, "now": text})
        took_us = self._wall() - now_us
        self._due_us = now_us + took_us + max(_LEAST_US, _SHARE * took_us)

    def end(self, record: RunRecord) -> None:
        """The run is over. Returns when the page has been given the end, or nobody looks."""
        if not self._is_watched(self._wall()):
            return
        self._show(record, over=True)
        with self._changed:
            self._changed.wait_for(lambda: self._sent == self._number, _LAST_S)

    def _is_watched(self, now_us: int) -> bool:
        with self._changed:
            return self._asked_us is not None and now_us - self._asked_us < _WATCHED_US

    def _show(self, record: RunRecord, *, over: bool) -> None:
        summary = summarize(record, bounded_slowdown_threshold_s=self._threshold_s)
        self._tell(
            {
                "over": over,
                "now": _now(record, summary, over=over),
                "figures": [list(row) for row in summary_rows(summary) if row[0] != "wall time" or over],
                "chart": gantt.chart_data(record),
            }
        )

    def _tell(self, state: dict[str, Any]) -> None:
        """A new state: without figures and chart those of the last one stay."""
        state["number"] = self._number + 1
        text = json.dumps(state, separators=(",", ":"), ensure_ascii=False).encode()
        with self._changed:
            self._state, self._number = text, self._number + 1

    # What the page asks for

    def page(self) -> bytes:
        chart = gantt.chart(gantt.NOTHING_YET)
        return gantt.template(
            "watch_page.html.j2", title=self._title, style=gantt.style(), chart=chart
        ).encode()

    def state(self, seen: int) -> tuple[int, bytes] | None:
        """The newest state with its number, where it is newer than `seen`."""
        with self._changed:
            self._asked_us = self._wall()
            return (self._number, self._state) if self._state is not None and self._number > seen else None

    def mark_sent(self, number: int) -> None:
        with self._changed:
            self._sent = max(self._sent, number)
            self._changed.notify_all()

    def is_for_us(self, host: str) -> bool:
        """A page of somebody else's that a browser took for ours has another host."""
        return host in (self._host, f"localhost:{self.port}")

    def within(self, path: str) -> str | None:
        """What of the run is asked for; None: whoever asks does not know the key."""
        _, key, rest = (*path.split("/", 2), "", "")[:3]
        return rest if secrets.compare_digest(key, self._key) else None


def _now(record: RunRecord, summary: dict[str, Any], *, over: bool) -> str:
    at = f"cluster time {clock_text(seconds(record.horizon_us))}"
    jobs = f"{number(summary['jobs_run'])} jobs run, {number(summary['jobs_running'])} running, "
    jobs += f"{number(summary['jobs_waiting'])} waiting"
    how = f"over ({record.interrupted})" if over and record.interrupted else "over" if over else UNDER_WAY
    return f"{how}: {at}, {jobs}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def __init__(self, page: WatchPage, *args: Any) -> None:
        self._page = page
        super().__init__(*args)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        rest = self._page.within(url.path)
        if rest is None or not self._page.is_for_us(self.headers.get("Host", "")):
            self._answer(404, b"there is nothing here", "text/plain")
        elif rest == "":
            self._answer(200, self._page.page(), "text/html; charset=utf-8")
        elif rest == "state":
            seen = parse_qs(url.query).get("seen", ["0"])[0]
            state = self._page.state(int(seen) if seen.isascii() and seen.isdigit() else 0)
            if state is None:
                self._answer(204, b"", "application/json")
            else:
                self._answer(200, state[1], "application/json")
                self._page.mark_sent(state[0])
        else:
            self._answer(404, b"there is nothing here", "text/plain")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """The console is the run's."""
