"""On-demand leases through openstacksdk, as any user of a cloud holds them, and the reserves that announce them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import openstack
import requests
from keystoneauth1 import exceptions as auth_errors
from openstack import exceptions as sdk_errors

from balancer.clock import utc_us
from balancer.drivers.openstack import ERRORS
from balancer.timestamps import parse_iso
from emulator.clock.shared_clock import SharedClock
from emulator.live.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from balancer.clock import Clock

_UNAVAILABLE = 500
_TIMEOUT_S = 30
Result = TypeVar("Result")


class CloudSettings(Settings):
    """How to log in, and what to ask for."""

    auth_url: str
    username: str = "demo"
    password: str = "secret"  # noqa: S105 - the default of our own test double
    project: str = "demo"
    region: str = "RegionOne"
    flavor: str = "node"
    image: str = "tiny"
    timeout_s: float = 60.0
    times: Literal["cluster", "wall"] = "cluster"
    """What the cloud's own times are: a real one knows nothing of a clock that runs faster."""


class CloudError(Exception):
    """The cloud said no."""


class CloudUnreachableError(CloudError):
    """The cloud does not answer."""

    def __init__(self, text: str) -> None:
        super().__init__(f"unreachable: {text}")


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Servers of a lease: all of them ACTIVE since `granted_us`, failed for a `fault`, or neither yet.

    `hosts`: on which they are, where the cloud tells this user.
    """

    server_ids: tuple[str, ...]
    granted_us: int | None = None
    fault: str | None = None
    hosts: tuple[str, ...] = ()


class Cloud:
    """Leases of whole nodes. A lease is a multi-create: all of its servers or none."""

    def __init__(self, settings: CloudSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._connection: Any = None
        self._flavor_id = ""
        self._image_id = ""

    def connect(self) -> None:
        """Log in and look up flavor and image; raises CloudError."""
        if self._connection is not None:
            return
        settings = self._settings
        connection = openstack.connect(
            load_yaml_config=False,
            load_envvars=False,
            auth_url=settings.auth_url,
            username=settings.username,
            password=settings.password,
            project_name=settings.project,
            user_domain_id="default",
            project_domain_id="default",
            region_name=settings.region,
            api_timeout=settings.timeout_s,
        )

        def find() -> tuple[str, str]:
            flavor = connection.compute.find_flavor(settings.flavor, ignore_missing=False)
            image = connection.image.find_image(settings.image, ignore_missing=False)
            return flavor.id, image.id

        try:
            self._flavor_id, self._image_id = _call(find)
        except CloudError:
            connection.close()
            raise
        self._connection = connection

    def create(self, name: str, nodes: int) -> None:
        """Ask for a lease; what becomes of it is in `state`."""
        self.connect()
        _call(
            lambda: self._connection.compute.create_server(
                name=name,
                flavor_id=self._flavor_id,
                image_id=self._image_id,
                networks="none",
                min_count=nodes,
                max_count=nodes,
            )
        )

    def state(self, name: str, nodes: int) -> LeaseState:
        """How the lease stands now."""
        self.connect()
        pattern = f"^{name}(-[0-9]+)?$"
        servers = _call(lambda: list(self._connection.compute.servers(name=pattern)))
        ids = tuple(server.id for server in servers)
        for server in servers:
            if server.status == "ERROR":
                return LeaseState(ids, fault=((server.fault or {}).get("message") or "unknown fault").strip())
        if len(servers) != nodes:
            return LeaseState(ids, fault=f"{len(servers)} of {nodes} servers exist")
        if any(server.status != "ACTIVE" for server in servers):
            return LeaseState(ids)
        launched_us = max(parse_iso(server.launched_at) for server in servers)
        hosts = tuple(server.compute_host for server in servers if server.compute_host)
        return LeaseState(
            ids, granted_us=self._cluster_us(launched_us), hosts=hosts if len(hosts) == nodes else ()
        )

    def _cluster_us(self, reported_us: int) -> int:
        """A time that the cloud told, as cluster time; it is not long ago, and the clock ran at its speed since."""
        if self._settings.times == "cluster":
            return reported_us
        speed = self._clock.speed if isinstance(self._clock, SharedClock) else 1.0
        return self._clock.now_us() - round(max(0, utc_us() - reported_us) * speed)

    def delete(self, server_ids: tuple[str, ...]) -> None:
        """End servers; those that are gone already are no error."""
        self.connect()
        for server_id in server_ids:
            _call(lambda server=server_id: self._connection.compute.delete_server(server))  # type: ignore[misc]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _call(call: Callable[[], Result]) -> Result:
    try:
        return call()
    except sdk_errors.HttpException as error:
        if (error.status_code or _UNAVAILABLE) >= _UNAVAILABLE:
            raise CloudUnreachableError(str(error)) from error
        raise CloudError(str(error)) from error
    except (auth_errors.ConnectFailure, auth_errors.DiscoveryFailure, requests.JSONDecodeError) as error:
        raise CloudUnreachableError(str(error)) from error
    except ERRORS as error:
        raise CloudError(str(error)) from error


def add_reserve(url: str | None, token: str | None, body: Mapping[str, Any], key: str = "") -> str:
    """A reserve at the Balancer: N nodes, H ahead (the paper's), or one with `every`. Returns why it failed, or "".

    `key`: one call in however many replays go on from one another.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        response = requests.post(
            f"{url}/v1/add_reserve",
            json=body,
            headers=headers | ({"Idempotency-Key": key} if key else {}),
            timeout=_TIMEOUT_S,
        )
    except requests.RequestException as error:
        return f"unreachable: {error}"
    return "" if response.ok else response.text.strip()
