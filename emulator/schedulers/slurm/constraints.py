"""Features of nodes, and jobs that ask for nodes with some (`sbatch --constraint`).

Nodes have those of their NodeName lines (`Feature=`), and for each type of GPU that they have `gpu:TYPE`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from balancer.nodelist import some
from emulator.schedulers.slurm.conf_lines import features_of, own_names, read_lines, site_nodes
from emulator.schedulers.slurm.generic_resources import gpu_types_of_site

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_TOKEN = re.compile(r"[&|,()\[\]]|\*\d+|[^&|,()\[\]*\s]+")
_SIMPLER = re.compile(r"[\[*]")
_BLANK = re.compile(r"\s+")


class Constraint(NamedTuple):
    """What a job asks for, and the nodes (indices) that have it."""

    text: str
    nodes: frozenset[int]


def features_in(conf: Path, names: Sequence[str]) -> dict[str, frozenset[int]]:
    """The nodes with each feature, in a run whose nodes have these names. Raises ConfError."""
    lines = read_lines(conf)
    nodes, types = site_nodes(lines), gpu_types_of_site(lines, conf)
    found: dict[str, set[int]] = {}
    for place, name in enumerate(own_names(lines, names)):
        if name in nodes:
            for feature in (*features_of(nodes[name]), *(f"gpu:{each}" for each in types[name])):
                found.setdefault(feature, set()).add(place)
    return {feature: frozenset(places) for feature, places in found.items()}


def features_asked(text: str) -> set[str]:
    """The features that a constraint names. Raises ValueError for one that is none."""
    names = {sign for sign in _tokens(text) if sign[0] not in "&|,()[]*"}
    nodes_with(text, dict.fromkeys(names, frozenset()))
    return names


def constraints_in(
    texts: Sequence[str], features: Mapping[str, frozenset[int]]
) -> tuple[NDArray[np.int64], tuple[Constraint, ...]]:
    """Which constraint each of these is, and the constraints; -1 for none, and for one that no node could meet."""
    asked = sorted({*texts} - {""})
    found = tuple(Constraint(text, nodes_with(text, features)) for text in asked if _is_met(text, features))
    place = {each.text: number for number, each in enumerate(found)}
    return np.array([place.get(text, -1) for text in texts], np.int64), found


def constraints_not_followed(texts: Sequence[str], features: Mapping[str, frozenset[int]]) -> Iterator[str]:
    """Sentences on constraints of a log that the twin has not, or not whole."""
    unmet = [text for text in texts if not _is_met(text, features)]
    if unmet:
        yield f"constraints that no node could meet ({some(unmet, 5)}): in the twin their jobs may have any node"
    simpler = [text for text in texts if text not in unmet and _SIMPLER.search(text)]
    if simpler:
        yield (
            f"constraints {some(simpler, 5)}: in the twin any node with one of these features will do, and a job may"
            " have several kinds"
        )


def _is_met(text: str, features: Mapping[str, frozenset[int]]) -> bool:
    """Whether a constraint is one, and nodes have what it asks for."""
    try:
        return features_asked(text) <= {*features} and bool(nodes_with(text, features))
    except ValueError:
        return False


def nodes_with(text: str, features: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """The nodes that a constraint asks for; what is not in parentheses goes from left to right. Raises ValueError.

    A comma is `&`, as Slurm takes it.
    """
    tokens = _tokens(text)
    nodes = _of(tokens, features, text, until="")
    if next(tokens, None) is not None:
        raise _wrong(text)
    return nodes


def _of(
    tokens: Iterator[str], features: Mapping[str, frozenset[int]], text: str, until: str
) -> frozenset[int]:
    """Of the tokens up to this one, which is taken, too. Within brackets both operators mean `or`."""
    found = _operand(next(tokens, ""), tokens, features, text)
    while (sign := next(tokens, "")) != until:
        if sign.startswith("*"):
            continue
        if sign not in {"&", ",", "|"}:
            raise _wrong(text)
        other = _operand(next(tokens, ""), tokens, features, text)
        found = found | other if sign == "|" or until == "]" else found & other
    return found


def _operand(
    sign: str, tokens: Iterator[str], features: Mapping[str, frozenset[int]], text: str
) -> frozenset[int]:
    if sign in {"(", "["}:
        return _of(tokens, features, text, until=")" if sign == "(" else "]")
    if not sign or sign[0] in "&|,)]*":
        raise _wrong(text)
    return features[sign]


def _tokens(text: str) -> Iterator[str]:
    return iter(_TOKEN.findall(_BLANK.sub("", text).strip('"')))


def _wrong(text: str) -> ValueError:
    return ValueError(f"{text!r} is no constraint, such as a100&ib or (a100|v100)&ib")
