"""Users, groups and queues by name, while a log's jobs are prepared: another log has numbers of its own for them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from emulator.workload.table import JobTable
    from emulator.workload.workload import Workload

LABELS = ("user", "group", "queue")
_KNOWN: ContextVar[dict[str, dict[int, str]] | None] = ContextVar("names of the log", default=None)


@contextmanager
def names_known(names: dict[str, dict[int, str]]) -> Iterator[None]:
    """In the block jobs of other logs get the numbers of these `names`, by label; further names are added to them."""
    token = _KNOWN.set(names)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def with_numbers_known(work: Workload, beside: JobTable) -> JobTable:
    """The jobs of another log, whose labels have the numbers that the log in use has for the same names.

    Other names get numbers behind those of the log in use and of the jobs `beside`.
    """
    columns: dict[str, Any] = {}
    theirs = {"user": work.user_names, "group": work.group_names, "queue": work.queue_names}
    for label, ours in (_KNOWN.get() or {}).items():
        if ours and theirs[label]:
            columns[label] = _renumbered(
                getattr(work.jobs, label), theirs[label], ours, getattr(beside, label)
            )
    return replace(work.jobs, **columns)


def _renumbered(labels: Any, theirs: Mapping[int, str], ours: dict[int, str], beside: Any) -> Any:
    number_of = {name: number for number, name in ours.items()}
    found = labels.copy()
    for number in np.unique(labels).tolist():
        name = theirs.get(number)
        if name is None:
            continue
        if name not in number_of:
            number_of[name] = max(*ours, int(beside.max(initial=0)), 0) + 1
            ours[number_of[name]] = name
        found[labels == number] = number_of[name]
    return found
