"""Resources as Slurm's accounting writes them: lists of trackable ones, memory, GPUs and names of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.workload.rows import Rows

_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d{1,15})")
_GPUS_OF_A_NODE = re.compile(r"(?:^|,)(?:gres:)?gpu(?::[A-Za-z][^:,(]*)?(?::(\d{1,15}))?(?=[,(]|$)")
_MEMORY = re.compile(r"(?:^|,)mem=([^,]+)")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([KMGTPE]?)([nc]?)")
"""Memory; before Slurm 21.08 `ReqMem` says whether it is of each node (`4Gn`) or processor (`4000Mc`)."""
_KIB = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4, "E": 1024**5}
"""Slurm counts memory in MiB where it names no unit."""
_NOT_UNDERSTOOD = -2.0
_COUNTS = re.compile(r"(?:^|,)(node|cpu)=(\d{1,15})(?=,|$)")
MOST_KEPT = 1 << 16
"""Texts of resources and nodes whose meaning is kept: most come again."""


@dataclass(frozen=True, slots=True)
class Tres:
    """What a list of trackable resources says; 0 where it does not, memory and GPUs -1."""

    nodes: int
    procs: int
    memory_kib: float
    gpus: int


@lru_cache(MOST_KEPT)
def tres_of(text: str) -> Tres:
    counts = dict(_COUNTS.findall(text))
    memory = _MEMORY.search(text)
    memory_kib, of_each = _size_kib(memory[1]) if memory else (-1.0, "")
    gpus = _GPUS.findall(text)
    return Tres(
        nodes=int(counts.get("node", 0)),
        procs=int(counts.get("cpu", 0)),
        memory_kib=_NOT_UNDERSTOOD if of_each else memory_kib,
        # gres/gpu is the sum of all types, where it is there.
        gpus=max(
            sum(int(count) for kind, count in gpus if kind),
            *(int(count) for kind, count in gpus if not kind),
            0,
        )
        if gpus
        else -1,
    )


@lru_cache(MOST_KEPT)
def nodes_in(text: str) -> int:
    """How many nodes a list names, 0 if it is none."""
    try:
        return len(expand(text))
    except NodeListError:
        return 0


@lru_cache(MOST_KEPT)
def _size_kib(text: str) -> tuple[float, str]:
    """Memory and of what it is: `n` each node, `c` each processor, nothing the job."""
    size = _SIZE.fullmatch(text)
    return (float(size[1]) * _KIB[size[2]], size[3]) if size else (_NOT_UNDERSTOOD, "")


def memory_kb(said: Mapping[str, str], procs: int, nodes: int, rows: Rows) -> int:
    """Memory of each processor in KiB, by what was allocated, else asked for; -1 if unknown, or all that nodes have."""
    if procs <= 0:
        return -1
    for name in ("AllocTRES", "ReqTRES", "ReqMem"):
        if name not in said:
            continue
        memory_kib, of_each = (
            _size_kib(said[name]) if name == "ReqMem" else (tres_of(said[name]).memory_kib, "")
        )
        if memory_kib == _NOT_UNDERSTOOD:
            rows.doubt(
                f"memory of {name}", f"{name} is {said[name][:60]!r}, not memory such as 16G, 4Gn or 4000Mc"
            )
        elif memory_kib > 0 and (of_each != "n" or nodes > 0):
            return round(
                memory_kib * nodes / procs if of_each == "n" else memory_kib / (1 if of_each else procs)
            )
    return -1


def gpus_of(said: Mapping[str, str], nodes: int) -> int:
    """GPUs of the job, by what was allocated, else asked for; -1 if it has none. Old versions say them of a node."""
    for name in ("AllocTRES", "ReqTRES"):
        if name in said and (gpus := tres_of(said[name]).gpus) >= 0:
            return gpus
    for name in ("AllocGRES", "ReqGRES"):
        if name in said and (of_a_node := _GPUS_OF_A_NODE.findall(said[name])):
            return sum(int(count or 1) for count in of_a_node) * max(nodes, 1)
    return -1
