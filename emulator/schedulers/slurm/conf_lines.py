"""The lines of a slurm.conf as Slurm reads them: without comments, with included files and DEFAULT values.

What `scontrol show config` prints is read, too: it has all settings but no nodes and partitions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.nodelist import NodeListError, expand
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PARTITION, NODE, NODE_SET = "partitionname", "nodename", "nodeset"
_PAIR = re.compile(r"([\w.]+)\s*[-*+/]?=\s*(\"[^\"]*\"|\S+)(?=\s|$)")
_COMMENT = re.compile(r"(?<!\\)#.*")
_MOST_DEEP = 20
_ABSENT = "future"
_SHOWN = "Configuration data as of "
"""How the output of `scontrol show config` begins."""
_SHOWN_PAIR = re.compile(r"([\w.]+)(?:\[\d+\])?\s*=\s*(.*?)(?: (?:sec|min)s?)?")
_ONE_OF_MANY = {PARTITION, NODE, NODE_SET, "downnodes", "frontendname"}
"""Keys that begin a line about one thing; other lines may have several settings."""


class ConfError(ValueError):
    """A slurm.conf that cannot be used; the text names file and line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One setting. `place`: path and number, `where`: with the file's name alone. `text`: as it is written.

    `words`: of partitions, nodes and node sets, what the line says, by name in lower case; what it does not say has the
    value of the DEFAULT lines above it. `spelt`: those names as they are written.
    """

    place: str
    where: str
    key: str
    value: str
    text: str
    words: Mapping[str, str] = field(default_factory=dict)
    spelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The key in lower case: Slurm does not tell cases apart."""
        return self.key.lower()


def read_lines(path: Path) -> tuple[Line, ...]:
    """All lines, those of included files in their places, without DEFAULT lines. Raises ConfError."""
    defaults: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    found: list[Line] = []
    for line in _lines(path, ()):
        if line.name not in _ONE_OF_MANY:
            found += _settings(line)
            continue
        words, spelt = _words(line)
        if line.name in {PARTITION, NODE} and words[line.name].upper() == "DEFAULT":
            before, spelt_before = defaults.get(line.name, ({}, {}))
            defaults[line.name] = ({**before, **words}, {**spelt_before, **spelt})
            continue
        more, spelt_more = defaults.get(line.name, ({}, {}))
        words = {**words, **{key: value for key, value in more.items() if key not in words}}
        found.append(
            Line(line.place, line.where, line.key, line.value, line.text, words, {**spelt_more, **spelt})
        )
    _refuse_twice(found)
    return tuple(found)


def _refuse_twice(lines: Sequence[Line]) -> None:
    """Which of two lines about one node counts is unknown: slurmctld does not start with them."""
    seen: dict[str, str] = {}
    for line in lines:
        try:
            names = expand(line.words[NODE]) if line.name == NODE else []
        except NodeListError:
            continue  # told where the names are used
        for name in names:
            if (before := seen.setdefault(name, line.place)) != line.place:
                raise ConfError(f"{line.place}: {line.key}={name} is at {before} too; keep one of them")


def _settings(line: Line) -> list[Line]:
    """The settings of a line, of which it may have several; without quotation marks."""
    pairs = _PAIR.findall(line.text)
    if len(pairs) == 1 or _PAIR.sub("", line.text).strip():
        pairs = [(line.key, line.value)]
    return [
        Line(
            line.place, line.where, key, value.strip('"'), line.text if len(pairs) == 1 else f"{key}={value}"
        )
        for key, value in pairs
    ]


def _lines(path: Path, within: tuple[Path, ...]) -> Iterator[Line]:
    try:
        text = path.read_bytes().decode("utf-8", "replace")  # comments may be in any encoding
    except OSError as error:
        raise ConfError(f"{path}: cannot be read: {refusal(error)}") from error
    if text.startswith(_SHOWN):
        yield from _shown(path, text)
        return
    for number, line in _whole_lines(text):
        place, where = f"{path}:{number}", f"{path.name}:{number}"
        first, _, rest = (
            line.partition(" ") if "\t" not in line else line.replace("\t", " ", 1).partition(" ")
        )
        if first.lower() == "include" and not rest.lstrip().startswith("="):
            yield from _included(path, rest.strip(), place, within)
            continue
        key, equals, value = (each.strip() for each in line.partition("="))
        if not equals or not key:
            template = " (a template: have it filled in first)" if re.search(r"\{[%{]", line) else ""
            raise ConfError(f"{place}: expected KEY=VALUE, not {line!r}{template}")
        yield Line(place, where, key, value, line)


def _shown(path: Path, text: str) -> Iterator[Line]:
    """The settings in what `scontrol show config` printed: up to the first empty line, with units behind numbers."""
    for number, line in enumerate(text.splitlines()[1:], 2):
        if not line.strip():
            return
        match = _SHOWN_PAIR.fullmatch(line.strip())
        if match is not None and match[2] not in {"", "(null)"}:
            yield Line(
                f"{path}:{number}", f"{path.name}:{number}", match[1], match[2], f"{match[1]}={match[2]}"
            )


def _included(path: Path, said: str, place: str, within: tuple[Path, ...]) -> Iterator[Line]:
    name = said.strip('"')
    if not name:
        raise ConfError(f"{place}: Include names no file")
    if found := re.search(r"%\w", name):
        whose = {"%h": "a host's", "%c": "a cluster's"}.get(found[0].lower(), "something's")
        raise ConfError(
            f"{place}: Include {name}: {found[0]} stands for {whose} name, which is not known here; write the file's"
            " own name"
        )
    other = path.parent / name  # an absolute path stays one
    if not other.is_file():  # it was taken from the site with the file that names it
        other = path.parent / Path(name).name
    if other in (*within, path):
        raise ConfError(f"{place}: Include {name}: the file includes itself")
    if len(within) >= _MOST_DEEP:
        raise ConfError(f"{place}: Include {name}: more than {_MOST_DEEP} files include one another")
    if any(sign in name for sign in "*?["):
        raise ConfError(f"{place}: Include {name}: Slurm takes no wildcards here; write a line for each file")
    if not other.is_file():
        raise ConfError(
            f"{place}: Include {name}: there is no file {path.parent / name}; put it there, or beside {path.name}, or"
            " leave the line out"
        )
    yield from _lines(other, (*within, path))


def _whole_lines(text: str) -> list[tuple[int, str]]:
    """(number of the first line, text) without comments, continued lines joined."""
    found: list[tuple[int, str]] = []
    begun = ""
    first = 0
    for number, raw in enumerate(text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").splitlines(), 1):
        line = _COMMENT.sub("", raw).rstrip()
        first = first if begun else number
        begun += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        if begun.strip():
            found.append((first, begun.strip().replace("\\#", "#")))
        begun = ""
    if begun.strip():
        found.append((first, begun.strip().replace("\\#", "#")))
    return found


def _words(line: Line) -> tuple[dict[str, str], dict[str, str]]:
    words: dict[str, str] = {}
    spelt: dict[str, str] = {}
    rest = _PAIR.sub("", line.text).split()
    if rest:
        raise ConfError(f"{line.place}: expected KEY=VALUE, not {rest[0]!r}")
    for key, value in _PAIR.findall(line.text):
        words[key.lower()] = value.strip('"') if not re.search(r"\s", value) else value
        spelt[key.lower()] = key
    return words, spelt


def read_words(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(place, what it says by key in lower case) of each line of a file of the same form. Raises ConfError."""
    for line in _lines(path, ()):
        yield line.place, _words(line)[0]


def expanded(line: Line, key: str) -> list[str]:
    """The names of a list of nodes that a line says. Raises ConfError."""
    try:
        return expand(line.words[key], once=key != NODE)
    except NodeListError as error:
        raise ConfError(f"{line.place}: {line.spelt[key]}={line.words[key]}: {error}") from error


def site_nodes(lines: Sequence[Line], *, to_come: bool = False) -> dict[str, Line]:
    """The line of each node of the site, in their order. Nodes that are still to come (FUTURE) are none, or those."""
    found: dict[str, Line] = {}
    for line in lines:
        if line.name == NODE and line.words.get("state", "").lower().startswith(_ABSENT) == to_come:
            found |= dict.fromkeys(expanded(line, NODE), line)
    return found


def nodes_of(line: Line, lines: Sequence[Line]) -> list[str] | None:
    """The nodes that a partition names, None for all; node sets are what they stand for. Raises ConfError.

    One that names none has none. Nodes that are still to come are left out.
    """
    said = line.words.get("nodes", "")
    if said.upper() == "ALL":
        return None
    if not said:
        return []
    sets = {each.words[NODE_SET]: each for each in lines if each.name == NODE_SET}
    found: list[str] = []
    for name in expanded(line, "nodes"):
        if name not in sets:
            found.append(name)
            continue
        if "nodes" in sets[name].words:
            found += expanded(sets[name], "nodes")
        feature = sets[name].words.get("feature")
        if feature is not None:
            found += [node for node, each in site_nodes(lines).items() if feature in features_of(each)]
    to_come = site_nodes(lines, to_come=True)
    return [name for name in dict.fromkeys(found) if name not in to_come]


def features_of(line: Line) -> list[str]:
    """What a NodeName line says that its nodes have."""
    said = ",".join(line.words.get(key, "") for key in ("feature", "features")).split(",")
    return [name for name in map(str.strip, said) if name]


def own_names(lines: Sequence[Line], names: Sequence[str]) -> tuple[str, ...]:
    """What the site calls the nodes of a run, in their order: by NodeName, else by what partitions name.

    `names` itself where the file speaks of no other ones. Raises ConfError if it does and they are not as many.
    """
    partitions = [line for line in lines if line.name == PARTITION]
    named: dict[str, Line] = {}
    for line in partitions:
        named |= dict.fromkeys(nodes_of(line, lines) or (), line)
    site = tuple(site_nodes(lines))
    if len(site) == len(names):
        mine: tuple[str, ...] = site
    elif set(named) <= set(names):
        mine = tuple(names)
    elif not site and len(named) == len(names):
        mine = tuple(named)
    else:
        used = tuple(node for node in site if node in named)
        everywhere = any(nodes_of(line, lines) is None for line in partitions)
        if site and (everywhere or len(used) != len(names)):
            wrong = next(name for name in named if name not in set(names))
            raise ConfError(
                f"{named[wrong].place}: node {wrong} is one of {len(site)} nodes of the site ({site[0]} to {site[-1]}),"
                f" and the run has {len(names)}: say {len(site)} nodes, or name the nodes {names[0]} to {names[-1]}"
            )
        mine = used or tuple(names)
    known = set(mine)
    for name, line in named.items():
        if name not in known:
            raise ConfError(
                f"{line.place}: there is no node {name}; nodes are {mine[0]} to {mine[-1]}, or ALL"
                + ("" if site else " (NodeName lines say what the site calls them)")
            )
    return mine
