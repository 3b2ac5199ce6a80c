"""The switches of a tree, as Slurm's topology.conf says them (its manual page, `topology/tree`), or a scenario does.

    SwitchName=s0 Nodes=n[001-016]
    SwitchName=s1 Nodes=n[017-032]
    SwitchName=s2 Switches=s[0-1]

What has `Nodes` is a leaf switch; the tree above them says in which order they lie. A topology.yaml (Slurm 25.05 and
newer; its manual page) has trees of the same kind: that with `cluster_default: true` counts, else the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.nodelist import NodeListError, expand
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.config.scenario_parts import SwitchPart

_KEYS = ("switchname", "nodes", "switches", "linkspeed")
_BLOCK = re.compile(r"BlockName=|BlockSizes=", re.IGNORECASE)
_YAML_NAMES = re.compile(r"\.ya?ml", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Switch:
    """`where` it is said; its children, as they are `written` and by name."""

    where: str
    name: str
    written: str
    nodes: tuple[str, ...]
    switches: tuple[str, ...]


def leaf_switches(said: Path | Mapping[str, SwitchPart], node_count: int) -> list[list[int]]:
    """The nodes of each leaf switch, as indices, in the order in which the tree lists the switches.

    The nodes of the run are those of the table in the order of their names. Raises ValueError that names the place.
    """
    switches = _read(said) if isinstance(said, Path) else _of_scenario(said)
    leaves = _in_order(switches)
    home = {node for leaf in leaves for node in leaf.nodes}
    if len(home) != node_count:
        whole = said if isinstance(said, Path) else "placement.switches"
        raise ValueError(
            f"{whole}: there are {len(home)} nodes on its switches, and {node_count} in this run"
        )
    index = {name: place for place, name in enumerate(sorted(home, key=_natural))}
    return [sorted(index[node] for node in leaf.nodes) for leaf in leaves]


def switches_in(path: Path) -> dict[str, dict[str, str]]:
    """What a file says, as a scenario would say it. Raises ValueError that names file and line."""
    switches = _read(path)
    _in_order(switches)
    return {each.name: {"nodes" if each.nodes else "switches": each.written} for each in switches}


def _read(path: Path) -> list[_Switch]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"placement.switches: {path} cannot be read: {refusal(error)}") from error
    if _YAML_NAMES.fullmatch(path.suffix):
        return _of_yaml(path, text)
    return _of_lines(path, text.splitlines())


def _of_yaml(path: Path, text: str) -> list[_Switch]:
    """The switches of the tree that a cluster's partitions have unless they name another one."""
    import yaml  # noqa: PLC0415 - a topology.conf does not need it

    from balancer.yaml_text import read_yaml  # noqa: PLC0415

    try:
        listed = read_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: no YAML: {error}") from error
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(each, dict) and "topology" in each for each in listed)
    ):
        raise ValueError(f"{path}: expected a list of topologies, each `- topology: NAME` with a `tree`")
    chosen = next((each for each in listed if each.get("cluster_default") is True), listed[0])
    where, tree = f"{path}: topology {chosen['topology']}", chosen.get("tree")
    switches = tree.get("switches") if isinstance(tree, dict) else None
    if not isinstance(switches, list) or not switches:
        kinds = (
            ", ".join(str(key) for key in chosen if key not in {"topology", "cluster_default"}) or "nothing"
        )
        raise ValueError(f"{where}: it has {kinds}, and a tree with a list of switches is what is read")
    found = []
    for number, each in enumerate(switches, 1):
        said = {str(key): value for key, value in each.items()} if isinstance(each, dict) else {}
        if not said.get("switch") or set(said) - {"switch", "nodes", "children"}:
            raise ValueError(
                f"{where}: switch number {number}: expected switch, and nodes or children, not {each}"
            )
        nodes, children = (None if said.get(key) is None else str(said[key]) for key in ("nodes", "children"))
        found.append(_made(where, str(said["switch"]), nodes, children))
    return found


def _of_lines(path: Path, lines: list[str]) -> list[_Switch]:
    found = []
    before, begin = "", 0
    for number, line in enumerate(lines, 1):
        text = before + line.partition("#")[0].strip()
        begin = begin if before else number
        before = text[:-1].rstrip() + " " if text.endswith("\\") else ""
        if text and not before:
            found.append(_of_line(f"{path}:{begin}", text))
    if before:
        raise ValueError(f"{path}:{begin}: the file ends where this line goes on")
    if not found:
        raise ValueError(
            f"{path}: there is no switch in it; write lines such as SwitchName=s0 Nodes=n[001-016]"
        )
    return found


def _of_line(where: str, text: str) -> _Switch:
    values: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if _BLOCK.match(word):
            raise ValueError(f"{where}: {word} is of topology/block; a tree of switches is what is read")
        if not equals or not value or key.lower() not in _KEYS:
            raise ValueError(f"{where}: expected SwitchName=, Nodes=, Switches= or LinkSpeed=, not {word!r}")
        if values.setdefault(key.lower(), value) is not value:
            raise ValueError(f"{where}: {key} is there twice")
    if "switchname" not in values:
        raise ValueError(f"{where}: a line of a switch begins with SwitchName=")
    return _made(where, values["switchname"], values.get("nodes"), values.get("switches"))


def _of_scenario(said: Mapping[str, SwitchPart]) -> list[_Switch]:
    return [
        _made(f"placement.switches.{name}", name, part.nodes, part.switches) for name, part in said.items()
    ]


def _made(where: str, name: str, nodes: str | None, switches: str | None) -> _Switch:
    if (nodes is None) == (switches is None):
        raise ValueError(f"{where}: switch {name} has either Nodes or Switches")
    written = nodes or switches or ""
    try:
        children = tuple(expand(written))
    except NodeListError as error:
        raise ValueError(f"{where}: switch {name}: {error}") from error
    return _Switch(where, name, written, children if nodes else (), children if switches else ())


def _in_order(switches: list[_Switch]) -> list[_Switch]:
    """The leaf switches, from the top of the tree down, children in the order in which they are listed."""
    by_name, top = _tree(switches)
    ahead, found, seen = [top], [], set[str]()
    while ahead:
        each = ahead.pop()
        seen.add(each.name)
        ahead += [by_name[child] for child in reversed(each.switches)]
        found += [each] if each.nodes else []
    for each in switches:
        if each.name not in seen:
            raise ValueError(f"{each.where}: switch {each.name} is below itself")
    return found


def _tree(switches: list[_Switch]) -> tuple[dict[str, _Switch], _Switch]:
    """The switches by name, each and every node below one switch at most, and the one that is below none."""
    by_name: dict[str, _Switch] = {}
    home: dict[str, _Switch] = {}
    above: dict[str, _Switch] = {}
    for each in switches:
        if by_name.setdefault(each.name, each) is not each:
            raise ValueError(f"{each.where}: switch {each.name} is there twice")
        for node in each.nodes:
            if home.setdefault(node, each) is not each:
                raise ValueError(f"{each.where}: node {node} is on switch {home[node].name} already")
    for each in switches:
        for child in each.switches:
            if child not in by_name:
                raise ValueError(f"{each.where}: there is no switch {child}")
            if above.setdefault(child, each) is not each:
                raise ValueError(f"{each.where}: switch {child} is below {above[child].name} already")
    tops = [each for each in switches if each.name not in above]
    if not tops:
        raise ValueError(f"{switches[0].where}: switch {switches[0].name} is below itself")
    if len(tops) > 1:
        raise ValueError(
            f"{tops[1].where}: nothing connects switch {tops[1].name} with {tops[0].name}; write a switch above both"
        )
    return by_name, tops[0]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Names by their numbers: n9 before n10."""
    return [
        (part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
