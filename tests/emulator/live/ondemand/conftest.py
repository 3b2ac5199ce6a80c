"""Managers on a free port, and clients that do not know what they talk to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openstack
import pytest

from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODES = ("node001", "node002", "node003", "node004")


@pytest.fixture
def manager() -> Iterator[OndemandServer]:
    """A manager with four dedicated nodes on the system's clock."""
    with OndemandServer(OndemandConfig(pool=NODES)) as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    """connect(manager, user="demo", **options) -> an openstacksdk connection, closed after the test."""
    connections = []

    def connect(manager: OndemandServer, user: str = "demo", **options: Any) -> Any:
        given = {
            "auth_url": manager.auth_url,
            "username": user,
            "password": "secret",
            "project_name": user,
            "user_domain_id": "default",
            "project_domain_id": "default",
            "region_name": "RegionOne",
            "load_yaml_config": False,
            "load_envvars": False,
        }
        connection = openstack.connect(**(given | options))
        connections.append(connection)
        return connection

    yield connect
    for connection in connections:
        connection.close()
