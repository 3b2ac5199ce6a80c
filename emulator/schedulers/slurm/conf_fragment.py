"""slurm.conf of a run: what binds Slurm to this machine is ours, what schedules is the site's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from emulator.schedulers.slurm.conf_lines import NODE_SET, PARTITION, nodes_of, own_names, read_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from emulator.schedulers.slurm.conf_lines import Line
    from emulator.schedulers.slurm.select import SharedNodes, Size

_BASE = """\
ClusterName=emulator
SlurmctldHost={host}({address})
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
StateSaveLocation={home}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmdPidFile={home}/run/slurmd-%n.pid
SlurmctldLogFile={log}
SlurmctldDebug=info
SlurmdDebug=error
LogTimeFormat=iso8601_ms
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={jobcomp}
MpiDefault=none
SelectType=select/linear
SlurmdParameters=config_overrides
TreeWidth=65533
"""
_WALL_S = {
    "MessageTimeout": 10,
    "TCPTimeout": 5,
    "BatchStartTimeout": 10,
    "UnkillableStepTimeout": 30,
    "SlurmdTimeout": 10,
}
"""Patience with this machine, in seconds of wall time: a machine does not answer faster because time runs faster."""
_MOST_S = 65_000
_DEFAULTS = {
    "ReturnToService": "2",
    "InactiveLimit": "0",
    "MinJobAge": "600",
    "OverTimeLimit": "1",  # what a job's processes cost must not count as its overrun
}
_OURS = re.compile(
    r"nodename|nodeset|downnodes|frontend.*|control.*|backup.*|auth.*|cred.*|crypto.*|job(credential|acct|comp).*"
    r"|job(submitplugins|checkpointdir)|.*prolog.*|.*epilog.*|accounting.*|switch.*|mpi.*|healthcheck.*|gres.*|resume.*"
    r"|suspend.*|topology.*|plug.*|srun.*|x11.*|federation.*|burstbuffer.*|power.*|.*mem(percpu|pernode|limit.*)"
    r"|proctrack.*|launch.*|acct.*|coreSpec.*|mailprog|rebootprogram|slurmctld.*|slurmsched.*|slurmddebug.*|unkill.*"
    r"|cli.*|scron.*|prep.*|license.*|propagate.*|disablerootjobs|allowspecresourcesusage|tmpfs|selecttype.*",
    re.IGNORECASE,
)
_PARTITION = {
    "partitionname", "nodes", "default", "maxtime", "defaulttime", "state", "prioritytier", "priorityjobfactor",
    "priority", "maxnodes", "minnodes", "preemptmode", "gracetime", "overtimelimit", "hidden",
}  # fmt: skip


_WITH_DATABASE = re.compile(r"accountingstorage(enforce|tres)|priorityweighttres", re.IGNORECASE)
_PARTITION_WITH_DATABASE = {"qos", "allowqos", "denyqos", "allowaccounts", "denyaccounts"}
_DATABASE = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStoragePort={port}
"""


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a site's slurm.conf says of scheduling: lines to take over, and sentences about what is left out."""

    lines: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """File and number of each line."""

    @property
    def keys(self) -> set[str]:
        return {line.partition("=")[0].lower() for line in self.lines}

    @property
    def partitions(self) -> list[str]:
        found = (re.match(r"PartitionName=(\S+)", line, re.IGNORECASE) for line in self.lines)
        return [match[1] for match in found if match is not None]


def problem_without_database(fragment: Fragment) -> str:
    """What these lines say that Slurm does not do unless it has slurmdbd; '' if nothing.

    Recorded on Slurm 22.05: without one a job's priority is worked out as it comes and never again.
    """
    said = dict(line.lower().partition("=")[::2] for line in fragment.lines)
    for key in ("PriorityWeightAge", "PriorityWeightFairshare"):
        if said.get("prioritytype") == "priority/multifactor" and said.get(key.lower(), "0") != "0":
            return (
                f"{key} counts only with slurmdbd (without it Slurm works a priority out once, as the job comes);"
                " set accounting to slurmdbd, or leave it out"
            )
    return ""


def read_fragment(path: Path, names: Sequence[str], *, has_database: bool = False) -> Fragment:
    """The part of a slurm.conf that concerns scheduling. `names`: the nodes of the run. Raises ConfError.

    `has_database`: there is a slurmdbd, so what is about accounts and QOS counts too.
    """
    lines = read_lines(path)
    own = dict(zip(own_names(lines, names), names, strict=True))
    kept, left_out, places = [], [], []
    for line in lines:
        if line.name == PARTITION:
            kept_line, dropped = _partition(line, lines, own, has_database=has_database)
            kept.append(kept_line)
            places.append(line.place)
            left_out += [f"{line.where}: {each}" for each in dropped]
        elif not (has_database and _WITH_DATABASE.fullmatch(line.key)) and is_ours(line):
            left_out.append(f"{line.where}: {line.text}")
        else:
            kept.append(f"{line.key}={line.value}")
            places.append(line.place)
    return Fragment(tuple(kept), tuple(left_out), tuple(places))


def is_ours(line: Line) -> bool:
    """Whether a line binds Slurm to its machines, or is about what a run has no part in."""
    return line.name in _BOUND or _OURS.fullmatch(line.key) is not None


_BOUND = {line.partition("=")[0].lower() for line in _BASE.splitlines()} | {name.lower() for name in _WALL_S}


def _partition(
    line: Line, lines: Sequence[Line], own: Mapping[str, str], *, has_database: bool
) -> tuple[str, list[str]]:
    """The line with what needs no users and no memory, and no database unless there is one; whole nodes only."""
    known = _PARTITION | (_PARTITION_WITH_DATABASE if has_database else set())
    has_sets = any(each.name == NODE_SET for each in lines)
    kept: list[str] = []
    dropped: list[str] = []
    for key, said in line.words.items():
        value = said
        if key == "nodes" and (nodes := nodes_of(line, lines)) is not None:
            here = [own[name] for name in nodes]
            value = said if here == nodes and not has_sets else hostlist(here)
            if not here:
                value = '""'
        word = f"{line.spelt[key]}={value}"
        (kept if key in known else dropped).append(word)
    return " ".join([*kept, "OverSubscribe=EXCLUSIVE"]), dropped


def _with(fragment: Fragment, line: str) -> Fragment:
    """The same with this line and no other of its key."""
    key = line.partition("=")[0].lower()
    kept = [each for each in fragment.lines if each.partition("=")[0].lower() != key]
    return Fragment((*kept, line), fragment.left_out)


def _for_a_mechanism(fragment: Fragment) -> Fragment:
    """Jobs may expand, and what a mechanism does to a job does not count as its overrun."""
    expands, lines = "permit_job_expansion", []
    for line in fragment.lines:
        key, _, value = line.partition("=")
        if key.lower() == "schedulerparameters":
            expands = ",".join(dict.fromkeys([*value.split(","), expands]))
        elif key.lower() != "overtimelimit":
            lines.append(line)
    lines += [f"SchedulerParameters={expands}", "OverTimeLimit=UNLIMITED"]
    return Fragment(tuple(lines), fragment.left_out)


def slurm_conf(
    fragment: Fragment,
    names: Sequence[str],
    *,
    home: Path,
    spool: Path,
    log: Path,
    jobcomp: Path,
    host: str,
    user: str,
    port: int,
    node_ports: Sequence[int],
    speed: float,
    hooks: dict[str, Path],
    has_mechanism: bool = False,
    database_port: int | None = None,
    address: str = "127.0.0.1",
    shared: SharedNodes | None = None,
    features: Mapping[str, Collection[int]] | None = None,
    node_sets: Sequence[int] = (),
    has_outages: bool = False,
) -> str:
    """The whole file. `hooks`: PrologSlurmctld and EpilogSlurmctld. `has_mechanism`: it acts on running jobs.

    `address`: where `host` leads. `database_port`: where slurmdbd listens, if there is one. `shared`: what nodes have
    that jobs share, `features`: the nodes with each of these, `node_sets`: the place of each whole node's set.
    `has_outages`: a node that is set down stays so until it is told to resume.
    """
    if has_outages:
        fragment = _with(fragment, "ReturnToService=1")
    if has_mechanism:
        fragment = _for_a_mechanism(fragment)
    keys = fragment.keys
    lines = [
        _BASE.format(
            host=host, user=user, home=home, spool=spool, log=log, jobcomp=jobcomp, port=port, address=address
        )
    ]
    lines += [] if database_port is None else [_DATABASE.format(port=database_port, address=address)]
    lines += [f"{name}={min(round(wall_s * speed) + 100, _MOST_S)}\n" for name, wall_s in _WALL_S.items()]
    lines += [f"{name}={value}\n" for name, value in _DEFAULTS.items() if name.lower() not in keys]
    lines += [f"{name}={script}\n" for name, script in hooks.items()]
    lines += _nodes(names, node_ports, host, address, shared, features or {}, node_sets)
    if not fragment.partitions:
        lines.append(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE\n"
        )
    lines += [f"# left out: {each}\n" for each in fragment.left_out]
    lines += [f"{line}\n" for line in fragment.lines]
    text = "".join(lines)
    if shared is None:
        return text
    select = f"SelectType=select/cons_tres\nSelectTypeParameters={shared.parameters}"
    select += "\nGresTypes=gpu" if shared.has_gpus else ""
    text = text.replace("SelectType=select/linear", select)
    return text.replace("OverSubscribe=EXCLUSIVE", "OverSubscribe=NO")


def _nodes(  # noqa: PLR0917 - once
    names: Sequence[str],
    ports: Sequence[int],
    host: str,
    address: str,
    shared: SharedNodes | None,
    features: Mapping[str, Collection[int]],
    node_sets: Sequence[int],
) -> list[str]:
    """One line for nodes that are alike: every command of Slurm reads the file, and one for each makes that slow."""
    if len(names) != len(ports):
        raise ValueError(f"{len(names)} nodes cannot have {len(ports)} ports")
    groups: dict[str, list[int]] = {}
    for node in range(len(names)):
        if shared is not None:
            shape = _shape(shared.sizes[node], shared.weights[node])
        else:
            shape = "CPUs=1 RealMemory=100" + (f" Weight={node_sets[node] + 1}" if any(node_sets) else "")
        has = [name for name in sorted(features) if node in features[name]]
        shape += f" Feature={','.join(map(feature_word, has))}" if has else ""
        groups.setdefault(shape, []).append(node)
    return [
        f"NodeName={hostlist([names[node] for node in nodes])} NodeHostname={host} NodeAddr={address}"
        f" Port={hostlist([str(ports[node]) for node in nodes])} {shape} State=UNKNOWN\n"
        for shape, nodes in groups.items()
    ]


def feature_word(text: str) -> str:
    """A feature, or a constraint of some, as slurm.conf may say it: a type of GPU is no feature there."""
    return text.replace("gpu:", "gpu_")


def _shape(size: Size, weight: int) -> str:
    cores = f"CPUs={size.cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={size.cores} ThreadsPerCore=1"
    gpus = f" Gres=gpu:{size.gpus}" if size.gpus else ""
    return f"{cores} RealMemory={max(size.memory_mib, 1)}{gpus} Weight={weight}"


def gres_conf(names: Sequence[str], shared: SharedNodes, files: Sequence[Path]) -> str:
    """A gres.conf by which nodes have the first of these files, which are in one folder, for GPUs.

    Slurm counts no GPU without a file, and takes any that is there.
    """
    lines = ["AutoDetect=off\n"]
    for (size, _), nodes in shared.alike.items():
        if size.gpus:
            listed = hostlist([file.name for file in files[: size.gpus]])
            mine = hostlist([names[node] for node in nodes])
            lines.append(f"NodeName={mine} Name=gpu File={files[0].parent}/{listed}\n")
    return "".join(lines)


def hostlist(names: Sequence[str]) -> str:
    """Names in their order, as Slurm writes lists: n[001-004,007]."""
    ranges: list[tuple[str, str, str]] = []
    for name in names:
        prefix = name.rstrip("0123456789")
        number = name[len(prefix) :]
        begun = ranges[-1] if ranges else ("", "", "")
        goes_on = number and begun[0] == prefix and len(begun[2]) == len(number)
        if goes_on and int(number) == int(begun[2]) + 1:
            ranges[-1] = (prefix, begun[1], number)
        else:
            ranges.append((prefix, number, number))
    return ",".join(_bracketed(prefix, list(among)) for prefix, among in groupby(ranges, itemgetter(0)))


def _bracketed(prefix: str, ranges: Sequence[tuple[str, str, str]]) -> str:
    texts = [first if first == last else f"{first}-{last}" for _, first, last in ranges]
    if len(texts) == 1 and "-" not in texts[0]:
        return prefix + texts[0]
    return f"{prefix}[{','.join(texts)}]"
