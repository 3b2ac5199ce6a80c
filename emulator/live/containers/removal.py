"""A fleet is removed: containers, then networks, then volumes. What cannot be is told, and the next try finishes it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import docker.errors

from emulator.live.containers.docker_engine import FLEET_LABEL, ROLE_LABEL, FleetError, fleets
from emulator.live.containers.names import NODE

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES, _PAUSE_S = 60, 0.5


@dataclass(frozen=True, slots=True)
class Removed:
    """How many containers there were, and what is still there, with the reason."""

    containers: int
    problems: tuple[str, ...]


def own_fleets(client: Any) -> set[str]:
    """Fleets that `emulator fleet up` started, also those of which only a network or a volume is left."""
    parts = (
        *client.api.containers(all=True, filters={"label": FLEET_LABEL}),
        *(each.attrs for each in client.networks.list(filters={"label": FLEET_LABEL})),
        *(each.attrs for each in client.volumes.list(filters={"label": FLEET_LABEL})),
    )
    return {str(part["Labels"][FLEET_LABEL]) for part in parts}


def the_own_fleet(client: Any, fleet: str | None) -> str | None:
    """The named fleet, or the only one of ours; None: nothing is left of any. Raises FleetError."""
    known = sorted(own_fleets(client))
    if fleet is None:
        if len(known) > 1:
            raise FleetError(f"which fleet? {', '.join(known)}: choose with --fleet")
        return known[0] if known else None
    if fleet not in known and fleet in fleets(client):
        raise FleetError(
            f"{fleet} is a project of Docker Compose: `docker compose -p {fleet} down`, with -v to forget its run"
        )
    return fleet if fleet in known else None


def remove(client: Any, fleet: str, *, threads: int = 4, keep_data: bool = False) -> Removed:
    """Remove all that carries the fleet's label; volumes not, if their data are to be kept."""
    mark = {"label": f"{FLEET_LABEL}={fleet}"}
    # Services first: else they would deal with the loss of each node.
    found = sorted(
        client.api.containers(all=True, filters=mark), key=lambda each: each["Labels"][ROLE_LABEL] == NODE
    )
    with ThreadPoolExecutor(threads) as pool:
        problems = list(pool.map(partial(_remove_container, client), found))
    problems += [remove_network(network) for network in client.networks.list(filters=mark)]
    if not keep_data:
        for volume in client.volumes.list(filters=mark):
            problems.append(persist(f"volume {volume.name}", partial(volume.remove, force=True)))
    return Removed(len(found), tuple(filter(None, problems)))


def remove_network(network: Any) -> str:
    """After hundreds of containers an engine still counts some that it has removed: those are cut off first."""

    def once() -> None:
        network.reload()
        for gone in network.attrs.get("Containers") or {}:
            _cut_off(network, gone)
        network.remove()

    return persist(f"network {network.name}", once)


def _cut_off(network: Any, container_id: str) -> None:
    try:
        network.disconnect(container_id, force=True)
    except docker.errors.NotFound:
        return  # it is gone by now


def _remove_container(client: Any, container: dict[str, Any]) -> str:
    name = container["Names"][0].lstrip("/") if container["Names"] else container["Id"][:12]
    remove = partial(client.api.remove_container, container["Id"], force=True, v=True)
    return persist(f"container {name}", remove)


def persist(what: str, remove: Callable[[], None]) -> str:
    """Try until it is gone: an engine may be busy with it. '', or what is wrong."""
    pause = threading.Event()
    for tries_left in reversed(range(_TRIES)):
        try:
            remove()
        except docker.errors.NotFound:
            return ""  # somebody was faster
        except docker.errors.APIError as error:
            if not tries_left:
                return f"cannot remove {what}: {error.explanation or error}"
            pause.wait(_PAUSE_S)
        else:
            return ""
    return ""
