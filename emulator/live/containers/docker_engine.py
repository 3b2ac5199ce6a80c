"""The containers of a fleet as the Docker Engine knows them, and what can be done to one of them.

A fleet is found by labels: those of `emulator fleet up`, or those that Docker Compose sets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import requests

from balancer.clock import seconds, wall_us
from emulator.live.faults import FaultAction, Slow, text_of
from emulator.live.names import CONTROLLER, CONTROLLER_PORT, DATABASE, NODE, ROLES, node_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FLEET_LABEL, ROLE_LABEL, NODE_LABEL = (f"balancer-emulator.{what}" for what in ("fleet", "role", "node"))
_PROJECT, _SERVICE, _NUMBER = (
    f"com.docker.compose.{name}" for name in ("project", "service", "container-number")
)
_TIMEOUT_S = 600
_ASK_S = 10.0
_METER_US = 10_000_000
_NO_SUCH_DISCIPLINE = "qdisc kind is unknown"


class FleetError(Exception):
    """It cannot be done; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Member:
    """A container of a fleet. `name`: a service, or a node by its name."""

    name: str
    role: str
    container: Any

    @property
    def is_running(self) -> bool:
        return bool(self.container.status in {"running", "paused"})


def check_images(client: Any, names: Iterable[str]) -> None:
    """Raise FleetError for those that the engine does not have."""
    missing = [name for name in dict.fromkeys(names) if not client.images.list(name)]
    if missing:
        raise FleetError(f"there is no image {', '.join(missing)}: build them with scripts/fleet-images")


def docker_client(threads: int = 4) -> Any:
    """A client of the Docker Engine at $DOCKER_HOST. Raises FleetError."""
    try:
        client = docker.from_env(timeout=_TIMEOUT_S, max_pool_size=max(threads, 10))
        client.ping()
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise FleetError(
            f"no Docker engine answers ({error}); start one, or run scripts/docker-engine start, and set DOCKER_HOST"
        ) from error
    return client


def fleets(client: Any) -> set[str]:
    """Names of all fleets, whoever started them."""
    return {name for name, _ in _all(client)}


def members(client: Any, fleet: str) -> list[Member]:
    """The containers of a fleet, services first, then nodes in order of their names. Raises FleetError."""
    found = [member for name, member in _all(client) if name == fleet]
    if not found:
        known = sorted(fleets(client))
        raise FleetError(
            f"there is no fleet {fleet!r}" + (f"; known: {', '.join(known)}" if known else " running")
        )
    return sorted(found, key=lambda member: (member.role == NODE, member.name))


def _all(client: Any) -> Iterator[tuple[str, Member]]:
    for container in client.containers.list(all=True, sparse=True):
        labels = container.attrs["Labels"] or {}  # sparse: not `container.labels`
        if FLEET_LABEL in labels:
            role = labels[ROLE_LABEL]
            yield labels[FLEET_LABEL], Member(labels.get(NODE_LABEL, role), role, container)
        elif labels.get(_SERVICE) in {*ROLES, DATABASE} and labels.get("com.docker.compose.oneoff") != "True":
            role = labels[_SERVICE]
            name = node_name(int(labels[_NUMBER])) if role == NODE else role
            yield labels[_PROJECT], Member(name, role, container)


def the_fleet(client: Any, fleet: str | None) -> str:
    """The named fleet, or the only one. Raises FleetError."""
    if fleet:
        return fleet
    known = sorted(fleets(client))
    if len(known) == 1:
        return known[0]
    raise FleetError(
        f"which fleet? {', '.join(known)}: choose with --fleet"
        if known
        else "there is no fleet; `emulator fleet up`"
    )


def member(client: Any, fleet: str, name: str) -> Member:
    for each in members(client, fleet):
        if each.name == name:
            return each
    raise FleetError(
        f"there is no {name!r} in the fleet {fleet}; nodes are n001, n002, ...; services {', '.join(ROLES)}"
    )


def cpu_s(client: Any, found: Iterable[Member], threads: int = 4) -> dict[str, float]:
    """Processor seconds that containers have used since they started, by name; those that do not run are left out."""

    def ask(each: Member) -> float:
        stats = client.api.stats(each.container.id, stream=False, one_shot=True)
        return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    running = [each for each in found if each.is_running]
    try:
        with ThreadPoolExecutor(threads) as pool:
            return dict(zip((each.name for each in running), pool.map(ask, running), strict=True))
    except docker.errors.NotFound:
        return {}  # one is gone meanwhile: the fleet is being removed


class CpuMeter:
    """Looks now and then what a fleet's containers have used, since one that has ended does not tell any more."""

    def __init__(self, client: Any, fleet: str) -> None:
        self._client = client
        self._fleet = fleet
        self._looked_us = wall_us()
        self._used: dict[str, tuple[str, float]] = {}

    def look(self) -> None:
        """Once in ten seconds of wall time; more often it does nothing."""
        if wall_us() - self._looked_us >= _METER_US:
            found = members(self._client, self._fleet)
            roles = {each.name: each.role for each in found}
            self._used |= {name: (roles[name], used_s) for name, used_s in cpu_s(self._client, found).items()}
            self._looked_us = wall_us()

    def text(self) -> str:
        """The sum by role; '' for a run that was over too soon."""
        by_role: dict[str, float] = {}
        for role, used_s in self._used.values():
            by_role[role] = by_role.get(role, 0) + used_s
        parts = ", ".join(f"{role} {used_s:.1f} s" for role, used_s in by_role.items())
        ago_s = seconds(wall_us() - self._looked_us)
        return parts and f"processor time until {ago_s:.0f} s before the end: {parts}"


def do(client: Any, target: Member, action: FaultAction, *, slow: Slow) -> None:
    """Carry out a fault or its end. Raises FleetError when the engine refuses."""
    container = target.container
    try:
        match action:
            case FaultAction.KILL | FaultAction.START | FaultAction.PAUSE | FaultAction.UNPAUSE:
                getattr(container, action)()  # the engine calls them the same
            case FaultAction.DISCONNECT:
                for network in _networks(client, target):
                    network.disconnect(container, force=True)
            case FaultAction.CONNECT:
                _connect(client, target)
            case FaultAction.SLOW:
                _tc(target, "replace", ["root", *slow.discipline()])
            case FaultAction.UNSLOW:
                _tc(target, "del", ["root"])
    except docker.errors.APIError as error:
        raise FleetError(f"{action} {target.name}: {error.explanation or error}") from error


def _networks(client: Any, target: Member) -> list[Any]:
    attached = client.api.inspect_container(target.container.id)["NetworkSettings"]["Networks"]
    return [client.networks.get(name) for name in attached]


def _connect(client: Any, target: Member) -> None:
    """Back into the network of the others, under the same names and, where it was fixed, the same address."""
    found = client.api.inspect_container(target.container.id)
    labels = found["Config"]["Labels"]
    fleet = labels.get(FLEET_LABEL) or labels[_PROJECT]
    other = next(each for each in members(client, fleet) if each.name != target.name and each.is_running)
    aliases = [target.role, found["Id"][:12], target.name]
    address = labels.get("balancer-emulator.address")
    for network in _networks(client, other):
        network.connect(target.container, aliases=aliases, ipv4_address=address)


def _tc(target: Member, verb: str, more: list[str]) -> None:
    """Limit what a container sends, inside its network namespace."""
    target.container.reload()
    pid = target.container.attrs["State"]["Pid"]
    for tool in ("nsenter", "tc"):
        if shutil.which(tool) is None:
            raise FleetError(
                f"slow: {tool} is needed on the engine's machine (apt-get install util-linux iproute2)"
            )
    if os.geteuid() != 0 or not pid:
        raise FleetError(f"slow: needs root on the engine's machine, and {target.name} running")
    command = ["nsenter", "-t", str(pid), "-n", "tc", "qdisc", verb, "dev", "eth0", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if "netem" in more and _NO_SUCH_DISCIPLINE in done.stderr:
        raise FleetError(
            f"slow {target.name}: this kernel has no netem, so it cannot delay; give a rate instead"
        )
    if done.returncode:
        raise FleetError(f"slow {target.name}: {done.stderr.strip()}")


class ControllerClient:
    """The controller of a fleet, through its published port."""

    def __init__(self, controller: Member) -> None:
        self._controller = controller
        self._url = ""

    def status(self) -> dict[str, Any] | None:
        """Where the run is; None while the controller does not answer."""
        return self._call("GET", "/status")

    def mark(self, text: str, action: FaultAction, host: str, fault: int | None = None) -> float | None:
        """Tell it what was done; the cluster time of the mark, None if nobody listens."""
        return self._post({"text": text, "do": str(action), "host": host, "fault": fault})

    def annotate(self, text: str, fault: int) -> float | None:
        """Tell it of a step that was not done, as `mark`."""
        return self._post({"text": text, "fault": fault})

    def _post(self, body: dict[str, Any]) -> float | None:
        answer = self._call("POST", "/marks", body)
        return None if answer is None else float(answer["at_s"])

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        self._url = self._url or _published_url(self._controller, CONTROLLER_PORT)
        try:
            answer = requests.request(method, f"{self._url}{path}", json=body, timeout=_ASK_S)
            answer.raise_for_status()
        except requests.RequestException:  # also where it has no address (now)
            self._url = ""
            return None
        found: dict[str, Any] = answer.json()
        return found


def address_of(client: Any, fleet: str, role: str, port: int) -> str:
    """http://HOST:PORT of a service as this machine sees it; '' if it has none (now)."""
    return _published_url(member(client, fleet, role), port)


def _published_url(target: Member, port: int) -> str:
    target.container.reload()
    found = (target.container.attrs["NetworkSettings"]["Ports"] or {}).get(f"{port}/tcp")
    return f"http://{found[0]['HostIp']}:{found[0]['HostPort']}" if found else ""


def controller_of(client: Any, fleet: str) -> ControllerClient:
    return ControllerClient(member(client, fleet, CONTROLLER))


def fault(
    client: Any, fleet: str, name: str, action: FaultAction, *, slow: Slow, number: int | None = None
) -> float | None:
    """Do it to the fleet's member and tell the controller. The mark's cluster time; None: there was none to tell."""
    target = member(client, fleet, name)
    host = client.api.inspect_container(target.container.id)["Config"]["Hostname"]
    do(client, target, action, slow=slow)
    return controller_of(client, fleet).mark(f"fault: {text_of(action, name, slow)}", action, host, number)


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
    """Remove all that carries the fleet's label; volumes not, if their data are to be kept.

    What cannot be removed is told, and the next try finishes it.
    """
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
