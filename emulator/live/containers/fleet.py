"""`emulator fleet`: hundreds of node containers, started and removed through the engine's own interface.

Docker Compose starts the replicas of a service nearly one by one and gives them no names of their own; here every
node has its host name and a fixed address, and a few threads keep the engine busy without drowning it.
"""

from __future__ import annotations

import ipaddress
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network, ip_network
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker.errors
import requests
from docker.types import IPAMConfig, IPAMPool

from balancer.clock import US, seconds, wall_us
from balancer.version import VERSION
from emulator.live.containers.docker_engine import (
    FLEET_LABEL,
    NODE_LABEL,
    ROLE_LABEL,
    ControllerClient,
    FleetError,
    check_images,
    controller_of,
    fault,
    member,
    members,
    remove,
    remove_network,
)
from emulator.live.faults import FaultAction, Slow, text_of
from emulator.live.names import (
    CONTROLLER,
    NODE,
    REST,
    ROLES,
    SCRATCH,
    SHARED,
    image_of,
    node_name,
    nodes_from_to,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Route = tuple[str, IPv4Network]
    """An interface of this machine, and the addresses that it leads to."""


_SECONDS = range(77, 110)
_WIDEST, _USUAL = 16, 22
_PARTS_BITS = 2
"""The last quarter of a subnet is for whoever comes without an address of its own."""
_ROUTES = Path("/proc/net/route")
_ROUTE_MASK = 7
"""The field of a line of the kernel's table that has the mask."""


def choose_subnet(
    hosts: int, requested: str | None, engines: Sequence[IPv4Network], routes: Sequence[Route]
) -> IPv4Network:
    """The subnet that was asked for, or the first that is free. Raises FleetError when there is none.

    `engines`: networks of the container engine. `routes` of this machine, where the bridge of an engine that died may
    still be: its addresses answer for nobody, and containers on them cannot reach each other.
    """
    prefix = next(
        bits for bits in range(_USUAL, _WIDEST - 1, -1) if _room(32 - bits) >= hosts or bits == _WIDEST
    )
    candidates = [requested] if requested else [f"10.{second}.0.0/{prefix}" for second in _SECONDS]
    left_over: list[Route] = []
    for text in candidates:
        try:
            subnet = IPv4Network(text)
        except ValueError as error:
            raise FleetError(f"--subnet must be like 10.77.0.0/22: {error}") from error
        if any(subnet.overlaps(other) for other in engines):
            continue
        # A wider route (a site's 10.0.0.0/8) is no obstacle: the bridge's own is the more exact one.
        here = [route for route in routes if route[1].subnet_of(subnet)]
        left_over += here
        if here:
            continue
        if _room(32 - subnet.prefixlen) < hosts:
            raise FleetError(f"{subnet} has no room for {hosts} addresses; give a wider --subnet")
        return subnet
    leftover_note = "".join(f"; {name} of this machine has {network}" for name, network in left_over[:3])
    hint = "; a bridge that an engine left behind goes away with `ip link delete`" if left_over else ""
    raise FleetError(
        f"no free network among {', '.join(candidates)}{leftover_note}: give another --subnet{hint}"
    )


def _room(bits: int) -> int:
    """Fixed addresses in a subnet of so many bits, beside its own and the gateway's."""
    return (1 << bits) - (1 << max(bits - _PARTS_BITS, 0)) - 2


def automatic_part(subnet: IPv4Network) -> IPv4Network:
    """Where an engine takes the addresses that nobody has chosen: fixed ones are below."""
    *_, last = subnet.subnets(prefixlen_diff=_PARTS_BITS)
    return last


def host_routes(path: Path = _ROUTES) -> list[Route]:
    """Routes of this machine but the default one; none where the kernel has no such table."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        destination, mask = (_address(fields[place]) for place in (1, _ROUTE_MASK))
        network = ipaddress.IPv4Network((destination, mask))
        if network.prefixlen:
            found.append((fields[0], network))
    return found


def _address(text: str) -> str:
    """`0000040A` in the byte order of this machine's kernel, as `10.4.0.0`."""
    return str(ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(text), "little")))


_CONTROLLER_CAPS = ["CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"]
_FIRST_NODE = 16
"""Addresses below this one are for services."""
_NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
_FEW = 200
_ENTRY = ("python", "-m", "emulator.live.containers.entry")


@dataclass(frozen=True, slots=True)
class Order:
    """What `up` is asked for. `changes`: KEY=VALUE for the scenario."""

    fleet: str
    nodes: int
    scenario: Path
    out: Path
    changes: tuple[str, ...] = ()
    containers: int | None = None
    """How many nodes have a container of their own; one more plays the others. None: all have."""
    images: str = "balancer-emulator"
    """Images are IMAGES/ROLE:VERSION, by the version of this package."""
    subnet: str | None = None
    threads: int = 4
    missing: str = "end"
    node_cores: int | None = None
    node_memory_kib: int | None = None
    folders: tuple[Path, ...] = ()
    """Folders that the scenario reads from; they are there under the same names in the controller's container."""

    def image(self, role: str) -> str:
        return f"{self.images}/{image_of(role)}:{VERSION}"

    @property
    def single_node_containers(self) -> int:
        return self.nodes if self.containers is None else min(self.containers, self.nodes)

    @property
    def node_containers(self) -> int:
        return self.single_node_containers + (self.single_node_containers < self.nodes)


@dataclass(slots=True)
class Timing:
    """Wall times of a fleet's life."""

    begun_us: int = field(default_factory=wall_us)

    def passed_s(self) -> float:
        return seconds(wall_us() - self.begun_us)


def start(client: Any, order: Order, say: Callable[[str], None]) -> None:
    """Create and start everything. Raises FleetError, with what was made removed.

    Data that an earlier fleet of this name has left are those of a run that may go on; they outlive a failure.
    """
    mark = {"label": f"{FLEET_LABEL}={order.fleet}"}
    if client.api.containers(all=True, filters=mark):
        raise FleetError(
            f"there is a fleet {order.fleet!r} already; `emulator fleet down --fleet {order.fleet}`"
        )
    _check(client, order)
    timing = Timing()
    had_data = bool(client.volumes.list(filters=mark))
    undo = partial(remove, client, order.fleet, threads=order.threads, keep_data=had_data)
    for left_over in client.networks.list(filters=mark):
        if problem := remove_network(left_over):
            raise FleetError(problem)
    try:
        network, hosts = _network(client, order)
        for volume in ("fleet", "scratch"):
            client.volumes.create(_name(order, volume), labels={FLEET_LABEL: order.fleet})
        _start_services(client, order, network, hosts)
        say(f"services are up after {timing.passed_s():.1f} s")
        _start_nodes(client, order, network, hosts, say)
        what = f"{order.nodes} nodes in {order.node_containers} containers"
        say(f"{what} are up after {timing.passed_s():.1f} s")
    except (docker.errors.APIError, docker.errors.ImageNotFound) as error:
        left = "; ".join(undo().problems)
        raise FleetError(
            f"the engine refuses: {error.explanation or error}" + (left and f"; {left}")
        ) from error
    except BaseException:
        undo()
        raise


def _check(client: Any, order: Order) -> None:
    check_images(client, map(order.image, ROLES))
    count = order.node_containers
    if count > _FEW and _NEIGHBOURS.exists() and int(_NEIGHBOURS.read_text()) < 16 * count:
        raise FleetError(
            f"{count} containers overflow this machine's neighbour table: sysctl -w "
            "net.ipv4.neigh.default.gc_thresh1=16384 net.ipv4.neigh.default.gc_thresh2=65536 "
            "net.ipv4.neigh.default.gc_thresh3=131072"
        )


def _network(client: Any, order: Order) -> tuple[Any, list[str]]:
    """A bridge of the fleet's own, in a range that nobody has: no other network of this engine, no bridge here."""
    engines = [
        network
        for found in client.networks.list()
        for pool in (found.attrs["IPAM"]["Config"] or [])
        if "Subnet" in pool and isinstance(network := ip_network(pool["Subnet"]), IPv4Network)
    ]
    subnet = choose_subnet(order.node_containers + _FIRST_NODE, order.subnet, engines, host_routes())
    # What somebody connects by hand gets an address that no node or service has.
    pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]), iprange=str(automatic_part(subnet)))
    network = client.networks.create(
        _name(order, "net"),
        driver="bridge",
        ipam=IPAMConfig(pool_configs=[pool]),
        labels={FLEET_LABEL: order.fleet},
    )
    return network, [str(host) for host in islice(subnet.hosts(), order.node_containers + _FIRST_NODE)]


def _name(order: Order, what: str) -> str:
    return f"{order.fleet}-{what}"


def _start_services(client: Any, order: Order, network: Any, hosts: list[str]) -> None:
    order.out.mkdir(parents=True, exist_ok=True)
    for place, role in enumerate(role for role in ROLES if role != NODE):
        binds = _binds(order, role)
        environment: dict[str, str] = {}
        if role == CONTROLLER:
            binds.append(f"{order.out.absolute()}:/runs")
            binds += [f"{folder}:{folder}:ro" for folder in order.folders]
            environment = {
                "FLEET_NODES": str(order.nodes),
                "FLEET_SCENARIO": str(order.scenario.absolute()),
                "FLEET_SET": " ".join(order.changes),
                "FLEET_MISSING": order.missing,
            }
        _start(client, order, network, _Part(role, role, hosts[1 + place], binds, environment))


def _binds(order: Order, role: str) -> list[str]:
    scratch = [f"{_name(order, 'scratch')}:{SCRATCH}"] if ROLES[role].shares_scratch else []
    return [f"{_name(order, 'fleet')}:{SHARED}", *scratch]


def _start_nodes(
    client: Any, order: Order, network: Any, hosts: list[str], say: Callable[[str], None]
) -> None:
    binds = _binds(order, NODE)
    played = {"NODE_CORES": order.node_cores, "NODE_MEMORY_KIB": order.node_memory_kib}
    environment = {name: str(value) for name, value in played.items() if value is not None}

    def start_one(number: int) -> None:
        name = node_name(number)
        played = name
        if number > order.single_node_containers:
            name, played = REST, nodes_from_to(number, order.nodes)
        address = hosts[_FIRST_NODE + number - 1]
        _start(client, order, network, _Part(NODE, name, address, binds, environment | {"NODE_NAME": played}))

    begun = Timing()
    with ThreadPoolExecutor(order.threads) as pool:
        pending = [pool.submit(start_one, number) for number in range(1, order.node_containers + 1)]
        try:
            for done, each in enumerate(pending, 1):
                each.result()
                if done % 50 == 0:
                    say(f"{done} of {order.node_containers} nodes started after {begun.passed_s():.0f} s")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@dataclass(frozen=True, slots=True)
class _Part:
    """A container to be: its role, name, address, volumes and environment."""

    role: str
    name: str
    address: str
    binds: list[str]
    environment: dict[str, str]


def _start(client: Any, order: Order, network: Any, part: _Part) -> None:
    """One container, by the engine's plain calls: `containers.run` would look at it twice more."""
    api, role, name = client.api, part.role, part.name
    ports = [ROLES[role].port] if ROLES[role].port else []
    host_config = api.create_host_config(
        binds=part.binds,
        port_bindings=dict.fromkeys(ports, ("127.0.0.1", None)),
        read_only=True,
        tmpfs={"/run/fleet": "uid=1000,gid=1000", "/tmp": ""},  # noqa: S108 - in the container
        cap_drop=["ALL"],
        cap_add=_CONTROLLER_CAPS if role == CONTROLLER else [],
        security_opt=["no-new-privileges:true"],
        restart_policy=None if role == CONTROLLER else {"Name": "on-failure"},
        log_config={"Type": "json-file", "Config": {"max-size": "1m"}},
    )
    endpoint = api.create_endpoint_config(ipv4_address=part.address, aliases=[role, name])
    labels = {FLEET_LABEL: order.fleet, ROLE_LABEL: role, "balancer-emulator.address": part.address}
    made = api.create_container(
        order.image(role),
        entrypoint=[*_ENTRY, role],
        name=_name(order, name),
        hostname=name,
        environment=part.environment,
        labels=labels | ({NODE_LABEL: name} if role == NODE else {}),
        ports=ports,
        host_config=host_config,
        networking_config=api.create_networking_config({network.name: endpoint}),
        # The check of an image asks for the port of the role that it is named for.
        healthcheck=None if ports else {"Test": ["NONE"]},
    )
    api.start(made["Id"])


# Whoever follows a fleet sees its run to the end, carries out its faults, and starts it again when its engine was.

STOPPED = 128
"""An exit status from here on: the controller was stopped or killed, and the run is not over."""
_LOOK_S = 0.1
_PATIENCE_US = 120 * US
_ENDS_US, _ALONE_US = 30 * US, 3 * US
"""How long an engine that ends may take for its containers, and how soon it has come to the second of them."""
_STOP_S = 10


def follow(
    client: Any,
    fleet: str,
    say: Callable[[dict[str, Any]], None],
    interrupted: Callable[[], bool],
    tell: Callable[[str], None] = lambda _: None,
) -> int:
    """See the run to its end and carry out its faults. The controller's exit status. Raises FleetError.

    128 and more: the controller was stopped or killed, and the run is not over. An engine that ends and comes back
    takes all containers with it: then all are started again, and the run goes on. `tell`: is told that.
    """
    controller = member(client, fleet, CONTROLLER).container
    remote = controller_of(client, fleet)
    pause = threading.Event()
    answered_us = wall_us()
    was_away = False
    while not interrupted():
        status = remote.status()
        try:
            if status is not None:
                was_away = False
                say(status)
                if status["fault"] is not None:
                    _carry_out(client, fleet, remote, status["fault"])
            else:
                controller.reload()
                if controller.status == "exited":
                    code = int(controller.attrs["State"]["ExitCode"])
                    if code < STOPPED or not (was_away or _engine_ends(client, fleet, pause)):
                        return code
                    was_away = True
                    _start_again(client, fleet)
                    tell("the engine was started again: so are the containers, and the run goes on")
                    was_away = False
            answered_us = wall_us()
        except docker.errors.NotFound as error:
            raise FleetError(
                f"somebody has removed the controller of {fleet}: {error.explanation}"
            ) from error
        except (docker.errors.DockerException, requests.RequestException) as error:
            was_away = True
            if wall_us() - answered_us > _PATIENCE_US:
                raise FleetError(f"the engine does not answer any more: {error}") from error
        pause.wait(_LOOK_S)
    controller.stop(timeout=_STOP_S)
    return int(controller.wait()["StatusCode"])


def _engine_ends(client: Any, fleet: str, pause: threading.Event) -> bool:
    """Whether a controller has ended because its engine does: then the others end too, and the engine is gone.

    A controller that somebody has stopped or killed is alone in that.
    """
    begun_us = wall_us()
    while wall_us() - begun_us < _ENDS_US:
        try:
            all_run = all(each.is_running or each.name == CONTROLLER for each in members(client, fleet))
        except (docker.errors.DockerException, requests.RequestException):
            return True
        if all_run and wall_us() - begun_us > _ALONE_US:
            return False
        pause.wait(_LOOK_S)
    return False


def _start_again(client: Any, fleet: str) -> None:
    """The controller first: the others ask it for their settings."""
    for each in sorted(members(client, fleet), key=lambda each: each.name != CONTROLLER):
        if not each.is_running:
            each.container.start()


def _carry_out(client: Any, fleet: str, controller: ControllerClient, step: dict[str, Any]) -> None:
    """A step of the scenario. One that cannot be done is no reason to end the run: the report says so."""
    action, target, slow = FaultAction(step["do"]), step["target"], Slow(**step["slow"])
    try:
        fault(client, fleet, target, action, slow=slow, number=step["number"])
    except FleetError as error:
        controller.annotate(f"not carried out: {text_of(action, target, slow)}: {error}", step["number"])


def logs_of(client: Any, fleet: str, role: str) -> str:
    """The end of what a member said."""
    target = next((each for each in members(client, fleet) if each.name == role), None)
    return "" if target is None else str(target.container.logs(tail=15).decode(errors="replace"))
