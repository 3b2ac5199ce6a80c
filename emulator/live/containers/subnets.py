"""Which addresses a fleet's network gets."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.live.containers.docker_engine import FleetError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
