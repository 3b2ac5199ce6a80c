"""The roles of a live run: the program of each, its container, and names that all of a fleet agree on.

Standard library only: nodes import it. What a role is told is in `roles.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTROLLER, BATCH, NODE, BALANCER, ONDEMAND, PREDICTOR, REPLAYER = (
    "controller", "batch", "node", "balancer", "ondemand", "predictor", "replayer",
)  # fmt: skip
"""Services, which are also the host names under which they are found."""
DATABASE = "database"

CONTROLLER_PORT = 8100
CLOCK_PORT = 8101
SCRATCH_PORT = 8103
BATCH_PORT = 15001
BALANCER_PORT = 8090
ONDEMAND_PORT = 8774


@dataclass(frozen=True, slots=True)
class Role:
    """What there is of a role, whoever starts it.

    `program`: a module of ours and its arguments, with {config} and {clock} where the paths of those go. `after`: who
    must answer before it starts in a container, if the run has them. Of its container: `port`: where it listens, 0:
    nowhere; `shares_scratch`: it sees what jobs write; `image`: the role whose image it has, if that is not its own.
    """

    program: tuple[str, ...]
    after: tuple[str, ...] = ()
    port: int = 0
    shares_scratch: bool = False
    image: str = ""

    def arguments(self, config: object = "", clock: object = "") -> list[str]:
        """Of Python, to start it with these files."""
        return ["-m", *(part.format(config=config, clock=clock) for part in self.program)]


ROLES = {
    CONTROLLER: Role(("emulator.live.containers.controller",), port=CONTROLLER_PORT, shares_scratch=True),
    BATCH: Role(
        ("emulator.live.torque.server", "--config", "{config}", "--clock", "{clock}"), port=BATCH_PORT
    ),
    NODE: Role(("emulator.live.agent", "--config", "{config}", "--clock", "{clock}"), shares_scratch=True),
    BALANCER: Role(("balancer", "serve", "--config", "{config}"), after=(BATCH,), port=BALANCER_PORT),
    ONDEMAND: Role(
        ("emulator.live.ondemand", "--config", "{config}"), after=(BATCH, BALANCER), port=ONDEMAND_PORT
    ),
    PREDICTOR: Role(("balancer", "predict"), after=(BATCH, BALANCER), image=BALANCER),
    REPLAYER: Role(
        ("emulator.live.replayer", "--config", "{config}"),
        after=(BATCH, ONDEMAND, PREDICTOR),
        shares_scratch=True,
    ),
}


def image_of(role: str) -> str:
    """The role whose image it has."""
    return ROLES[role].image or role


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
