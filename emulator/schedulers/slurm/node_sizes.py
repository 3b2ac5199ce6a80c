"""What each node of a site has, by the NodeName lines of its slurm.conf and the gres.conf beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.nodelist import expand, some
from emulator.config.node_names import default_node_names
from emulator.schedulers.slurm.conf_lines import ConfError, own_names, read_lines, site_nodes
from emulator.schedulers.slurm.generic_resources import gpus_of_site
from emulator.schedulers.slurm.select import MOST_CORES, Size, has_memory
from emulator.schedulers.slurm.times import MOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from emulator.schedulers.slurm.conf_lines import Line
    from emulator.schedulers.slurm.releases import Release
    from emulator.schedulers.slurm.select import Parameters

_SHARING = {"select/cons_tres", "select/cons_res"}
_OF_ONE_NODE = {"nodename", "nodehostname", "nodeaddr", "port", "state", "reason"}


def parameters_in(conf: Path, release: Release) -> Parameters | None:
    """What jobs share of nodes by SelectType; None where they have whole ones, or no line says what nodes have.

    What is not said is the release's default: of SelectTypeParameters cores and memory. A file that says neither
    SelectType nor RealMemory means cores alone. Raises ConfError.
    """
    lines = read_lines(conf)
    said = {line.name: line.value.lower() for line in lines}
    default = "select/linear" if release == "22.05" else "select/cons_tres"  # since 23.11
    nodes = site_nodes(lines)
    if said.get("selecttype", default) not in _SHARING or not nodes:
        return None
    has_memory = "selecttype" in said or all("realmemory" in line.words for line in nodes.values())
    words = said.get("selecttypeparameters", "cr_core_memory" if has_memory else "cr_core")
    if "cr_cpu" in words:
        return "CR_CPU_Memory" if "memory" in words else "CR_CPU"
    return "CR_Core_Memory" if "memory" in words else "CR_Core"


def says_select_type(conf: Path) -> bool:
    """Whether a line says what jobs share of nodes. Raises ConfError."""
    return any(line.name == "selecttype" for line in read_lines(conf))


def sizes_in(conf: Path, node_count: int, parameters: Parameters) -> tuple[Size, ...]:
    """What each of so many nodes has, in their order. A core is what Slurm calls a CPU. Raises ConfError."""
    lines = read_lines(conf)
    nodes, gpus = site_nodes(lines), gpus_of_site(lines, conf)
    found: list[Size] = []
    for name in own_names(lines, default_node_names(node_count)):
        if name not in nodes:
            raise ConfError(f"{conf}: no NodeName line says what node {name} has; say `cores` in `select`")
        line = nodes[name]
        memory = _memory(line) if has_memory(parameters) else 0
        if has_memory(parameters) and not memory:
            raise ConfError(f"{line.place}: {parameters} needs the RealMemory of node {name}")
        if memory < 0:
            raise ConfError(f"{line.place}: MemSpecLimit leaves jobs no memory of node {name}")
        if not 1 <= (cores := _cpus(line)) <= MOST_CORES:
            raise ConfError(f"{line.place}: node {name} has {cores} CPUs; expected 1 to {MOST_CORES}")
        if gpus[name] > MOST_CORES:
            raise ConfError(f"{line.place}: node {name} has {gpus[name]} GPUs; expected at most {MOST_CORES}")
        found.append(Size(cores, memory, gpus[name]))
    return tuple(found)


def fewest_cores_in(conf: Path) -> int:
    """Of a node. Raises ConfError."""
    nodes = site_nodes(read_lines(conf))
    if not nodes:
        raise ConfError(f"{conf}: no NodeName line says what nodes have; say `cores` in `select`")
    return min(map(_cpus, nodes.values()))


def weights_in(conf: Path, node_count: int) -> tuple[int, ...]:
    """The weight of each of so many nodes, in their order: 1 where no line says it. Raises ConfError."""
    lines = read_lines(conf)
    nodes = site_nodes(lines)
    names = own_names(lines, default_node_names(node_count))
    return tuple(weight_of(nodes[name]) if name in nodes else 1 for name in names)


def node_sets_in(conf: Path, node_count: int, release: Release) -> tuple[int, ...]:
    """The place of the set of each of so many nodes, in their order: jobs with whole nodes get those of the first sets.

    A set has the nodes of a NodeName line, since 24.11 of all that say the same. Those of less Weight come first, then
    those of earlier lines; nodes without a line are behind them all. Raises ConfError.
    """
    lines = read_lines(conf)
    nodes = site_nodes(lines)
    names = own_names(lines, default_node_names(node_count))
    sets: dict[str, Line] = {}
    for line in nodes.values():
        sets.setdefault(_set_of(line, release), line)
    places = {key: place for place, key in enumerate(sorted(sets, key=lambda key: weight_of(sets[key])))}
    return tuple(places[_set_of(nodes[name], release)] if name in nodes else len(places) for name in names)


def _set_of(line: Line, release: Release) -> str:
    if release == "22.05":
        return str(line.place)
    return str(sorted((key, value) for key, value in line.words.items() if key not in _OF_ONE_NODE))


def weight_of(line: Line) -> int:
    """Of the nodes of a NodeName line. Raises ConfError."""
    return _number(line, "weight", 1)


def threads_not_followed(lines: Sequence[Line]) -> Iterator[str]:
    """A sentence on nodes whose cores have several threads."""
    many = [name for name, line in site_nodes(lines).items() if _number(line, "threadspercore", 1) > 1]
    if many:
        yield f"ThreadsPerCore of {some(many, 5)}: in the twin each thread is a core"


def _cpus(line: Line) -> int:
    """As `CPUs` says, else by its sockets, cores and threads, without those that no job gets.

    The latter are CoreSpecCount or CpuSpecList (slurm.conf's manual page).
    """
    sockets = _number(line, "sockets", 0) or _number(line, "boards", 1) * _number(line, "socketsperboard", 1)
    cores, threads = sockets * _number(line, "corespersocket", 1), _number(line, "threadspercore", 1)
    found = _number(line, "cpus", 0) or _number(line, "procs", 0) or cores * threads
    of_a_core = 1 if found == cores else threads  # CPUs may count cores, whatever threads these have
    if "cpuspeclist" not in line.words:
        return found - _number(line, "corespeccount", 0) * of_a_core
    try:
        return found - len(expand(f"[{line.words['cpuspeclist']}]"))
    except ValueError as error:
        raise ConfError(f"{line.place}: CpuSpecList={line.words['cpuspeclist']}: {error}") from error


def _memory(line: Line) -> int:
    """MiB of a node, without those that no job gets; 0 if the line does not say it, -1 if none are left."""
    found = _number(line, "realmemory", 0)
    return (found - _number(line, "memspeclimit", 0) or -1) if found else 0


def _number(line: Line, key: str, default: int) -> int:
    if key not in line.words:
        return default
    text = line.words[key]
    if not text.isdecimal():
        raise ConfError(f"{line.place}: {line.spelt[key]}={text}: expected a whole number")
    if int(text) > MOST:
        raise ConfError(
            f"{line.place}: {line.spelt[key]}={text}: more than {MOST}, the most that Slurm takes"
        )
    return int(text)
