"""OpenStack, read only: which hosts have servers, and which could get one.

The account needs Nova's `os_compute_api:servers:index:get_all_tenants` and `os-services` (an administrator's
reader role has both).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import openstack
from keystoneauth1 import exceptions as auth_errors
from openstack import exceptions as sdk_errors
from requests.exceptions import JSONDecodeError

from balancer.drivers.base import DriverError, RefusedError, UnclearError, UnreachableError
from balancer.drivers.cloud import CloudStatus
from balancer.plugins import check_number

ERRORS = (sdk_errors.SDKException, auth_errors.ClientException, JSONDecodeError)
"""What a call of the cloud raises; the last one where its answer is cut off, as by a service that ends."""
_REFUSED = (401, 403, 404, 409)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStackSettings:
    """`cloud`: its name in clouds.yaml ("" for OS_* variables). `gate`: what keeps servers off batch's hosts.

    `filter`: a scheduler filter that asks the Balancer; the services stay enabled, and that says nothing.
    `service`: a host's compute service is disabled while it is batch's.
    """

    cloud: str = ""
    gate: Literal["filter", "service"] = "filter"
    timeout_s: float = 15.0

    def __post_init__(self) -> None:
        check_number("openstack", "timeout_s", self.timeout_s, above=0)


class OpenStackDriver:
    """`balancer.drivers.cloud.CloudDriver` for Nova."""

    name = "openstack"
    settings_type = OpenStackSettings

    def __init__(self, settings: OpenStackSettings | None = None, connection: Any = None) -> None:
        self.settings = settings or OpenStackSettings()
        self._connection = connection

    def get_status_of_hosts(self) -> dict[str, CloudStatus]:
        """Every host with a compute service. Raises DriverError; an answer is whole or none."""
        try:
            nova = self._connected().compute
            services = list(nova.services(binary="nova-compute"))
            servers = list(nova.servers(all_projects=True))
        except ERRORS as error:
            raise driver_error(error) from error
        found: dict[str, list[str]] = {}
        for server in servers:
            if server.compute_host:
                found.setdefault(server.compute_host, []).append(server.id)
        is_gate = self.settings.gate == "service"
        return {
            service.host: CloudStatus(
                enabled=is_gate and service.status == "enabled",
                vms=tuple(found.get(service.host, ())),
                is_up=service.state == "up",
            )
            for service in services
        }

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = openstack.connect(
                cloud=self.settings.cloud or None, api_timeout=self.settings.timeout_s
            )
        return self._connection


def driver_error(error: Exception) -> DriverError:
    """What went wrong, in the terms of all drivers."""
    text = f"the cloud cannot be read: {error}"
    status = getattr(error, "http_status", None) or getattr(error, "status_code", None)
    if status in _REFUSED:
        return RefusedError(text)
    if isinstance(error, (auth_errors.ConnectFailure, sdk_errors.ConfigException)):
        return UnreachableError(text)
    return UnclearError(text)
