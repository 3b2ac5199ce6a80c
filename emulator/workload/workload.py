"""A workload: jobs that fit a cluster, and an account of what became of the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable


MALFORMED_LINE = "malformed line"
PASSED_OVER = "no job of its own: {}"
"""Records that a reader passed over, by what they are."""


def is_not_read(what: str) -> bool:
    """Whether something that was counted is records of the file that became no rows of the log."""
    return what == MALFORMED_LINE or what.startswith(PASSED_OVER.format(""))


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The jobs of a log that can be replayed on `nodes` nodes.

    `rows[i]` is the row of the log that job i comes from. `left_out` counts rows of the log that are not in
    `jobs`, by reason: `len(jobs) + sum(left_out.values())` is the number of rows. `counted` counts what was
    changed or noticed on the way. `shift_s` was taken off all submit times, so that the first is 0.
    `wait_us` are the waits of the jobs that the log recorded, -1 where it has none. `user_names`, `group_names`:
    as in the log. `queue_names`, `qos_names`, `constraint_names`: those that its header has, by number.
    """

    jobs: JobTable
    nodes: int
    rows: NDArray[np.intp]
    shift_s: float = 0.0
    left_out: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    source: str = "<memory>"
    wait_us: NDArray[np.int64] | None = None
    user_names: Mapping[int, str] = field(default_factory=dict)
    group_names: Mapping[int, str] = field(default_factory=dict)
    queue_names: Mapping[int, str] = field(default_factory=dict)
    qos_names: Mapping[int, str] = field(default_factory=dict)
    constraint_names: Mapping[int, str] = field(default_factory=dict)
