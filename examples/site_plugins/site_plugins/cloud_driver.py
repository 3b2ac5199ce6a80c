"""A cloud driver: on which nodes the on-demand side has virtual machines, for the Balancer's reconciliation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from balancer.drivers.base import UnreachableError
from balancer.drivers.cloud import CloudStatus


@dataclass(frozen=True, slots=True)
class HostList:
    """A cloud that is a text file: a line a host, its name and then its virtual machines."""

    file: Path

    name: ClassVar[str] = "host_list"

    def get_status_of_hosts(self) -> Mapping[str, CloudStatus]:
        try:
            lines = [
                line.split() for line in self.file.read_text(encoding="utf-8").splitlines() if line.strip()
            ]
        except OSError as error:
            raise UnreachableError(f"{self.file}: {error.strerror}") from error
        return {host: CloudStatus(enabled=False, vms=tuple(machines)) for host, *machines in lines}
