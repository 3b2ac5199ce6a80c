"""What the readers of a cloud's records share: servers become the rows of a log, from their begin to their end.

A server is a job that did not wait: it holds its part of a node from the moment it was asked for. Its processors are
its vCPUs; how many servers a node holds is for whoever replays the log to say (header key `CoresShared`). A server
that has not ended runs until the newest time that the record has, which is counted in a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from emulator.workload.files import open_trace
from emulator.workload.rows import SAME_RUN, Malformed, Rows, in_years, units_a_second, whole

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from emulator.workload.local_times import LocalTimes
    from emulator.workload.rows import Faults
    from emulator.workload.swf import SwfLog

SHARED_KEY = "CoresShared"
"""Header key of ours: processors are cores of nodes that several rows may share."""
BEGINNING = 1 << 16
"""So many bytes of a file are looked at to know its format."""
_LATEST = 10**20
_NO_TIME = {"", "None", "NULL", "null", "\\N", "0000-00-00 00:00:00"}
"""The last one is what MySQL writes for it."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server's time on a host. `end_s` None: it has not ended. Unix times in seconds."""

    begin_s: float
    end_s: float | None
    vcpus: int = 1
    project: str | None = None
    user: str | None = None
    has_failed: bool = False
    """It never ran: no host was its own."""
    name: Any = None
    """Its id, if it is a text: the same server may be in several reports."""


class Servers:
    """Servers one by one into a log."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Server] = {}
        self._newest_s = 0.0
        self._passed_over: list[str] = []
        self._remarks: list[str] = []

    def add(self, server: Server) -> None:
        """Raises Malformed for one that ends before it begins."""
        if server.end_s is not None and server.end_s < server.begin_s:
            raise Malformed(f"it ends at {iso(server.end_s)}, before it begins at {iso(server.begin_s)}")
        is_named = isinstance(server.name, str) and server.name != ""
        key = (server.name, server.begin_s) if is_named else len(self._found)
        if key in self._found:
            self.pass_over(SAME_RUN)
        self._found[key] = _longest(self._found.get(key, server), server)
        self.seen(server.begin_s if server.end_s is None else server.end_s)

    def pass_over(self, what: str) -> None:
        """A record that is no server's time of its own."""
        self._passed_over.append(what)

    def remark(self, what: str) -> None:
        """Something to tell of a server that is kept."""
        self._remarks.append(what)

    def seen(self, time_s: float | None) -> None:
        """The record tells of this time."""
        self._newest_s = max(self._newest_s, time_s or 0)

    def log(self, path: Path, note: str, faults: Faults) -> SwfLog:
        """All servers by their begin."""
        rows, running = Rows(), 0
        for number, server in enumerate(sorted(self._found.values(), key=lambda each: each.begin_s), 1):
            has_ended = server.end_s is not None
            end_s = self._newest_s if server.end_s is None else server.end_s
            running += not has_ended and not server.has_failed
            rows.add(
                number=number,
                submit_s=server.begin_s,
                wait_s=-1 if server.has_failed else 0,
                run_s=-1 if server.has_failed else end_s - server.begin_s,
                allocated_procs=server.vcpus,
                requested_procs=server.vcpus,
                status=0 if server.has_failed else 1 if has_ended else -1,
                user=rows.users.number(server.user),
                group=rows.groups.number(server.project),
            )
        for what in self._passed_over:
            rows.pass_over(what)
        for what in self._remarks:
            rows.remark(what)
        more = [f"; {SHARED_KEY}: yes"]
        if running:
            more.append(
                f"; Note: {running} servers had not ended, and are taken to run until {iso(self._newest_s)}"
            )
        return rows.log(
            path,
            f"{note}; times are Unix times",
            faults,
            tuple(more),
            size_from="`openstack hypervisor list` lists the hosts",
        )


def _longest(first: Server, other: Server) -> Server:
    """Which of two records of a server says more: its end, and of two ends the later one."""
    if first.end_s is None or other.end_s is None:
        return first if other.end_s is None else other
    return first if first.end_s > other.end_s else other


def unix_s(value: Any, name: str, clock: LocalTimes | None = None) -> float | None:
    """A time as OpenStack writes it: ISO 8601 (UTC unless it says otherwise, or of `clock`) or a Unix time.

    Unix times of 12 digits and more are milliseconds, of 15 micro-, of 18 nanoseconds. None for none.
    """
    text = str(value).strip()
    if text in _NO_TIME:
        return None
    try:
        number = float(text)
    except ValueError:
        return in_years(_of_date(text, name, clock), name)
    if not 0 <= number < _LATEST:
        raise Malformed(f"{name} is {text[:40]!r}, not a time in seconds or parts of them")
    return in_years(number / units_a_second(number), name)


def _of_date(text: str, name: str, clock: LocalTimes | None) -> float:
    try:
        time = datetime.fromisoformat(text.replace(" UTC", "+00:00"))
    except ValueError:
        raise Malformed(f"{name} is {text[:40]!r}, not a time such as 2026-11-21T01:23:44Z") from None
    if clock is not None:
        return clock.unix_s(time)
    return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp()


def iso(time_s: float) -> str:
    """A Unix time as people read it."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def beginning(path: Path) -> str:
    """What a format looks at to know a file."""
    with open_trace(path) as stream:
        return (
            stream.read(BEGINNING).decode("utf-8", "replace").lstrip("\N{ZERO WIDTH NO-BREAK SPACE} \t\r\n")
        )


def count(value: Any, name: str) -> int:
    """A number of vCPUs from 1 on; 1 where nothing is said."""
    if value is None or value == "":
        return 1
    number = whole(str(value), name)
    if not 1 <= number <= 2**31:
        raise Malformed(f"{name} is {number}, not a number of processors")
    return number
