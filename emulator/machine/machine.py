"""What the harness, the runner and the results need of the thing that holds jobs and nodes.

`Cluster` is the one for whole nodes and rigid jobs. A mechanism brings another with `make_machine`: its own compiled
kernel behind the same loop, results, laws and commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from emulator.cluster.cluster import Cluster
from emulator.machine.account import HasAccounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.cluster.cluster import Stop
    from emulator.record.run_record import RunTable
    from emulator.workload.table import JobTable


class Machine(Protocol):
    """Jobs, nodes and a scheduler over them. Times are microseconds, jobs are rows, nodes are indices."""

    node_count: int

    @property
    def now_us(self) -> int: ...

    @property
    def ended_count(self) -> int:
        """Runs that have ended so far."""

    @property
    def next_event_us(self) -> int:
        """The next end or submit of a simulated run, NEVER if there is none."""

    @property
    def state(self) -> NDArray[np.int64]:
        """`JobState` of each job."""

    @property
    def start_us(self) -> NDArray[np.int64]: ...

    @property
    def end_us(self) -> NDArray[np.int64]: ...

    def advance(
        self, until_us: int, *, stop_on_end: bool = False, stop_on_pass: bool = False, pause_after: int = -1
    ) -> Stop:
        """Let everything before `until_us`, and the job ends at it, happen; says why it stopped."""

    def finish_instant(self, now_us: int) -> None:
        """Submits of this instant, then one scheduling pass."""

    def job_table(self) -> JobTable: ...

    def run_table(self) -> RunTable: ...


@runtime_checkable
class HasRejects(Protocol):
    """A machine on which on-demand jobs can be refused."""

    def reject(self, job: int, now_us: int) -> None:
        """An on-demand job gets no nodes."""


@runtime_checkable
class HasSlots(Protocol):
    """A machine whose `nodes` are slots of real nodes, so many on each and in order: several jobs are on a node."""

    @property
    def slots_per_node(self) -> int: ...

    @property
    def core_count(self) -> int:
        """Cores of all nodes."""

    def core_of(self, slot: int) -> int:
        """Which core of the whole machine a slot is on, -1 for none (a GPU)."""


@runtime_checkable
class HasOutages(Protocol):
    """A cluster's own rules (`ClusterRules`) that know what nodes that fail and are maintained mean."""

    def expect_outages(self) -> bool:
        """Nodes will go and come back. Returns whether jobs that lose one may wait again, else they are lost.

        Raises ValueError if it cannot be.
        """


def tells_work(machine: Machine) -> bool:
    """Whether it is known at any time how far each job is, so that live a process can do its work."""
    return isinstance(machine, Cluster | HasAccounts)
