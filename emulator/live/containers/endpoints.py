"""Where people find the services of a fleet of Docker Compose: its controller says so when time begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.live.containers.names import (
    BALANCER,
    BALANCER_PORT,
    BATCH,
    BATCH_PORT,
    CONTROLLER,
    CONTROLLER_PORT,
    ONDEMAND,
    ONDEMAND_PORT,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENDPOINTS = (
    (BALANCER, BALANCER_PORT, "dashboard: http://{}/"),
    (BATCH, BATCH_PORT, "batch server: {}"),
    (ONDEMAND, ONDEMAND_PORT, "cloud: http://{}/identity/v3"),
    (CONTROLLER, CONTROLLER_PORT, "where the run is: `emulator fleet status`, http://{}/status"),
)


def endpoint_lines(environ: Mapping[str, str], viewer_token: str) -> Iterator[str]:
    """A line for each service. $FLEET_ROLE_PORT says its port on this machine, empty: a free one; unset: nobody knows.

    `viewer_token` lets people look at the dashboard; empty where there is no Balancer.
    """
    for role, inside, text in _ENDPOINTS:
        port = environ.get(f"FLEET_{role.upper()}_PORT")
        if port is None or (role in {BALANCER, ONDEMAND} and not viewer_token):
            continue
        address = f"127.0.0.1:{port}" if port else f"$(docker compose port {role} {inside})"
        token = f" (token {viewer_token})" if role == BALANCER else ""
        yield text.format(address) + token
