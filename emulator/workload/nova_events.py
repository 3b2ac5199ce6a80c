"""Events of servers: `openstack server event list`, and `GET /servers/ID/os-instance-actions`, of one or many servers.

    for id in ...; do openstack server event list $id -f json; done > events.json

A server holds its part of a host from `create` (or `unshelve`) to `delete` (or `shelve`, which frees the host once it
is offloaded). What is resized keeps its begin. Events do not say how many vCPUs a server has: each counts as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import Server, Servers, beginning, unix_s
from emulator.workload.files import TraceError, read_json_documents
from emulator.workload.rows import Faults, Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_BEGINS = {"create", "unshelve", "restore"}
_ENDS = {"delete", "force-delete", "shelve", "shelveOffload"}


class NovaEventsFormat:
    """The trace format `nova_events`."""

    name = "nova_events"

    def can_read(self, path: Path) -> bool:
        """True if the file is JSON that begins with what events of servers have."""
        begin = beginning(path)
        return begin.startswith(("{", "[")) and ('"Request ID"' in begin or '"instanceActions"' in begin)

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """The times on a host of all servers, in any order of events. Raises TraceError naming file and server."""
        faults, servers = Faults(lenient), Servers()
        lives: dict[str, list[tuple[float, str]]] = {}
        for event in _events(path):
            server = str(event.get("Server ID") or event.get("instance_uuid") or "")
            try:
                time_s = _start_s(event, server)
            except Malformed as fault:
                faults.add(path, f"server {server or '?'}", fault)
                continue
            lives.setdefault(server, []).append((time_s, str(event.get("Action") or event.get("action"))))
            servers.seen(time_s)
        for life in lives.values():
            for begin_s, end_s in _spans(sorted(life), servers):
                servers.add(Server(begin_s, end_s))
        return servers.log(path, "from events of servers", faults)


def _start_s(event: dict[str, Any], server: str) -> float:
    if not server:
        raise Malformed("an event without its server")
    time_s = unix_s(event.get("Start Time") or event.get("start_time"), "start_time")
    if time_s is None:
        raise Malformed("an event without its start time")
    return time_s


def _spans(life: list[tuple[float, str]], servers: Servers) -> Iterator[tuple[float, float | None]]:
    """From when to when a server was on a host; the last may have no end. An end without its begin is none.

    What neither begins nor ends such a time is counted.
    """
    begin_s: float | None = None
    for time_s, action in life:
        if action in _BEGINS and begin_s is None:
            begin_s = time_s
        elif action in _ENDS and begin_s is not None:
            yield begin_s, time_s
            begin_s = None
            servers.pass_over("event that ends a server's time on a host")
        else:
            servers.pass_over("event that neither begins nor ends a server's time on a host")
    if begin_s is not None:
        yield begin_s, None


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Of one JSON document or of several, one behind the other, as a loop over servers writes them."""
    for document in read_json_documents(path):
        listed = document.get("instanceActions") if isinstance(document, dict) else document
        if not isinstance(listed, list):
            raise TraceError(f"{path}: not a list of events")
        for event in listed:
            if not isinstance(event, dict):
                raise TraceError(f"{path}: not a list of events, but of {str(event)[:40]}")
            yield event
