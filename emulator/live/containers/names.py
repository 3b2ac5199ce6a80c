"""Names, ports and folders that all containers of a fleet agree on, and where people find its services.

Standard library only: nodes import it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTROLLER, BATCH, NODE, BALANCER, ONDEMAND, PREDICTOR, REPLAYER = (
    "controller", "batch", "node", "balancer", "ondemand", "predictor", "replayer",
)  # fmt: skip
"""Services, which are also the host names under which they are found."""
DATABASE = "database"
ROLES = (CONTROLLER, BATCH, NODE, BALANCER, ONDEMAND, PREDICTOR, REPLAYER)
IMAGES = {role: BALANCER if role == PREDICTOR else role for role in ROLES}
"""Role -> whose image it has: a predictor is a program of the Balancer's."""

CONTROLLER_PORT = 8100
CLOCK_PORT = 8101
SCRATCH_PORT = 8103
BATCH_PORT = 15001
BALANCER_PORT = 8090
ONDEMAND_PORT = 8774

SHARED = Path("/fleet")
"""A volume of the run: its clock, and what the services keep across a restart."""
SCRATCH = "/scratch"
"""A volume of all nodes, for what jobs write and for their checkpoints; of another host's nodes: a copy."""
MADE = Path("/run/fleet/results")
"""Where the controller makes the results, in its own container: the volume may be full."""
RESULTS = Path("/runs")
"""Where the results go: a folder of the user's."""

UID = GID = 1000
"""Whom everything runs as."""


_SOME = 8


def some_of(names: list[str]) -> str:
    """The first few of many names, for people."""
    return ", ".join(names[:_SOME]) + ", ..." * (len(names) > _SOME)


REST = "rest"
"""The container that plays all nodes which have none of their own."""
_TO = ".."


def node_name(number: int) -> str:
    return f"n{number:03d}"


def nodes_from_to(first: int, last: int) -> str:
    """A name for many nodes at once, as a container that plays them has it: n033..n4392."""
    return f"{node_name(first)}{_TO}{node_name(last)}"


def nodes_of(name: str) -> tuple[str, ...]:
    """Whom a container of this name plays: itself, or the nodes from one to another."""
    if _TO not in name:
        return (name,)
    first, last = (int(end.lstrip("n")) for end in name.split(_TO))
    return tuple(map(node_name, range(first, last + 1)))


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
