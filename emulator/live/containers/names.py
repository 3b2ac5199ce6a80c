"""Names, ports and folders that all containers of a fleet agree on. Standard library only: nodes import it."""

from __future__ import annotations

from pathlib import Path

CONTROLLER, BATCH, NODE, BALANCER, ONDEMAND, REPLAYER = (
    "controller", "batch", "node", "balancer", "ondemand", "replayer",
)  # fmt: skip
"""Services, which are also the host names under which they are found."""
DATABASE = "database"
ROLES = (CONTROLLER, BATCH, NODE, BALANCER, ONDEMAND, REPLAYER)

CONTROLLER_PORT = 8100
BATCH_PORT = 15001
BALANCER_PORT = 8090
ONDEMAND_PORT = 8774

SHARED = Path("/fleet")
"""A volume of the run: its clock, and what the services keep across a restart."""
RESULTS = Path("/runs")
"""Where the results go: a folder of the user's."""

UID = GID = 1000
"""Whom everything runs as."""


_SOME = 8


def some_of(names: list[str]) -> str:
    """The first few of many names, for people."""
    return ", ".join(names[:_SOME]) + ", ..." * (len(names) > _SOME)


def node_name(number: int) -> str:
    return f"n{number:03d}"
