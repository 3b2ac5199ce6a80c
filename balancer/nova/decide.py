"""What the agent does about what it saw: pure, no I/O and no clock.

Level-triggered: each look is judged by itself, and what is remembered only makes the agent quicker. Nova must have
been read first, then the Balancer, then Placement: a server that starts claims in Placement before Nova shows it, and a
node is granted before either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from balancer.client_records import Node, Request

_USELESS = ("down", "forced down", "gone")
"""Compute services that start and stop no server."""
_BATCH = ("OA_IDLE", "OA_BUSY", "DOWN", "RESTORING")


@dataclass(frozen=True, slots=True)
class Server:
    """One server as Nova shows it."""

    id: str
    name: str
    status: str


@dataclass(frozen=True, slots=True)
class CloudLook:
    """Servers of each host with a compute service. `whole`: no cell was silent.

    `services`: how each service is: up, down, disabled, forced down, or gone though servers are there. One that
    it lacks is up.
    """

    servers: Mapping[str, tuple[Server, ...]]
    whole: bool = True
    services: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one consumer has of a host in Placement. `is_orphan`: no server is or starts there, and no move goes on.

    `provider`: of an orphan whose server lives elsewhere, the resource provider that the server has no right to.
    """

    consumer: str
    is_orphan: bool = False
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Leftover:
    """What keeps a granted node, or a part of it, for nobody.

    `consumer`: whose allocation it is; "": nothing can be on the host.
    `is_listed`: Nova has a compute service there, but no hypervisor. `provider`: where the consumer's server lives
    elsewhere, and keeps what it has there.
    """

    node: str
    consumer: str = ""
    is_listed: bool = False
    provider: str = ""

    @property
    def why(self) -> str:
        if self.consumer:
            return (
                "an allocation of a server that is elsewhere"
                if self.provider
                else "an allocation of no server"
            )
        what = "hypervisor there" if self.is_listed else "compute service of that name"
        return f"Nova has no {what}"

    @property
    def what_to_do(self) -> str:
        if self.consumer:
            call = f"delete {self.consumer}"
            if self.provider:
                call = f"unset --provider {self.provider} {self.consumer} --os-placement-api-version 1.28"
            return (
                f"openstack resource provider allocation {call} (or the agent's --orphans remove): until then"
                " Placement has less room for servers there. The node itself goes back once no server is there"
            )
        return "start nova-compute there, or take the node out of the Balancer's configuration. It goes back"


@dataclass(frozen=True, slots=True)
class Stuck:
    """A granted node that is kept and of no use for long.

    `consumers`: the servers and moves that have allocated it while none is there. Without any, servers are there
    whose compute service is `service`.
    """

    node: str
    service: str
    consumers: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        if not self.consumers:
            return f"nova-compute there is {self.service}, and servers are there"
        return f"no server is there (nova-compute: {self.service}), but {', '.join(self.consumers)} has allocated it"

    @property
    def what_to_do(self) -> str:
        if not self.consumers:
            return (
                "start nova-compute there, or evacuate its servers; the node goes back with the last of them"
            )
        return (
            f"look at openstack server show and openstack server migration list of {', '.join(self.consumers)}: it"
            " starts or moves there, or was evacuated from there (start nova-compute there), or hangs (delete it)."
            " Then the node goes back"
        )


@dataclass(frozen=True, slots=True)
class Failed:
    """A granted node that the Balancer has found down. The agent only tells: its services stay as they are in Nova."""

    node: str
    since_s: float

    @property
    def why(self) -> str:
        return "the Balancer has found it down"

    @property
    def what_to_do(self) -> str:
        return (
            "repair it, or evacuate its servers (openstack server evacuate, nova-compute there must be down); it goes"
            " back with the last of them, and nobody gets it before it reads well again"
        )


@dataclass(frozen=True, slots=True)
class Intruder:
    """A server on a node that is not granted to Nova: it was forced there, or moved past the filter."""

    server: str
    node: str
    why: str

    @property
    def what_to_do(self) -> str:
        return (
            f"move it (openstack server migrate {self.server}) or delete it; the node gets no new job while it is"
            " there. Who may force hosts is set in Nova's policy (os_compute_api:servers:create:forced_host; moves:"
            " os_compute_api:os-migrate-server:migrate_live:host, os_compute_api:os-evacuate)"
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a grant's node: that something ran there, and since when nothing did. Keys: node and generation."""

    used: frozenset[tuple[str, int]] = frozenset()
    empty_since_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    orphans_since_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Keys: node and consumer. Such a node is looked at until they are gone, also once it has gone back."""
    useless_since_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """Of a node in use: since when no server that is up is there."""


@dataclass(frozen=True, slots=True)
class Plan:
    confirm: tuple[str, ...]
    """Requests whose grant is in use."""
    renew: tuple[str, ...]
    """Requests in use whose lease is about to end."""
    release: Mapping[str, int]
    """Nodes on which nothing runs, with the generation that was judged."""
    intruders: tuple[Intruder, ...]
    leftovers: tuple[Leftover, ...]
    """After the grace."""
    stuck: tuple[Stuck, ...]
    """After `tell_s`."""
    failed: tuple[Failed, ...]
    in_use: int
    is_whole: bool
    """False: a cell was silent, and nothing is known to be unused."""
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Whose grants these are, and how long things may last.

    `grace_s`: how long a node stays granted that was never used, or is kept for nobody.
    `renew_s`: a lease that ends within this time is renewed while anything runs on its nodes.
    `tell_s`: how long a node may be in use without a server that is up, before it is told of.
    """

    owner: str = "nova"
    grace_s: float = 60.0
    renew_s: float = 600.0
    tell_s: float = 600.0


def granted_to(owner: str, nodes: Sequence[Node], requests: Mapping[str, Request]) -> list[Node]:
    """The nodes of this owner's grants."""
    return [
        node
        for node in nodes
        if node.state == "OD_ALLOC"
        and (request := requests.get(node.request_id or "")) is not None
        and request.owner == owner
    ]


def plan(
    rules: Rules,
    *,
    cloud: CloudLook,
    nodes: Sequence[Node],
    requests: Mapping[str, Request],
    allocations: Mapping[str, Sequence[Allocation]],
    before: Memory,
    now_s: float,
) -> Plan:
    """`requests`: those that have nodes, by id. `allocations`: what Placement shows of the nodes that were looked at.

    Of them are all granted nodes without a server.

    A node that Nova does not list, or of which Placement knows nothing, is nobody's after the grace. What each state of
    a node leads to stands in docs/balancer/nova.md.
    """
    ours = granted_to(rules.owner, nodes, requests)
    busy = [
        node
        for node in ours
        if cloud.servers.get(node.name) or any(not each.is_orphan for each in allocations.get(node.name, ()))
    ]
    orphans = _orphans_since_s(allocations, before, now_s) if cloud.whole else {}
    empty = [node for node in ours if cloud.whole and node not in busy]
    useless = [
        node for node in busy if not cloud.servers.get(node.name) or cloud.services.get(node.name) in _USELESS
    ]
    memory = Memory(
        used=frozenset(map(_key, busy)) | (before.used & set(map(_key, ours))),
        empty_since_s={key: before.empty_since_s.get(key, now_s) for key in map(_key, empty)},
        orphans_since_s={(each.node, each.consumer): begun_s for each, begun_s in orphans.items()},
        useless_since_s={key: before.useless_since_s.get(key, now_s) for key in map(_key, useless)},
    )

    def ends_soon(request: Request) -> bool:
        return request.lease_ends_s is not None and request.lease_ends_s < now_s + rules.renew_s

    over = frozenset(key for key, since_s in memory.empty_since_s.items() if now_s - since_s >= rules.grace_s)
    holders = {str(node.request_id): requests[str(node.request_id)] for node in busy}
    return Plan(
        confirm=tuple(sorted(name for name, request in holders.items() if not request.confirmed)),
        renew=tuple(sorted(name for name, request in holders.items() if ends_soon(request))),
        release={
            node.name: node.generation
            for node in empty
            # An unconfirmed grant may be on its way to its first server; if it is not, it ends by itself.
            if requests[str(node.request_id)].confirmed
            and (
                _key(node) in over or (_key(node) in memory.used and _is_seen_empty(node, cloud, allocations))
            )
        },
        intruders=_intruders(rules, cloud, nodes, requests),
        leftovers=(
            *(each for each, since_s in orphans.items() if now_s - since_s >= rules.grace_s),
            *(
                Leftover(node.name, is_listed=node.name in cloud.servers)
                for node in empty
                if _key(node) in over and not (node.name in cloud.servers and node.name in allocations)
            ),
        ),
        stuck=tuple(
            _stuck(node.name, cloud, allocations)
            for node in useless
            if now_s - memory.useless_since_s[_key(node)] >= rules.tell_s
        ),
        failed=tuple(Failed(node.name, node.down_since_s) for node in ours if node.down_since_s is not None),
        in_use=len(busy),
        is_whole=cloud.whole,
        memory=memory,
    )


def _is_seen_empty(node: Node, cloud: CloudLook, allocations: Mapping[str, Sequence[Allocation]]) -> bool:
    """Nova lists the node, and Placement has been asked: nothing is there."""
    return node.name in cloud.servers and allocations.get(node.name) == ()


def _orphans_since_s(
    allocations: Mapping[str, Sequence[Allocation]], before: Memory, now_s: float
) -> dict[Leftover, float]:
    """Since when each allocation of no server has been seen."""
    return {
        Leftover(host, each.consumer, provider=each.provider): before.orphans_since_s.get(
            (host, each.consumer), now_s
        )
        for host, found in allocations.items()
        for each in found
        if each.is_orphan
    }


def _key(node: Node) -> tuple[str, int]:
    return node.name, node.generation


def _stuck(name: str, cloud: CloudLook, allocations: Mapping[str, Sequence[Allocation]]) -> Stuck:
    consumers = tuple(each.consumer for each in allocations.get(name, ()) if not each.is_orphan)
    return Stuck(name, cloud.services.get(name, "up"), () if cloud.servers.get(name) else consumers)


def _intruders(
    rules: Rules, cloud: CloudLook, nodes: Sequence[Node], requests: Mapping[str, Request]
) -> tuple[Intruder, ...]:
    found = []
    for node in nodes:
        request = requests.get(node.request_id or "")
        if node.state in _BATCH:
            jobs = f", runs {', '.join(node.jobs)}" if node.jobs else ""
            why = f"the node is batch's ({node.state}{jobs})"
        elif node.state == "OD_ALLOC" and request is not None and request.owner != rules.owner:
            why = f"the node is granted to {request.owner or 'nobody known'}, not to {rules.owner}"
        elif node.state in {"OD_RESERVE", "RECLAIMING"}:
            why = f"the node is granted to nobody ({node.state})"
        else:
            continue
        found += [Intruder(server.id, node.name, why) for server in cloud.servers.get(node.name, ())]
    return tuple(found)
