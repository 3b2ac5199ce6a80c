"""GPUs of a site's nodes: what NodeName lines of its slurm.conf say (`Gres=`), and the gres.conf beside it.

Slurm's twin has GPUs where `select` says how many each node has; others are named with what they would have done.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from balancer.nodelist import expand, some
from emulator.schedulers.slurm.conf_lines import NODE, ConfError, read_words, site_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from emulator.schedulers.slurm.conf_lines import Line

_FILE = "gres.conf"
_FOLDER = re.compile(r"[^,\[\]]*/")
_DETECTED = {"off", "none"}


def gpus_of_site(lines: Sequence[Line], conf: Path) -> dict[str, int]:
    """GPUs of each node of a site, by its NodeName line, else by the gres.conf beside it. Raises ConfError."""
    nodes, said, found, _ = _read(lines, conf)
    return {**dict.fromkeys(nodes, 0), **found, **said}


def gpus_not_followed(lines: Sequence[Line], conf: Path, gpus: Mapping[str, int]) -> Iterator[str]:
    """Sentences on GPUs that jobs would wait for. `gpus`: of the site's nodes in the twin, of others none.

    Raises ConfError for a gres.conf that cannot be used.
    """
    nodes, said, found, detects = _read(lines, conf)
    for node, count in found.items():
        if node in said and count != said[node]:
            yield (
                f"{_FILE} has {count} GPUs of {node}, and {conf.name} {said[node]}: Slurm would not use the node if"
                f" it has fewer; {said[node]} are taken"
            )
            break
    counts = {**dict.fromkeys(nodes, 0), **found, **said}
    if detects and not any(counts.values()):
        twins = sorted({*gpus.values()} - {0})
        waits = f"{' or '.join(map(str, twins))} of each node" if twins else "none"
        yield f"{_FILE}: AutoDetect: what GPUs nodes have is not said; in the twin jobs wait for {waits}"
        return
    for node, types in gpu_types_of_site(lines, conf).items():
        if len(types) > 1 and gpus.get(node, 0):
            listed = ", ".join(sorted(types))
            yield f"types of GPUs ({listed}) of node {node}: in the twin a job that asks for one may have those of any"
            break
    alike: dict[tuple[int, int], list[str]] = {}
    for node, count in counts.items():
        alike.setdefault((count, gpus.get(node, 0)), []).append(node)
    for (count, twins_count), some_nodes in sorted(alike.items()):
        if count == twins_count:
            continue
        if any(gpus.values()):
            why = f"in the twin each has {twins_count or 'none'}"
        else:
            why = "Slurm has jobs wait for them; the twin does not"
            why += f" unless `select` has gpus: {count}" if len(alike) == 1 else ""
        yield f"{count or 'no'} GPUs a node of {some(some_nodes, 5)}: {why}"


def _read(lines: Sequence[Line], conf: Path) -> tuple[dict[str, Line], dict[str, int], dict[str, int], bool]:
    """The nodes, their GPUs by NodeName lines and by gres.conf, and whether some are to be detected."""
    nodes = site_nodes(lines)
    said = {node: count for node, line in nodes.items() if (count := _of_line(line)) is not None}
    path = conf.parent / _FILE
    found, detects = _of_file(path, said) if path.is_file() else ({}, False)
    return nodes, said, found, detects


def _of_line(line: Line) -> int | None:
    """GPUs of each node of a line, None if it does not say."""
    if "gres" not in line.words:
        return None
    return sum(map(_gpus, line.words["gres"].split(",")))


def _gpus(item: str) -> int:
    """Of `gpu:4`, `gpu:a100:4(S:0-1)`, `gpu:1g.5gb:7` or `gpu`; 0 of other resources."""
    name, *rest = item.partition("(")[0].removesuffix(":no_consume").split(":")
    if name.lower() != "gpu":
        return 0
    return int(rest[-1]) if rest and rest[-1].isdecimal() else 1


def gpu_types_of_site(lines: Sequence[Line], conf: Path) -> dict[str, set[str]]:
    """The types of each node's GPUs, in lower case as Slurm compares them: by its NodeName line, and the gres.conf."""
    nodes = site_nodes(lines)
    found = {name: _types(line.words.get("gres", "")) for name, line in nodes.items()}
    path = conf.parent / _FILE
    for place, words in read_words(path) if path.is_file() else ():
        if words.get("name", "").lower() == "gpu" and "type" in words:
            for name in _nodes_of(place, words, nodes):
                found.setdefault(name, set()).add(words["type"].lower())
    return found


def _types(gres: str) -> set[str]:
    parts = [
        item.partition("(")[0].removesuffix(":no_consume").lower().split(":") for item in gres.split(",")
    ]
    return {rest[0] for name, *rest in parts if name == "gpu" and rest and not rest[0].isdecimal()} - {
        "no_consume"
    }


def _nodes_of(place: str, words: Mapping[str, str], nodes: Iterable[str]) -> list[str]:
    """Those that a line of gres.conf names, else all. Raises ConfError."""
    try:
        return expand(words[NODE], once=True) if NODE in words else [*nodes]
    except ValueError as error:
        raise ConfError(f"{place}: {error}") from error


def _of_file(path: Path, nodes: Mapping[str, int]) -> tuple[dict[str, int], bool]:
    """GPUs of each node by a gres.conf, and whether some are to be detected. A line without nodes is of all of them."""
    found: dict[str, int] = {}
    detects = False
    for place, words in read_words(path):
        detects |= words.get("autodetect", "off").lower() not in _DETECTED
        if words.get("name", "").lower() != "gpu":
            continue
        try:
            count = _count(words)
        except ValueError as error:
            raise ConfError(f"{place}: {error}") from error
        for name in _nodes_of(place, words, nodes):
            found[name] = found.get(name, 0) + count
    return found, detects


def _count(words: Mapping[str, str]) -> int:
    """How many a line has: `Count`, else as many as files, else one."""
    if "count" in words:
        if not words["count"].isdecimal():
            raise ValueError(f"Count={words['count']}: expected a whole number")
        return int(words["count"])
    if "file" not in words:
        return 1
    return len(expand(_FOLDER.sub("", words["file"]), once=True))
