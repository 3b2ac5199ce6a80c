"""What a slurm.conf says of scheduling, as settings of the twin. Lines are read by the reader of live runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from balancer.nodelist import expand
from emulator.config.node_names import default_node_names
from emulator.schedulers.slurm.conf_fragment import read_fragment
from emulator.schedulers.slurm.conf_lines import ConfError, read_lines
from emulator.schedulers.slurm.preemption_settings import exempt_time, grace_time, preempt_mode, preempt_type
from emulator.schedulers.slurm.releases import followed
from emulator.schedulers.slurm.rules import Partition, Rules
from emulator.schedulers.slurm.times import INFINITE, MOST, UNLIMITED, minutes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from emulator.schedulers.slurm.releases import Release


def _number(text: str, what: str = "", most: int = MOST) -> int:
    try:
        found = int(text)
    except ValueError:
        raise ValueError(f"{what}{' is ' if what else ''}{text!r}: expected a whole number") from None
    if found > most:
        raise ValueError(f"{what}{' is ' if what else ''}{text}: more than {most}, the most that Slurm takes")
    return found


def _whole(text: str) -> int:
    return INFINITE if text.lower() in UNLIMITED else _number(text)


def _setting_or_most(text: str) -> int:
    return min(_whole(text), MOST)


def _yes(text: str) -> bool:
    return text.lower() in {"yes", "up", "true", "1"}


def _seconds(text: str) -> int:
    return min(minutes(text) * 60, MOST)


NO_FAIR_TREE = "NO_FAIR_TREE"


def priority_flags(text: str) -> list[str]:
    return [word for each in text.strip('"').upper().split(",") if (word := each.strip())]


def _is_fair_tree(text: str) -> bool:
    return NO_FAIR_TREE not in priority_flags(text)


def _no_half_life(text: str) -> int:
    return 0 if text == "0" else _seconds(text)


VERSION = "slurm_version"
"""The key under which `scontrol show config` prints it."""
_PATIENCE = "messagetimeout"
"""A live run's is longer, for its machine: it is no line of a fragment."""
_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "overtimelimit": ("over_time_limit", _setting_or_most),
    "killwait": ("kill_wait", _whole),
    _PATIENCE: ("message_timeout", _whole),
    "jobrequeue": ("job_requeue", _yes),
    "preempttype": ("preempt_type", preempt_type),
    "preemptmode": ("preempt_mode", preempt_mode),
    "preemptexempttime": ("preempt_exempt_time", exempt_time),
    "priorityweightage": ("priority_weight_age", _number),
    "priorityweightfairshare": ("priority_weight_fairshare", _number),
    "priorityweightjobsize": ("priority_weight_job_size", _number),
    "priorityweightpartition": ("priority_weight_partition", _number),
    "priorityweightqos": ("priority_weight_qos", _number),
    "prioritymaxage": ("priority_max_age", _seconds),
    "priorityfavorsmall": ("priority_favor_small", _yes),
    "priorityflags": ("priority_fair_tree", _is_fair_tree),
    "prioritydecayhalflife": ("priority_decay_half_life", _no_half_life),
    "prioritycalcperiod": ("priority_calc_period", _seconds),
    VERSION: ("release", followed),
}
_PARAMETERS = (
    "default_queue_depth", "partition_job_depth", "sched_max_job_start", "sched_interval", "sched_min_interval",
    "bf_interval", "bf_window", "bf_resolution", "bf_max_job_test", "bf_max_job_user", "bf_max_job_part",
    "bf_max_job_user_part", "bf_max_job_assoc", "bf_max_job_start", "bf_job_part_count_reserve", "bf_min_age_reserve",
)  # fmt: skip
_SWITCHES = ("defer", "bf_continue")
PARAMETERS = frozenset((*_PARAMETERS, *_SWITCHES))
"""Words of SchedulerParameters that are followed."""
FOLLOWED = frozenset((
    *_KEYS, "schedulerparameters", "schedulertype", "prioritytype", "accountingstorageenforce", "partitionname",
))  # fmt: skip
"""Keys of slurm.conf, in lower case, that are followed."""
FOLLOWED_OF_PARTITIONS = frozenset((
    "partitionname", "nodes", "default", "priority", "prioritytier", "priorityjobfactor", "maxtime", "maxnodes",
    "minnodes", "qos", "state", "preemptmode", "gracetime",
))  # fmt: skip
"""Likewise of a partition's line."""
_MOST_TIER = 65_533
_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")
_ENFORCE_LIMITS = {"limits", "safe", "all"}
"""Words of AccountingStorageEnforce under which limits count (slurm.conf's manual page)."""


def read_conf(path: Path, node_count: int, added: int = 0) -> dict[str, Any]:
    """Settings of `Rules` that this slurm.conf has, for a machine of so many nodes. Raises ConfError.

    `added`: so many of them, the last ones, it does not know. They are in each partition of all nodes, or the largest.
    """
    names = default_node_names(node_count - added)
    found: dict[str, Any] = {}
    partitions: list[Partition] = []
    found["enforce_limits"] = False
    fragment = read_fragment(path, names, has_database=True)
    lines = read_lines(path)
    if not lines:
        raise ConfError(f"{path}: there is no setting in it; name the slurm.conf of the cluster")
    said_beside = [(f"{each.key}={each.value}", each.place) for each in lines if each.name == _PATIENCE]
    for line, place in [*zip(fragment.lines, fragment.places, strict=True), *said_beside]:
        key, _, value = line.partition("=")
        try:
            if key.lower() == "partitionname":
                partition, is_default = _partition(line, names)
                partitions = _with(partitions, partition)
                if is_default:
                    found["default_partition"] = partition.name
            else:
                said = _setting(key.lower(), value.strip())
                Rules(**{name: each for name, each in said.items() if each is not None})  # of wrong values
                found |= said
        except ValueError as error:
            raise ConfError(f"{place}: {line.removesuffix(' OverSubscribe=EXCLUSIVE')}: {error}") from error
    found = {key: value for key, value in found.items() if value is not None}
    if partitions:
        found["partitions"] = tuple(_with_nodes(partitions, range(node_count - added, node_count)))
        found.setdefault("default_partition", partitions[0].name)
    return found


def cluster_name(path: Path) -> str:
    """What this slurm.conf calls its cluster, empty if it does not. Raises ConfError."""
    return next((line.value.lower() for line in read_lines(path) if line.name == "clustername"), "")


def release_in(path: Path) -> Release | None:
    """The release whose rules are those of the Slurm that printed this, None of a file by hand. Raises ConfError."""
    for line in read_lines(path):
        if line.name == VERSION:
            try:
                return followed(line.value)
            except ValueError as error:
                raise ConfError(f"{line.place}: {line.text}: {error}") from error
    return None


def _state(text: str) -> str:
    found = text.upper()
    if found not in _STATES:
        raise ValueError(f"State={text}: a partition is {', '.join(_STATES[:-1])} or {_STATES[-1]}")
    return found


def _setting(key: str, value: str) -> dict[str, Any]:
    if key == "schedulerparameters":
        # Of several lines the last one counts, with none of the words of those before it.
        found: dict[str, Any] = dict.fromkeys((*_PARAMETERS, *_SWITCHES))
        for each in filter(None, value.split(",")):
            name, _, said = each.strip().lower().partition("=")
            if name in _PARAMETERS:
                found[name] = _number(said, name)
            elif name in _SWITCHES:
                found[name] = True
        return found
    if key == "schedulertype":
        return {"backfill": value.lower() != "sched/builtin"}
    if key == "prioritytype":
        return {"priority_type": value.lower().removeprefix("priority/")}
    if key == "accountingstorageenforce":
        return {"enforce_limits": bool(_ENFORCE_LIMITS & set(value.lower().split(",")))}
    if key in _KEYS:
        name, read = _KEYS[key]
        return {name: read(value)}
    return {}


def _with(partitions: list[Partition], more: Partition) -> list[Partition]:
    """With one more; of a partition that has several lines the last counts, and it has the nodes of all of them."""
    before = next((each for each in partitions if each.name == more.name), None)
    if before is None:
        return [*partitions, more]
    if before.nodes is None or more.nodes is None:
        more = replace(more, nodes=None)
    else:
        more = replace(more, nodes=tuple(dict.fromkeys((*before.nodes, *more.nodes))))
    return [more if each.name == more.name else each for each in partitions]


def _with_nodes(partitions: list[Partition], more: range) -> list[Partition]:
    """With nodes that the file does not know, unless a partition has all nodes, and so these, too."""
    sizes = {each.name: len(each.nodes) for each in partitions if each.nodes is not None}
    largest = max(sizes, key=lambda name: sizes[name]) if len(sizes) == len(partitions) else None
    return [
        replace(each, nodes=(*each.nodes, *more)) if each.name == largest and each.nodes is not None else each
        for each in partitions
    ]


def _partition(line: str, names: tuple[str, ...]) -> tuple[Partition, bool]:
    said = {key.lower(): value for key, _, value in (word.partition("=") for word in line.split())}
    index = {name: number for number, name in enumerate(names)}
    listed = said.get("nodes", "").strip('"')
    nodes: tuple[int, ...] | None = None
    if listed.upper() != "ALL":
        nodes = tuple(index[name] for name in expand(listed, once=True)) if listed else ()
    shared = said.get("priority", "1")
    partition = Partition(
        name=said["partitionname"],
        nodes=nodes,
        priority_tier=_number(said.get("prioritytier", shared), "PriorityTier", _MOST_TIER),
        priority_job_factor=_number(said.get("priorityjobfactor", shared), "PriorityJobFactor", _MOST_TIER),
        max_time=minutes(said.get("maxtime", "INFINITE")),
        max_nodes=_whole(said.get("maxnodes", "UNLIMITED")),
        min_nodes=_whole(said.get("minnodes", "0")),
        qos=said.get("qos", ""),
        state=_state(said.get("state", "UP")),
        preempt_mode=preempt_mode(said["preemptmode"]) if "preemptmode" in said else None,
        grace_time=grace_time(said.get("gracetime", "")),
    )
    return partition, _yes(said.get("default", "NO"))
