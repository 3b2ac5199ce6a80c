"""What a manager remembers across a restart: its reservations, with their servers.

Each change appends the reservation as it is now, one JSON line; the last line of a reservation counts. A line is
flushed before the caller hears of the change, so that a manager that dies forgets nothing it answered.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from emulator.json_lines import JsonLines, read_json_lines
from emulator.live.ondemand.auth import Account
from emulator.live.ondemand.servers import Action, Reservation, Server, ServerSpec

if TYPE_CHECKING:
    from pathlib import Path


class Memory:
    """Remembers in one file. `path` None: nothing is remembered."""

    def __init__(self, path: Path | None) -> None:
        self.past: list[Reservation] = []
        if path is not None:
            self.past = _read(path)
        self._lines = JsonLines(path)

    def save(self, reservation: Reservation) -> None:
        self._lines.write(_as_json(reservation))

    def close(self) -> None:
        self._lines.close()


def _as_json(reservation: Reservation) -> dict[str, Any]:
    first = reservation.servers[0]
    names = [field.name for field in fields(Server) if field.name not in {"spec", "reservation", "actions"}]
    return {
        "id": reservation.id,
        "waiting_id": reservation.waiting_id,
        "decided": reservation.decided,
        "to_be_undone": reservation.to_be_undone,
        "exclude": reservation.exclude,
        "spec": asdict(first.spec),
        "servers": [
            {name: getattr(server, name) for name in names}
            | {"actions": [asdict(action) for action in server.actions]}
            for server in reservation.servers
        ],
    }


def _read(path: Path) -> list[Reservation]:
    """Reservations in the order in which they were made."""
    found: dict[str, Reservation] = {}
    for reservation in read_json_lines(path, _from_json, "a reservation of an on-demand manager"):
        found[reservation.id] = reservation
    return list(found.values())


def _from_json(line: dict[str, Any]) -> Reservation:
    spec_row = line["spec"]
    spec = ServerSpec(
        **spec_row | {"account": Account(**spec_row["account"]), "tags": tuple(spec_row["tags"])}
    )
    reservation = Reservation(
        line["id"],
        waiting_id=line["waiting_id"],
        decided=line["decided"],
        to_be_undone=line.get("to_be_undone", False),
        exclude=tuple(line.get("exclude", ())),
    )
    for each in line["servers"]:
        actions = [Action(**action) for action in each["actions"]]
        reservation.servers.append(
            Server(**each | {"spec": spec, "reservation": reservation, "actions": actions})
        )
    return reservation
