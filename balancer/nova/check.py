"""`balancer nova check`: what a cloud lacks for the Balancer, line by line. It only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from balancer.client import Balancer, BalancerError
from balancer.drivers.base import DriverError, SiteCheck
from balancer.drivers.openstack import ERRORS
from balancer.nodelist import some
from balancer.nova.decide import Memory, Plan, Rules, plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from balancer.client_records import Node
    from balancer.nova.cloud import NovaCloud

FILTER = "balancer.nova.scheduler_filter.BalancerFilter"
_AFFINITY = ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter")
"""Nova has them on by default; a list of one's own often lacks them."""

_LONG_RPC_S = 1800.0
"""Nova's default of `long_rpc_timeout`."""


def nova_checks(balancer: Balancer, cloud: NovaCloud, owner: str) -> Iterator[SiteCheck]:
    """Asks the service, Nova and Placement; where one does not answer, what depends on it is left out."""
    nodes: list[Node] | None = None
    try:
        status = balancer.status()
        nodes = balancer.nodes()
    except BalancerError as error:
        yield SiteCheck("the Balancer answers", f"{error}: start it, or give --url and a token")
    else:
        yield SiteCheck("the Balancer answers", "")
        yield from _service(status, balancer, owner)
    try:
        services = {each.host: each for each in cloud.connection.compute.services(binary="nova-compute")}
        look = cloud.look()
        providers = cloud.providers()
    except (*ERRORS, DriverError) as error:
        yield SiteCheck(
            "Nova answers", f"{error}: give the account of an administrator (--cloud, or OS_* variables)"
        )
        return
    yield SiteCheck("Nova answers", "")
    if nodes is None:
        return
    names = [node.name for node in nodes]
    yield from _hosts(names, services)
    try:
        yield from _providers([name for name in names if name in services], providers, cloud)
        yield _flavor(cloud, names, providers)
    except (*ERRORS, DriverError) as error:
        yield SiteCheck("Placement answers", f"{error}: the account must be an administrator's")
    try:
        holders = {node.request_id for node in nodes if node.state == "OD_ALLOC" and node.request_id}
        requests = {name: balancer.request(name) for name in sorted(holders)}
    except BalancerError as error:
        yield SiteCheck("grants can be read", str(error))
        return
    yield from server_checks(
        plan(
            Rules(owner=owner),
            cloud=look,
            nodes=nodes,
            requests=requests,
            allocations={},
            before=Memory(),
            now_s=0.0,
        )
    )


def server_checks(seen: Plan) -> Iterator[SiteCheck]:
    """Servers where none may be, and whether all could be seen."""
    for each in seen.intruders:
        yield SiteCheck(
            f"no server is where none may be: {each.server} on {each.node}", f"{each.why}: {each.what_to_do}"
        )
    if not seen.is_whole:
        yield SiteCheck(
            "all servers could be seen",
            "a cell of Nova does not answer: no node goes back before it does, start its database and conductor",
        )
    elif not seen.intruders:
        yield SiteCheck("no server is where none may be", "")


def _service(status: Mapping[str, Any], balancer: Balancer, owner: str) -> Iterator[SiteCheck]:
    cloud = status["cloud"]
    problem = ""
    if cloud is None:
        problem = "set `cloud: openstack` in its configuration, or grants whose servers still start may end unconfirmed"
    elif not cloud["reachable"]:
        problem = f"it does not answer ({cloud['error'] or 'not asked yet'}): mend its credentials"
    yield SiteCheck("the Balancer itself asks Nova before a grant ends", problem)
    other_owners = sorted(
        {each.owner for each in balancer.requests(state="granted", limit=1000) if each.ended_s is None}
        - {owner}
    )
    yield SiteCheck(
        "all grants that last are Nova's",
        f"{some(other_owners)} have grants, too: no server may be on their nodes (--owner, if that is Nova's name)"
        if other_owners
        else "",
    )


def _hosts(names: list[str], services: Mapping[str, Any]) -> Iterator[SiteCheck]:
    absent = [name for name in names if name not in services]
    close = [name for name in absent if any(host.split(".")[0] == name for host in services)]
    how = "nodes must be named as Nova's hosts are, domain and all" if close else "start nova-compute there"
    yield SiteCheck(
        "every node is a compute host", f"{some(absent)} not known to Nova: {how}" if absent else ""
    )
    there = [name for name in names if name in services]
    disabled = [name for name in there if services[name].status != "enabled"]
    yield SiteCheck(
        "their services are enabled, lent or not",
        f"{some(disabled)} disabled, and Placement never offers such hosts: openstack compute service set --enable"
        f" {disabled[0]} nova-compute"
        if disabled
        else "",
    )
    down = [name for name in there if services[name].state != "up"]
    yield SiteCheck(
        "their services are up",
        f"{some(down)} down, so that a node granted there gets no server: start nova-compute" if down else "",
    )


def _providers(
    names: list[str], providers: Mapping[str, tuple[str, ...]], cloud: NovaCloud
) -> Iterator[SiteCheck]:
    without, shared = [], []
    for name in names:
        found = [
            cloud.placement(f"/resource_providers/{uuid}/inventories") for uuid in providers.get(name, ())
        ]
        kinds = [each["inventories"] for each in found if each is not None]
        if not any("VCPU" in kind or "PCPU" in kind for kind in kinds):
            without.append(name)
        if any(kind.get("VCPU", {}).get("allocation_ratio", 1.0) > 1.0 for kind in kinds):
            shared.append(name)
    yield SiteCheck(
        "Placement has their inventory",
        f"{some(without)} without processors there: look at nova-compute's log" if without else "",
    )
    yield SiteCheck(
        "a processor is given once",
        f"{some(shared)} with a cpu_allocation_ratio above 1: two whole-node servers may share a node; set"
        " cpu_allocation_ratio = 1.0 on the nodes"
        if shared
        else "",
    )


def _flavor(cloud: NovaCloud, names: list[str], providers: Mapping[str, tuple[str, ...]]) -> SiteCheck:
    what = "a flavor fits on a node"
    first = next((uuid for name in names for uuid in providers.get(name, ())), None)
    shown = None if first is None else cloud.placement(f"/resource_providers/{first}/inventories")
    if shown is None:
        return SiteCheck(what, "no node has an inventory")
    room = {kind: each["total"] - each["reserved"] for kind, each in shown["inventories"].items()}
    fits = [
        flavor.name
        for flavor in cloud.connection.compute.flavors()
        if flavor.vcpus <= max(room.get("VCPU", 0), room.get("PCPU", 0))
        and flavor.ram <= room.get("MEMORY_MB", 0)
    ]
    need = f"--vcpus {room.get('VCPU', 1)} --ram {room.get('MEMORY_MB', 1)}"
    return SiteCheck(what, "" if fits else f"none does: openstack flavor create node {need} --disk 10")


def conf_checks(path: Path, wait_s: float | None) -> Iterator[SiteCheck]:
    """Of the nova.conf of a scheduler. Raises ValueError naming file and line where it cannot be read."""
    found = read_conf(path)
    section = found.get("filter_scheduler", {})
    available, enabled = section.get("available_filters", []), _words(section.get("enabled_filters", []))
    yield SiteCheck(
        "the scheduler knows the filter",
        "" if FILTER in available else f"[filter_scheduler]: add the line available_filters = {FILTER}",
    )
    problem = ""
    if "BalancerFilter" not in enabled:
        problem = "[filter_scheduler]: add BalancerFilter at the end of enabled_filters"
    elif enabled[-1] != "BalancerFilter":
        problem = f"[filter_scheduler]: it is before {enabled[-1]}: what that refuses is granted in vain; put it last"
    yield SiteCheck("the filter is enabled, as the last one", problem)
    absent = [name for name in _AFFINITY if enabled and name not in enabled]
    yield SiteCheck(
        "servers of groups with affinity find their host",
        f"[filter_scheduler]: add {' and '.join(absent)} to enabled_filters, before BalancerFilter: without them each "
        "server of such a group fails"
        if absent
        else "",
    )
    ours = found.get("balancer", {})
    yield SiteCheck(
        "it knows where the Balancer is",
        "" if ours.get("url") else "[balancer]: set url (and token_file, if the Balancer wants tokens)",
    )
    long_s = float(found.get("DEFAULT", {}).get("long_rpc_timeout", [str(_LONG_RPC_S)])[-1])
    waits_s = float(ours["wait_s"][-1]) if ours.get("wait_s") else wait_s
    is_short = waits_s is not None and ours.get("wait", ["true"])[-1].lower() != "false" and waits_s >= long_s
    yield SiteCheck(
        "the conductor waits longer than W",
        f"[DEFAULT]: long_rpc_timeout is {long_s:g} s, W is {waits_s:g} s: raise it, or set [balancer] wait_s"
        if is_short
        else "",
    )
    drivers = _words(found.get("oslo_messaging_notifications", {}).get("driver", []))
    yield SiteCheck(
        "the agent learns of changes at once",
        ""
        if "balancer" in drivers and ours.get("hint_address")
        else "it looks every few seconds all the same; for less, [oslo_messaging_notifications] driver = balancer and"
        " [balancer] hint_address = HOST:PORT of the agent",
    )


def read_conf(path: Path) -> dict[str, dict[str, list[str]]]:
    """Sections of an oslo.config file; an option that is given several times has several values. Raises ValueError."""
    found: dict[str, dict[str, list[str]]] = {}
    section, last = "DEFAULT", None
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text[0] in "#;":
            last = None
        elif text[0] == "[" and text[-1] == "]":
            section, last = text[1:-1], None
        elif line[0].isspace() and last is not None:
            last[-1] += f" {text}"
        else:
            name, sign, value = text.partition("=")
            if not sign:
                raise ValueError(f"{path}:{number}: {text} is neither a section nor NAME = VALUE")
            last = found.setdefault(section, {}).setdefault(name.strip(), [])
            last.append(value.strip())
    return found


def _words(values: list[str]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",") if word.strip()]
