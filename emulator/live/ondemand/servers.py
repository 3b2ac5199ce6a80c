"""The servers of the cloud and what belongs together of them. No HTTP, no threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.live.ondemand.auth import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """What a create asks for."""

    account: Account
    name: str
    count: int = 1
    image_id: str = ""
    with_address: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    description: str | None = None
    availability_zone: str | None = None
    user_data: str | None = None
    request_id: str = ""
    key_name: str | None = None
    group_id: str | None = None
    flavor_id: str = ""
    admin_pass: str = ""
    """Empty: one is made up."""
    config_drive: bool = False
    impossible: str = ""
    """Why no host can be found, whatever there is."""


@dataclass(slots=True)
class Action:
    """One entry of a server's history (os-instance-actions)."""

    action: str
    request_id: str
    started_us: int
    updated_us: int
    message: str | None = None


@dataclass(slots=True)
class Server:
    """One whole node for one user. `launched_us` is when it is, or will be, ACTIVE."""

    id: str
    name: str
    hostname: str
    spec: ServerSpec
    reservation: Reservation
    launch_index: int
    number: int
    created_us: int
    updated_us: int
    metadata: dict[str, str]
    description: str | None
    admin_pass: str
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
    condition: str = ""
    """What was made of it while it ran: SHUTOFF, PAUSED, SUSPENDED, RESCUE or ERROR."""
    locked: bool = False
    locked_reason: str | None = None
    actions: list[Action] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

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
    decided: bool = False
    to_be_undone: bool = False
    """It was given up unanswered: what the source may have granted goes back."""
    exclude: tuple[str, ...] = ()
    """Hosts that were down or disabled when it was made."""
    leaving: list[str] = field(default_factory=list)
    all_left: Event | None = None
    returned: Event = field(default_factory=Event)
