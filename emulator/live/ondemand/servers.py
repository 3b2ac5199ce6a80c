"""The servers of the cloud, what belongs together of them, and what a manager remembers of them across a restart."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from emulator.live.ondemand.http import Account
from emulator.text.json_lines import JsonLines, read_json_lines

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """What a create asks for."""

    account: Account
    name: str
    count: int = 1
    image_id: str = ""
    with_address: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    description: str | None = None
    availability_zone: str | None = None
    flavor_id: str = ""


@dataclass(slots=True)
class Server:
    """One whole node for one user. `launched_us` is when it is, or will be, ACTIVE."""

    id: str
    name: str
    spec: ServerSpec
    reservation: Reservation
    launch_index: int
    number: int
    created_us: int
    updated_us: int
    metadata: dict[str, str]
    description: str | None
    host: str | None = None
    launched_us: int | None = None
    fault: str | None = None
    failed_us: int | None = None
    """With a fault: since when; None: since it was decided."""
    failed_on: str | None = None
    """The node on which it did not start, which goes back."""
    deleting_us: int | None = None
    """When its user deleted it; it is there until `deleted_us`."""
    deleted_us: int | None = None
    release_key: str = ""
    """Servers with the same one have given their nodes back in one call, or are about to."""
    returned: bool = False
    """The call has been answered."""
    given_up: bool = False
    """It was deleted while it waited for a node: none is asked for it any more."""
    condition: str = ""
    """What was made of it while it ran: SHUTOFF, PAUSED, SUSPENDED or RESCUE."""

    @property
    def owes(self) -> str | None:
        """The node that goes back with it, or that it could not start on."""
        return self.host or self.failed_on

    def status(self, now_us: int) -> str:
        """As the API has it (BUILD, ACTIVE, ERROR, ...); building takes time, so it depends on it."""
        if self.deleted_us is not None:
            return "DELETED"
        if self.fault is not None and now_us >= (self.failed_us or 0):
            return "ERROR"
        if self.launched_us is None or now_us < self.launched_us:
            return "BUILD"
        return self.condition or "ACTIVE"


@dataclass(slots=True)
class Reservation:
    """All servers of one create."""

    id: str
    servers: list[Server] = field(default_factory=list)
    waiting_id: str | None = None
    replaces: str | None = None
    """The request for more nodes in whose place this one's is, since some of its servers were deleted."""
    decided: bool = False
    to_be_undone: bool = False
    """It was given up unanswered: what the source may have granted goes back."""
    exclude: tuple[str, ...] = ()
    """Hosts that were down or disabled when it was made."""
    leaving: list[str] = field(default_factory=list)
    all_left: Event | None = None
    returned: Event = field(default_factory=Event)

    @property
    def key(self) -> str:
        """Of its request for nodes: another one for each number of servers."""
        return self.id if self.replaces is None else f"{self.id}-after-{self.replaces}"

    @property
    def wanting(self) -> list[Server]:
        """The servers for which its request asks."""
        return [server for server in self.servers if not server.given_up]


class Memory:
    """Remembers reservations in one file. `path` None: nothing is remembered.

    Each change appends the reservation as it is now, one JSON line; the last line of a reservation counts. A line is
    flushed before the caller hears of the change, so that a manager that dies forgets nothing it answered.
    """

    def __init__(self, path: Path | None) -> None:
        self.past: list[Reservation] = []
        if path is not None:
            self.past = _read(path)
        self._lines = JsonLines(path)
        self._lock = Lock()
        self._is_closed = False

    def save(self, reservation: Reservation) -> None:
        """What a worker learns after `close` is not kept: the next life asks with the same keys, and hears the same."""
        with self._lock:
            if not self._is_closed:
                self._lines.write(_as_json(reservation))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._lines.close()


_RESERVATION = ("id", "waiting_id", "replaces", "decided", "to_be_undone", "exclude")
_SERVER = tuple(field.name for field in fields(Server) if field.name not in {"spec", "reservation"})


def _as_json(reservation: Reservation) -> dict[str, Any]:
    kept = {name: getattr(reservation, name) for name in _RESERVATION}
    servers = [{name: getattr(server, name) for name in _SERVER} for server in reservation.servers]
    return kept | {"spec": asdict(reservation.servers[0].spec), "servers": servers}


def _read(path: Path) -> list[Reservation]:
    """Reservations in the order in which they were made."""
    found: dict[str, Reservation] = {}
    for reservation in read_json_lines(path, _from_json, "a reservation of an on-demand manager"):
        found[reservation.id] = reservation
    return list(found.values())


def _from_json(line: dict[str, Any]) -> Reservation:
    spec_row = line["spec"]
    spec = ServerSpec(**spec_row | {"account": Account(**spec_row["account"])})
    reservation = Reservation(
        line["id"],
        waiting_id=line["waiting_id"],
        replaces=line.get("replaces"),
        decided=line["decided"],
        to_be_undone=line.get("to_be_undone", False),
        exclude=tuple(line.get("exclude", ())),
    )
    for each in line["servers"]:
        reservation.servers.append(Server(**each | {"spec": spec, "reservation": reservation}))
    return reservation
