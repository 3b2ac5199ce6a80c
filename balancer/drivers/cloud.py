"""What reconcile asks of a cloud: which hosts could get a server, and which have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class CloudStatus:
    """One host as the cloud reports it: `enabled` may get a VM at once; `vms` are on it now; `is_up`: it answers."""

    enabled: bool
    vms: tuple[str, ...] = ()
    is_up: bool = False


class CloudDriver(Protocol):
    """The on-demand side, read only: servers come and go by the cloud's own users."""

    name: str

    def get_status_of_hosts(self) -> Mapping[str, CloudStatus]:
        """Every host the cloud lists, by the name the node has here. Raises DriverError."""
