"""Servers of a cloud with the times of their life: Nova's API, the command line client, or its table of instances.

    GET /v2.1/servers/detail?all_tenants=1&deleted=1           (and the same without deleted=1: join the pages)
    openstack server list --all-projects --deleted --long -c ID -c "Created At" ... -f json
    openstack server show ID -f json                           (an object, or a list of them)
    SELECT uuid, created_at, launched_at, terminated_at, deleted_at, vcpus, project_id, user_id, vm_state
      FROM nova.instances                                      (as CSV with a header line)

A lease begins when its server was created and ends when it was terminated, or deleted. A list of the client has no
times unless they are asked for, and never an end: `nova_usage` is better where it can be had. One that is shelved
and offloaded left its host when its record was last changed. One that ended and was never launched did not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.workload.cloud_rows import Server, Servers, beginning, count, unix_s
from emulator.workload.csv_lines import csv_fields, csv_rows
from emulator.workload.files import TraceError, read_json_documents
from emulator.workload.rows import Faults, Malformed, lines_of, no_name_twice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.workload.swf import SwfLog

_BEGINS = ("created", "created_at", "launched_at")
_ENDS = ("terminated_at", "deleted_at")
_STATES = ("vm_state", "status")
_OFFLOADED = "shelved_offloaded"
"""The state of a server that holds no part of a host, and may be woken."""
SHELVED = "is shelved, and taken to have left its host when its record was last changed"
_NO_TIMES = (
    "it does not say when its servers began; take `openstack usage show -f json`, or GET /servers/detail?deleted=1,"
    ' or list them with -c ID -c "Created At"'
)


class NovaServersFormat:
    """The trace format `nova_servers`."""

    name = "nova_servers"

    def can_read(self, path: Path) -> bool:
        """True if the file begins as JSON of servers, or with a header that names columns of Nova's instances."""
        begin = beginning(path)
        if begin.startswith(("{", "[")):
            return "OS-SRV-USG:launched_at" in begin or '"Created At"' in begin
        return bool({"uuid", "id"} & _header(begin)) and bool({"created_at", "launched_at"} & _header(begin))

    def hint(self, path: Path) -> str | None:
        """A list of servers without times cannot be read, but looks as if it should."""
        begin = beginning(path)
        has_list = begin.startswith("[") and '"Status"' in begin and '"Networks"' in begin
        return _NO_TIMES if has_list else None

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """All servers. Raises TraceError naming file and server."""
        servers, faults = Servers(), Faults(lenient)
        is_json = beginning(path).startswith(("{", "["))
        for place, record in enumerate(_of_json(path) if is_json else _of_csv(path, faults, servers), 1):
            row = {_plain(name): value for name, value in record.items()}
            try:
                updated_s = unix_s(row.get("updated") or row.get("updated_at"), "updated")
                _take(row, updated_s, servers)
                servers.seen(updated_s)
            except Malformed as fault:
                faults.add(path, f"server {row.get('id') or row.get('uuid') or place}", fault)
        return servers.log(path, "from a cloud's servers", faults)


def _of_json(path: Path) -> list[dict[str, Any]]:
    listed: list[Any] = []
    for document in read_json_documents(path):
        inside = (
            document.get("servers", document.get("server", document))
            if isinstance(document, dict)
            else document
        )
        listed += inside if isinstance(inside, list) else [inside]
    if not all(isinstance(each, dict) for each in listed):
        raise TraceError(f"{path}: not a list of servers")
    return [each.get("server", each) for each in listed]


def _of_csv(path: Path, faults: Faults, servers: Servers) -> Iterator[dict[str, Any]]:
    lines = ((number, line) for number, line in lines_of(path) if line.strip())
    at, first = next(lines, (1, ""))
    mark = "\t" if "\t" in first else ";" if ";" in first else ","
    try:
        names = csv_fields(first, mark)
    except Malformed as fault:
        raise TraceError(f"{path}:{at}: {fault}") from fault
    no_name_twice(path, at, [_plain(name) for name in names])
    for _, fields in csv_rows(path, lines, mark, faults, heading=first, pass_over=servers.pass_over):
        yield dict(zip(names, fields, strict=False))


def _header(begin: str) -> set[str]:
    line = begin.splitlines()[0] if begin else ""
    return {_plain(name.strip(' "')) for name in line.replace("\t", ",").replace(";", ",").split(",")}


def _plain(name: str | None) -> str:
    """`OS-SRV-USG:launched_at`, `Created At` and `created_at` as one kind of name."""
    return str(name).rpartition(":")[2].strip().lower().replace(" ", "_")


def _take(row: dict[str, Any], updated_s: float | None, servers: Servers) -> None:
    begins = [time for name in _BEGINS if (time := unix_s(row.get(name), name)) is not None]
    if not begins:
        raise Malformed(_NO_TIMES)
    ends = [time for name in _ENDS if (time := unix_s(row.get(name), name)) is not None]
    flavor = row.get("flavor")
    vcpus = flavor.get("vcpus") if isinstance(flavor, dict) else row.get("vcpus")
    state = next((str(row[name]).lower() for name in _STATES if row.get(name)), "")
    if not ends and state == _OFFLOADED:
        if updated_s is None:
            servers.pass_over("shelved server, and the record does not say since when")
            return
        servers.remark(SHELVED)
        ends = [updated_s]
    was_launched = unix_s(row.get("launched_at"), "launched_at") is not None
    servers.add(
        Server(
            begin_s=begins[0],
            end_s=ends[0] if ends else None,
            vcpus=count(vcpus, "vcpus"),
            project=row.get("tenant_id") or row.get("project_id"),
            user=row.get("user_id"),
            name=row.get("id") or row.get("uuid"),
            has_failed=not was_launched and (state == "error" or ("launched_at" in row and bool(ends))),
        )
    )
