"""Resources as Slurm's accounting writes them: lists of trackable ones, memory, GPUs and names of nodes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.workload.rows import Rows

_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d{1,15})")
_TYPE_OF_GPUS = re.compile(r"(?:^|,)gres/gpu:([^=,]+)=|(?:^|,)(?:gres:)?gpu:([A-Za-z][^:,(]*)")
_GPUS_OF_A_NODE = re.compile(r"(?:^|,)(?:gres:)?gpu(?::[A-Za-z][^:,(]*)?(?::(\d{1,15}))?(?=[,(]|$)")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([KMGTPE]?)([nc]?)")
"""Memory; before Slurm 21.08 `ReqMem` says whether it is of each node (`4Gn`) or processor (`4000Mc`)."""
_KIB = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4, "E": 1024**5}
"""Slurm counts memory in MiB where it names no unit."""
_NOT_UNDERSTOOD = -2.0
_COUNTS = re.compile(r"(?:^|,)(node|cpu)=(\d{1,15})(?=,|$)")
MOST_KEPT = 1 << 16
"""Texts of resources and nodes whose meaning is kept: most come again."""


@lru_cache(MOST_KEPT)
def nodes_and_procs(text: str) -> tuple[int, int]:
    """How many nodes and processors a list of trackable resources has; 0 where it does not say."""
    counts = dict(_COUNTS.findall(text))
    return int(counts.get("node", 0)), int(counts.get("cpu", 0))


def _memory_kib(text: str) -> float:
    """Memory of such a list, -1 if it has none."""
    # Lists differ from job to job (energy, disks), their memory does not: it is looked for each time and read once.
    memory = f",{text}".partition(",mem=")[2].partition(",")[0]
    if not memory:
        return -1.0
    memory_kib, of_each = _size_kib(memory)
    return _NOT_UNDERSTOOD if of_each else memory_kib


def _gpus(text: str) -> int:
    """GPUs of such a list, -1 if it has none."""
    gpus = _GPUS.findall(text) if "gres/gpu" in text else []  # most have none
    if not gpus:
        return -1
    # gres/gpu is the sum of all types, where it is there.
    return max(
        sum(int(count) for kind, count in gpus if kind), *(int(count) for kind, count in gpus if not kind), 0
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
        memory_kib, of_each = _size_kib(said[name]) if name == "ReqMem" else (_memory_kib(said[name]), "")
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
        if name in said and (gpus := _gpus(said[name])) >= 0:
            return gpus
    for name in ("AllocGRES", "ReqGRES"):
        if name in said and (of_a_node := _GPUS_OF_A_NODE.findall(said[name])):
            return sum(int(count or 1) for count in of_a_node) * max(nodes, 1)
    return -1


def constraint_of(said: Mapping[str, str]) -> str:
    """What the job asked its nodes to have: features, and the types of the GPUs that it asked for; else empty."""
    return _constraint(said.get("Constraints", ""), said.get("ReqTRES", ""), said.get("ReqGRES", ""))


def _constraint(features: str, tres: str, gres: str) -> str:
    if "gpu:" not in tres and "gpu:" not in gres:  # most have none
        return "".join(features.split())
    types = sorted({(new or old).lower() for new, old in _TYPE_OF_GPUS.findall(f"{tres},{gres}")})
    asked = [f"({''.join(features.split())})"] if features else []
    return "&".join([*asked, *(f"gpu:{each}" for each in types)])
