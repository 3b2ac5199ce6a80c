"""Nova's usage of servers: what `GET /os-simple-tenant-usage?detailed=1` and `openstack usage show` answer.

    openstack usage show --start 2026-01-01 --end 2026-04-01 --project NAME -f json > usage.json
    GET /v2.1/os-simple-tenant-usage?detailed=1&start=2026-01-01T00:00:00&end=2026-04-01T00:00:00

It tells of servers that were deleted too, which no list of servers does: the best record of leases that a cloud has
(API reference of Nova, "Usage reports"). A server that has not ended runs until the period's `stop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import Server, Servers, beginning, count, unix_s
from emulator.workload.files import TraceError, read_json_documents
from emulator.workload.rows import Faults, Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_KEYS = ('"server_usages"', '"tenant_usage')
_OF_A_SERVER = ('"started_at"', '"ended_at"')
NEVER_LAUNCHED = "server that was never launched"


class NovaUsageFormat:
    """The trace format `nova_usage`."""

    name = "nova_usage"

    def can_read(self, path: Path) -> bool:
        """True if the file is JSON that begins with what a usage report has."""
        begin = beginning(path)
        return begin.startswith(("{", "[")) and (
            any(key in begin for key in _KEYS) or all(key in begin for key in _OF_A_SERVER)
        )

    def hint(self, path: Path) -> str | None:
        """Some clients write how many servers there were, and not which."""
        if '"CPU Hours"' not in beginning(path):
            return None
        return "a usage report without its servers; ask GET /os-simple-tenant-usage?detailed=1"

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All servers of all projects. Raises TraceError naming file and server."""
        servers, faults = Servers(), Faults(lenient)
        found = False
        for report in _reports(read_json_documents(path)):
            if not isinstance(report, dict):
                faults.add(path, "report", f"not an object: {str(report)[:40]}")
                continue
            usages = report.get("server_usages", report.get("Servers"))
            if not isinstance(usages, list):
                servers.pass_over("project without its servers")
                continue
            found = True
            stop_s = unix_s(report.get("stop"), "stop")
            servers.seen(stop_s)
            for usage in usages:
                try:
                    _take(usage, servers)
                except Malformed as fault:
                    faults.add(path, f"server {_name(usage)}", fault)
        if not found:
            raise TraceError(
                f"{path}: a usage report without its servers; ask with detailed=1, or take"
                " `openstack usage show -f json`"
            )
        return servers.log(path, "from Nova's usage report", faults)


def _reports(document: Any) -> Iterator[Any]:
    """The projects of an answer, of several answers (pages), or of the command line client."""
    if isinstance(document, list):
        for each in document:
            yield from _reports(each)
        return
    if not isinstance(document, dict):
        yield document
        return
    inside = document.get("tenant_usages", document.get("tenant_usage"))
    if inside is not None:
        yield from _reports(inside)
    else:
        yield document


def _take(usage: Any, servers: Servers) -> None:
    if not isinstance(usage, dict):
        raise Malformed(f"not an object: {str(usage)[:40]}")
    if "started_at" not in usage:
        raise Malformed("started_at is missing")
    begin_s = unix_s(usage["started_at"], "started_at")
    if begin_s is None:  # it failed, or is being built
        servers.pass_over(NEVER_LAUNCHED)
        return
    servers.add(
        Server(
            begin_s=begin_s,
            end_s=unix_s(usage.get("ended_at"), "ended_at"),
            vcpus=count(usage.get("vcpus"), "vcpus"),
            project=usage.get("tenant_id") or usage.get("project_id"),
            name=usage.get("instance_id"),
        )
    )


def _name(usage: Any) -> str:
    return str(usage.get("instance_id") or usage.get("name")) if isinstance(usage, dict) else "?"
