"""Names of the nodes of a machine that gives them none, and lists of such names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@lru_cache(maxsize=4)
def default_node_names(count: int) -> tuple[str, ...]:
    """n001, n002, ...; as many digits as the last one needs, at least three."""
    digits = max(3, len(str(count)))
    return tuple(f"n{number:0{digits}d}" for number in range(1, count + 1))


def named_nodes(where: str, text: str, names: Sequence[str]) -> frozenset[int]:
    """The nodes of a list of names, or ALL, as indices. Raises ValueError."""
    index = {name: place for place, name in enumerate(names)}
    try:
        listed = names if text.upper() == "ALL" else expand(text)
    except NodeListError as error:
        raise ValueError(f"{where}: nodes: {error}") from error
    unknown = [node for node in listed if node not in index]
    if unknown:
        raise ValueError(f"{where}: there is no node {unknown[0]}; nodes are {names[0]} to {names[-1]}")
    return frozenset(index[node] for node in listed)


def nodes_by_kind(where: str, said: Mapping[str, str], names: Sequence[str]) -> dict[str, frozenset[int]]:
    """The nodes of each kind, by its list of them, as indices. Raises ValueError unless each node is of one kind."""
    found: dict[str, frozenset[int]] = {}
    owner: dict[int, str] = {}
    for kind, text in sorted(said.items()):
        found[kind] = named_nodes(f"{where}.{kind}", text, names)
        for node in sorted(found[kind]):
            if owner.setdefault(node, kind) != kind:
                raise ValueError(f"{where}: node {names[node]} is of {owner[node]} and of {kind}")
    for node, name in enumerate(names):
        if node not in owner:
            raise ValueError(f"{where}: node {name} is of no kind")
    return found
