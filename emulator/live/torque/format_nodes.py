"""What pbsnodes prints: pure functions from nodes to Torque's text and XML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.live.torque.format import REPORT_INTERVAL_US, xml_element
from emulator.live.torque.nodes import slots_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.live.torque.format import View
    from emulator.live.torque.nodes import Node

VERSION = "6.1.3.h5"


def _attributes(node: Node, view: View) -> list[tuple[str, str]]:
    found = [("state", node.state), ("power_state", "Running"), ("np", str(node.np)), ("ntype", "cluster")]
    if node.jobs:
        in_order = sorted(node.jobs.items(), key=lambda item: item[1])
        jobs = ", ".join(f"{slots_text(slots)}/{number}.{view.server}" for number, slots in in_order)
        found.append(("jobs", jobs))
    if node.seen_us >= 0:
        found.append(("status", _status(node, view)))
    if node.note:
        found.append(("note", node.note))
    return [*found, ("mom_service_port", "15002"), ("mom_manager_port", "15003")]


def _status(node: Node, view: View) -> str:
    """The mom's own view: what the node said of itself, else fixed figures, as an agent's machine is not its nodes."""
    cores = node.np if node.facts is None else node.facts.cores
    memory_kib = 24_684_096 if node.facts is None else node.facts.memory_kib
    free_kib = 21_391_020 if node.facts is None else node.facts.memory_kib
    reported_us = max(view.now_us // REPORT_INTERVAL_US * REPORT_INTERVAL_US, node.seen_us)
    number = node.index + 1
    macaddr = ":".join(f"{byte:02x}" for byte in (0x02, 0, *number.to_bytes(4, "big")))
    return (
        f"opsys=linux,uname=Linux {node.name} 6.1.0 #1 SMP x86_64,sessions=601,nsessions=1,nusers=1,"
        f"idletime={reported_us // 1_000_000},totmem={memory_kib}kb,availmem={free_kib}kb,"
        f"physmem={memory_kib}kb,"
        f"ncpus={cores},loadave=0.00,gres=,netload=0,state=free,varattr= ,cpuclock=Fixed,macaddr={macaddr},"
        f"version={VERSION},rectime={view.moment(reported_us)},jobs="
    )


def nodes_text(nodes: Iterable[Node], view: View) -> str:
    """Output of pbsnodes, pbsnodes -a."""
    return "".join(
        f"{node.name}\n"
        + "".join(f"     {name} = {value}\n" for name, value in _attributes(node, view))
        + "\n"
        for node in nodes
    )


def nodes_xml(nodes: Iterable[Node], view: View) -> str:
    """Output of pbsnodes -x."""
    parts = ["<Data>"]
    for node in nodes:
        parts += ["<Node>", xml_element("name", node.name)]
        parts += [xml_element(name, value) for name, value in _attributes(node, view)]
        parts.append("</Node>")
    return "".join([*parts, "</Data>\n"])


def node_lines(nodes: Iterable[Node], *, notes: bool) -> str:
    """Output of pbsnodes -l, pbsnodes -l -n. Names are cut at 20 characters, as in Torque."""
    return "".join(
        f"{node.name[:20]:<20} {node.state[:26]:<26} {node.note}\n"
        if notes and node.note
        else f"{node.name[:20]:<20} {node.state}\n"
        for node in nodes
    )
