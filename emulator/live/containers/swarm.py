"""`emulator fleet swarm`: the fleet of deploy/swarm.yml over several hosts, begun, seen to its end and removed.

Another host joins with one command: it fetches a script, the script fetches the image.

    curl -fsS http://MANAGER:8102/SECRET | sh

The host needs an engine, curl and a shell. The script loads the image that nodes run, where the engine has it not yet
(so no registry is needed), joins, waits until the run is over, leaves, and takes away what the Swarm left. A host that
is in a Swarm already gets the image, and no more. Who knows the address with its secret may join; it is plain HTTP, for
a network whose hosts trust each other, as a Swarm has.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import docker.errors

from balancer.clock import micros, wall_us
from balancer.version import VERSION
from emulator.clock.background_server import HttpServer, Serving
from emulator.live.containers.docker_engine import FleetError, Removed, check_images, persist, remove_network
from emulator.live.names import CONTROLLER, NODE, ROLES, image_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_PORT = 2377
_LOOK_S = 0.3
_STACK = "com.docker.stack.namespace"
_SERVICE = "com.docker.swarm.service.name"
_GONE_S, _LEAVE_S = 120.0, 30.0
_ENDED = {"complete", "failed", "rejected", "shutdown", "orphaned", "remove"}
_GATEWAY = "docker_gwbridge"
_OURS = "balancer-emulator.began"
"""A label of the Swarm: we have begun it; whether there was a docker_gwbridge before."""
INTERRUPTED = 130
STOPPED = 128
"""An exit status from here on: the run is not over."""


@dataclass(frozen=True, slots=True)
class SwarmOrder:
    """What `swarm up` is asked for. `scenario`: its name in the folder `scenarios`, which the controller reads."""

    fleet: str
    nodes: int
    hosts: int
    stack_file: Path
    scenarios: Path
    scenario: str
    out: Path
    changes: tuple[str, ...] = ()
    images: str = "balancer-emulator"
    subnet: str | None = None

    def image(self, role: str) -> str:
        return f"{self.images}/{image_of(role)}:{VERSION}"

    def environ(self) -> dict[str, str]:
        """What the stack's file asks of the environment."""
        variables = {
            "FLEET_RUNS": str(self.out.absolute()),
            "FLEET_SCENARIOS": str(self.scenarios.absolute()),
            "FLEET_SCENARIO": f"/scenarios/{self.scenario}",
            "FLEET_SET": " ".join(self.changes),
            "FLEET_NODES": str(self.nodes),
            "FLEET_PER_HOST": str(-(-self.nodes // self.hosts)),
            "FLEET_IMAGES": self.images,
            "FLEET_VERSION": VERSION,
        }
        return variables if self.subnet is None else variables | {"FLEET_SUBNET": self.subnet}


class Swarm:
    """The engine as a manager. One that is none becomes it, and ends it in `close`."""

    def __init__(self, client: Any, address: str | None) -> None:
        self._client = client
        swarm = client.info()["Swarm"]
        if swarm["LocalNodeState"] == "inactive":
            had_gateway = str(bool(client.networks.list(names=[_GATEWAY])))
            try:
                client.swarm.init(advertise_addr=address, labels={_OURS: had_gateway})
            except docker.errors.APIError as error:
                raise FleetError(
                    f"the engine cannot begin a Swarm: {error.explanation or error}; --address says which of"
                    " this machine's addresses the other hosts reach"
                ) from error
        elif not swarm["ControlAvailable"]:
            raise FleetError("this engine is a worker of a Swarm: use its manager, or `docker swarm leave`")
        client.swarm.reload()
        labels = client.swarm.attrs["Spec"].get("Labels") or {}
        self.is_of_others, self._had_gateway = _OURS not in labels, labels.get(_OURS) == str(True)
        """We have not begun it: its hosts may lack our images."""
        self.address = str(client.info()["Swarm"]["NodeAddr"])
        self._known = {node.id for node in client.nodes.list()}

    def invitation(self, image: str) -> JoinTicket:
        self._client.swarm.reload()
        token = str(self._client.swarm.attrs["JoinTokens"]["Worker"])
        found = self._client.images.get(image)
        return JoinTicket(
            f"{self.address}:{_PORT}", token, image, str(found.id), lambda: self._client.api.get_image(image)
        )

    def ready(self) -> int:
        """How many hosts there are."""
        return sum(node.attrs["Status"]["State"] == "ready" for node in self._client.nodes.list())

    def guests_are_gone(self) -> bool:
        """Whether those who joined meanwhile have left."""
        return not any(
            node.id not in self._known and node.attrs["Status"]["State"] == "ready"
            for node in self._client.nodes.list()
        )

    def close(self) -> tuple[str, ...]:
        """Forget who has left; end the Swarm, if it is ours. What is left."""
        if self.is_of_others:
            gone = [node for node in self._client.nodes.list() if node.id not in self._known]
            remove = (persist(f"host {node.id}", partial(node.remove, force=True)) for node in gone)
            return tuple(filter(None, remove))
        self._client.swarm.leave(force=True)
        if self._had_gateway:
            return ()
        left = (remove_network(network) for network in self._client.networks.list(names=[_GATEWAY]))
        return tuple(filter(None, left))


def check(client: Any, order: SwarmOrder) -> None:
    """Raises FleetError for what stands in the way; nothing has begun yet."""
    if shutil.which("docker") is None:
        raise FleetError("the command docker is needed to deploy a stack (apt-get install docker.io)")
    if not order.stack_file.exists():
        raise FleetError(f"there is no {order.stack_file}; --stack says where deploy/swarm.yml is")
    check_images(client, map(order.image, ROLES))
    if client.info()["Swarm"]["LocalNodeState"] == "active" and _containers(client, order.fleet):
        raise FleetError(
            f"there is a stack {order.fleet!r} already; `emulator fleet swarm down --fleet {order.fleet}`"
        )


def wait_for_hosts(swarm: Swarm, hosts: int, interrupted: Callable[[], bool]) -> bool:
    """Until so many hosts are there. False: interrupted."""
    pause = threading.Event()
    while swarm.ready() < hosts:
        if interrupted():
            return False
        pause.wait(_LOOK_S)
    return True


def wait_for_guests(swarm: Swarm) -> None:
    """Until the other hosts have left, or do not seem to."""
    pause, end_us = threading.Event(), wall_us() + micros(_LEAVE_S)
    while not swarm.guests_are_gone() and wall_us() < end_us:
        pause.wait(_LOOK_S)


def deploy(order: SwarmOrder) -> None:
    """Start the stack. Raises FleetError."""
    order.out.mkdir(parents=True, exist_ok=True)
    command = ["docker", "stack", "deploy", "--resolve-image", "never", "--compose-file"]
    command += [str(order.stack_file), order.fleet]
    done = subprocess.run(
        command, env=os.environ | order.environ(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise FleetError(f"the stack cannot be deployed: {done.stderr.strip()}")


def follow(
    client: Any, order: SwarmOrder, say: Callable[[str], None], interrupted: Callable[[], bool]
) -> int:
    """See the run to its end. Its exit status; 130: interrupted. `say`: is told what the controller says."""
    pause, shown, spread = threading.Event(), 0, ""
    while not interrupted():
        lines = _controller_lines(client, order.fleet)
        for line in lines[shown:]:
            say(line)
        shown = max(shown, len(lines))
        if not spread and (spread := _spread(client, order)):
            say(spread)
        task = next(iter(_tasks(client, order.fleet, CONTROLLER)), None)
        if task is not None and task["Status"]["State"] in _ENDED:
            for line in _controller_lines(client, order.fleet)[shown:]:
                say(line)
            status = int(task["Status"].get("ContainerStatus", {}).get("ExitCode", 1))
            if task["Status"]["State"] != "complete":
                status = status or 1
                for problem in _problems(client, order.fleet):
                    say(problem)
            return status
        pause.wait(_LOOK_S)
    return INTERRUPTED


def remove(client: Any, fleet: str, *, keep_data: bool = False) -> Removed:
    """Remove the stack: services with their containers on all hosts, networks, and this host's volumes."""
    mark = {"label": f"{_STACK}={fleet}"}
    is_active = client.info()["Swarm"]["LocalNodeState"] == "active"
    services = client.services.list(filters=mark) if is_active else []
    found = _containers(client, fleet)
    problems = [persist(f"service {service.name}", service.remove) for service in services]
    # Tasks end by themselves, on all hosts; a network goes when the last of its tasks is gone.
    pause, end_us = threading.Event(), wall_us() + micros(_GONE_S)
    while (_containers(client, fleet) or _all_tasks(client, services)) and wall_us() < end_us:
        pause.wait(_LOOK_S)
    problems += [remove_network(network) for network in client.networks.list(filters=mark)]
    if not keep_data:
        problems += [
            persist(f"volume {each.name}", each.remove) for each in client.volumes.list(filters=mark)
        ]
    return Removed(len(found), tuple(filter(None, problems)))


def _containers(client: Any, fleet: str) -> list[Any]:
    found: list[Any] = client.api.containers(all=True, filters={"label": f"{_STACK}={fleet}"})
    return found


def _all_tasks(client: Any, services: list[Any]) -> list[Any]:
    """Tasks of services that are not gone; those of a service that is are forgotten with it, one by one."""
    known = {service.id for service in services}
    return [task for task in client.api.tasks() if task["ServiceID"] in known] if known else []


def _tasks(client: Any, fleet: str, role: str) -> list[dict[str, Any]]:
    """Of a service, the newest first."""
    found: list[dict[str, Any]] = client.api.tasks({"service": f"{fleet}_{role}"})
    return sorted(found, key=lambda task: str(task["CreatedAt"]), reverse=True)


def _controller_lines(client: Any, fleet: str) -> list[str]:
    """Lines of the controller, which is on this host; its newest container that is still there."""
    label = {"label": f"{_SERVICE}={fleet}_{CONTROLLER}"}
    for container in client.api.containers(all=True, filters=label):
        try:
            text: bytes = client.api.logs(container["Id"])
        except docker.errors.NotFound:
            continue  # a first try that could not start: the Swarm has removed it meanwhile
        return text.decode(errors="replace").splitlines()
    return []


def _spread(client: Any, order: SwarmOrder) -> str:
    """How many nodes each host has, once all run; '' before."""
    running = [task for task in _tasks(client, order.fleet, NODE) if task["Status"]["State"] == "running"]
    if len(running) < order.nodes:
        return ""
    addresses = {node.id: node.attrs["Status"].get("Addr", node.id) for node in client.nodes.list()}
    count = Counter(addresses.get(task["NodeID"], task["NodeID"]) for task in running)
    return "nodes: " + ", ".join(f"{nodes} on {address}" for address, nodes in sorted(count.items()))


def _problems(client: Any, fleet: str) -> list[str]:
    """What hosts say of tasks that did not come up, each once."""
    services = client.services.list(filters={"label": f"{_STACK}={fleet}"})
    ids = {service.id: service.name for service in services}
    errors = (
        f"{ids[task['ServiceID']]}: {task['Status']['Err']}"
        for task in client.api.tasks()
        if task["ServiceID"] in ids and task["Status"].get("Err")
    )
    return list(dict.fromkeys(errors))


# How another host joins.

_THERE = {"", "image", "over"}
_SCRIPT = """set -eu
url='{url}'
[ "$(docker image inspect --format '{{{{.Id}}}}' '{image}' 2>/dev/null)" = '{image_id}' ] ||
    curl -fsS "$url/image" | docker load --quiet
[ "$(docker info --format '{{{{.Swarm.LocalNodeState}}}}')" = inactive ] || exit 0
has_bridge=$(docker network ls --quiet --filter name=docker_gwbridge)
docker swarm join --token '{token}' '{manager}'
leave() {{
    trap - EXIT
    docker swarm leave
    [ -n "$has_bridge" ] || for i in 1 2 3 4 5 6 7 8 9 10; do
        docker network disconnect --force docker_gwbridge gateway_ingress-sbox >/dev/null 2>&1 || true
        docker network rm docker_gwbridge >/dev/null 2>&1 && break || sleep 0.5
    done
}}
trap leave EXIT
trap 'exit 130' INT TERM
curl -fsS "$url/over" || true
"""
"""Doubled braces are those of the script. What is piped into `docker load` and ends half-way is its error."""


@dataclass(frozen=True, slots=True)
class JoinTicket:
    """What a host needs. `manager`: HOST:PORT of the Swarm; `image`: name and `image_id` of what its nodes run."""

    manager: str
    token: str
    image: str
    image_id: str
    image_tar: Callable[[], Iterable[bytes]]

    def script(self, url: str) -> str:
        return _SCRIPT.format(
            url=url, image=self.image, image_id=self.image_id, token=self.token, manager=self.manager
        )


class JoinServer(Serving):
    """Invites hosts at `address` (one of this machine's) while the block lasts; port 0: any."""

    def __init__(self, address: tuple[str, int], invitation: JoinTicket) -> None:
        server = _Server(address, invitation)
        super().__init__(server, "invitations")
        self.over = server.over
        """Set it, and the hosts leave."""
        self.command = f"curl -fsS {server.url} | sh"
        """What to type on each other host."""


class _Server(HttpServer):
    def __init__(self, address: tuple[str, int], invitation: JoinTicket) -> None:
        super().__init__(address, _Handler)
        self.invitation = invitation
        self.over = threading.Event()
        self.secret = secrets.token_urlsafe(16)
        self.url = f"http://{address[0]}:{self.server_port}/{self.secret}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        secret, _, what = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()) or what not in _THERE:
            self.send_error(404)
            return
        if what == "over":
            self.server.over.wait()
        self.send_response(200)
        self.end_headers()
        if what == "image":
            for part in self.server.invitation.image_tar():
                self.wfile.write(part)
        elif not what:
            self.wfile.write(self.server.invitation.script(self.server.url).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002 - the base class's name
        """Only what went wrong; never the address with its secret."""
        if args[1:2] != ("200",):
            sys.stderr.write(f"emulator: {self.client_address[0]} asked for what is not here\n")
