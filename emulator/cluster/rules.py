"""By which rules jobs of a cluster start and end: those of a plain scheduler, unless the cluster is given others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel import kernel, passes
from emulator.kernel import tables as t
from emulator.kernel.entry_points import entry_points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.workload.table import JobTable

_ADVANCE, _FINISH_INSTANT = entry_points(kernel.advance, kernel.finish_instant)
(_SCHEDULE_PASS,) = entry_points(passes.schedule_pass)


class ClusterRules:
    """Those of a plain scheduler: time goes on in the usual loop, and nothing is kept beside the cluster's tables.

    `name`: whose the rules are, for messages; empty for a plain scheduler's.
    """

    node_names: tuple[str, ...] | None = None
    """Where they are not those of whole nodes."""
    room: tuple[int, int] = 1, 1
    """How many times as many runs, and nodes of runs, as if each job ran once: so much room there is from the begin."""
    need_nodes = False
    """Whether they look at single nodes from the begin."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    # What they keep.

    def learn(self, jobs: JobTable, rows: t.Jobs, first: int) -> None:
        """Jobs that are these rows of the kernel's job table, which begin at `first`."""

    def use(self, state: t.State) -> None:
        """The cluster's tables are these from now on."""

    # How time goes on.

    def advance(self, state: t.State, until_us: int) -> int:
        """`Cluster.advance`, until there is no room for more runs (NEEDS_ROOM)."""
        return int(_ADVANCE(state, until_us))

    def finish_instant(self, state: t.State, now_us: int) -> None:
        """Submits of this instant, then one scheduling pass."""
        _FINISH_INSTANT(state, now_us)

    def start_jobs(self, state: t.State, now_us: int) -> None:
        """A pass alone."""
        state.registers.now = now_us
        _SCHEDULE_PASS(state, now_us)

    def next_event_us(self, state: t.State) -> int:
        """When something happens by itself, t.NEVER if nothing does."""
        registers = state.registers
        next_end = state.heap["at_us"][0] if registers.heap_n else t.NEVER
        row = registers.next_submit
        next_submit = state.job["submit_us"][row] if row < registers.jobs_n else t.NEVER
        return int(min(next_end, next_submit, registers.next_cycle))

    # What others do to jobs and nodes.

    def has_left(self, job: int, now_us: int) -> None:
        """A job has left its nodes, and not by itself."""

    def holds_back(self, job: int, now_us: int) -> bool:  # noqa: ARG002 - rules of others may
        """Whether a job that lost its nodes is held back for a time, after which these rules release it."""
        return False

    def limit_us(self, jobs: NDArray[np.intp], asked_us: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG002
        """The estimates of jobs whose next runs ask for `asked_us`."""
        return asked_us

    def nodes_have_moved(self) -> None:
        """Nodes were taken out of the batch pool, or put back."""
