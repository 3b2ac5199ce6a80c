"""What a mechanism is: handlers for the decision points it wants, and one object through which it acts.

A mechanism is a plug-in of the group `emulator.mechanisms`. It must have `on_arrival`, or a machine of its own that
needs none; every other handler is an ability it may have (`HasTimer`, `HasJobEnd`, ...), and the harness looks
which ones are there. At one time the order is: job ends, checkpoints that are written, timers, on-demand
completions, arrivals, predicted arrivals, notices; then submits and one pass.
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

from emulator.machine.running import Save
from emulator.plugins import make_plugin
from emulator.simulation.tiles import Tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from emulator.cluster.cluster import Cluster, Stop
    from emulator.machine.actions import Accounting
    from emulator.machine.machine import Machine
    from emulator.machine.running import RunningJobs
    from emulator.record.run_record import RunRecord
    from emulator.schedulers.config import SchedulerConfig
    from emulator.workload.table import JobTable

GROUP = "emulator.mechanisms"


class Actions(Protocol):
    """All a mechanism can do. Times are microseconds of cluster time, nodes are indices, jobs are rows."""

    @property
    def now_us(self) -> int: ...

    @property
    def node_names(self) -> tuple[str, ...]:
        """Name of each node."""

    @property
    def cluster(self) -> Cluster:
        """To look at; what changes it goes through the methods below."""

    @property
    def running(self) -> RunningJobs:
        """What running jobs have done and owe, to look at (`done`, `saved`, `owed`, `activity`, in node-us)."""

    @property
    def ended_jobs(self) -> list[int]:
        """The jobs that ended now, for `on_job_end`."""

    def reserve(self, nodes: Iterable[int], *, when_free: bool = False) -> tuple[list[int], list[int]]:
        """Take idle nodes out of the batch pool. Returns (taken, not taken because a job runs on them).

        `when_free`: those are taken the moment their job leaves them.
        """

    def release(self, nodes: Iterable[int]) -> None:
        """Give reserved nodes back to the batch pool; those that were to be taken stay there."""

    def start(self, job: int, nodes: Iterable[int]) -> None:
        """Run a job that waits on these idle nodes.

        An on-demand job that has just arrived runs on reserved ones for its run time. A job of the batch queue may
        also have nodes of the pool, and fewer or more than it asked for. Reserved nodes are reserved again afterwards.
        """

    def reject(self, job: int, reason: str) -> None:
        """Refuse an on-demand job for good."""

    def enqueue(self, job: int, *, front: bool = False) -> None:
        """An on-demand job that cannot start now waits in the batch queue; the scheduler starts it there."""

    def requeue(self, job: int, *, front: bool = False) -> None:
        """Stop a running batch job and put it back into the queue; its work is lost."""

    def preempt(
        self, job: int, save: Save = Save.NONE, *, write_us: int = 0, front: bool = False
    ) -> list[int]:
        """Stop a running job, on-demand ones included; it waits again with the work that it still owes.

        Its nodes are free at once and are returned. With `Save.NOW` and `write_us` it first writes for so long and
        keeps its nodes meanwhile: nothing is returned, `on_preempted` is called when they are free.
        """

    def checkpoint(self, job: int, *, write_us: int = 0) -> None:
        """Save what a running job has done; it computes nothing for `write_us`."""

    def resize(self, job: int, nodes: Iterable[int], *, pause_us: int = 0) -> None:
        """Give a running job exactly these nodes; new ones must be idle, in the pool or reserved. Speed-up is linear.

        `pause_us`: the job computes nothing for so long.
        """

    def suspend(self, job: int, *, free_nodes: bool = False) -> list[int]:
        """A running job computes nothing until `resume`, and loses nothing.

        It keeps its nodes; with `free_nodes` (batch jobs only) others may have them meanwhile, and they are returned:
        its memory stays there, so that it can go on there only. It is then `JobState.SUSPENDED`; `preempt` and
        `requeue` give up its memory, and so does `take_down` of one of its nodes.
        """

    def resume(self, job: int) -> None:
        """A suspended job goes on; all its nodes (`cluster.nodes_of`) must be idle, in the pool or reserved.

        Raises IllegalJobTransition, which names the job that has one of them. `reserve` with `when_free` gets them.
        """

    def set_rate(self, job: int, numerator: int, denominator: int) -> None:
        """A running job's speed from now on, as a share of what its nodes can do (CPU shares)."""

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        """Nodes fail. Jobs on them are preempted with `Save.LATEST_CHECKPOINT` and returned."""

    def repair(self, nodes: Iterable[int]) -> None:
        """Failed nodes are back in the batch pool."""

    def reassign(self, job: int, nodes: Iterable[int]) -> None:
        """Give a running lease exactly these nodes, of which it gets reserved idle ones; it ends when it would have."""

    def end_lease(self, job: int) -> None:
        """A running lease ends before its time; its nodes are reserved and idle. `on_completion` is not called."""

    def set_down(self, nodes: Iterable[int]) -> None:
        """These reserved nodes, on which nothing runs, are known to be down: nobody's until `repair`."""

    def set_up(self, nodes: Iterable[int]) -> None:
        """Reserved nodes that were down work again, and are still reserved."""

    def wake(self, at_us: int) -> None:
        """Call `on_timer` at this time (a past one: at once); replaces an earlier wish."""

    def watch_ends(self, watching: bool) -> None:
        """Whether `on_job_end` is called from now on; at first it is.

        A run without is faster. Who watches and has no such method ends the run.
        """

    def watch_passes(self, watching: bool) -> None:
        """Whether `on_pass` is called from now on; at first it is.

        A run without is faster. Who watches and has no such method ends the run.
        """


@runtime_checkable
class HasArrival(Protocol):
    def on_arrival(self, job: int, act: Actions) -> None:
        """An on-demand job wants its nodes now: start it, reject it, or remember it and do so later."""


@runtime_checkable
class HasBegin(Protocol):
    def on_begin(self, act: Actions) -> None:
        """The run begins; nothing is submitted yet."""


@runtime_checkable
class HasTimer(Protocol):
    def on_timer(self, act: Actions) -> None:
        """The time of the last `wake` has come."""


@runtime_checkable
class HasJobEnd(Protocol):
    def on_job_end(self, act: Actions) -> None:
        """Batch jobs have ended; their nodes are idle, and no scheduling pass has seen them (see `watch_ends`)."""


@runtime_checkable
class HasPass(Protocol):
    def on_pass(self, act: Actions) -> None:
        """The scheduler has started what it could (see `watch_passes`)."""


@runtime_checkable
class HasPreempted(Protocol):
    def on_preempted(self, job: int, nodes: list[int], act: Actions) -> None:
        """A job that was preempted with `Save.NOW` has written its checkpoint and left these nodes."""


@runtime_checkable
class HasPredicted(Protocol):
    def on_predicted(self, job: int, act: Actions) -> None:
        """An on-demand job was predicted to arrive now (extra column `predicted_us`); it may have, or may not yet."""


@runtime_checkable
class HasMachine(Protocol):
    def make_machine(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable, seed: int) -> Machine:
        """The thing that holds jobs and nodes, where whole nodes and a queue over them are not enough."""


@runtime_checkable
class HasFigures(Protocol):
    def figures(self, record: RunRecord, machine: Machine) -> dict[str, Any]:
        """Figures of its own about a run, by name (plain numbers or None); `mechanism.NAME` in results and sweeps."""


@runtime_checkable
class HasCompletion(Protocol):
    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:
        """An on-demand job is over; its nodes are reserved and idle."""


@runtime_checkable
class HasFailures(Protocol):
    """It knows what nodes that fail mean (`failures` of a scenario), which happen to it and are not its own.

    `only_with_failures`: names of its parameters that mean nothing in a run without.
    """

    only_with_failures: ClassVar[tuple[str, ...]]

    def expect_failures(self) -> None:
        """Before `on_begin`: nodes will fail."""

    def on_nodes_down(self, nodes: list[int], act: Actions) -> None:
        """These nodes have failed. Batch jobs have left them already; a lease on them goes on until it is dealt with.

        Those of the batch pool, and reserved ones, are down and nobody's.
        """

    def on_nodes_up(self, nodes: list[int], act: Actions) -> None:
        """These nodes work again: `repair` those that are down and idle."""


@runtime_checkable
class HasNotice(Protocol):
    notice_us: int
    """How long before its arrival an on-demand job is announced; 0: when its extra column `notice_us` says."""

    def on_notice(self, job: int, act: Actions) -> None:
        """An on-demand job is announced."""


class WholeRun(Protocol):
    """A run whose decision points compiled handlers take, in both clocks (`HasWholeRun`)."""

    def go(self, pause_after: int) -> Stop:
        """Go on for so many instants, or to the end (AT_UNTIL)."""

    def go_to(self, until_us: int, pause_after: int) -> Stop:
        """Go on to this time, its instant included, and tell of the work of the jobs that run (AT_UNTIL)."""

    def next_point(self) -> tuple[int, int]:
        """Time in us and kind (`Point`) of the next decision point, NEVER_US if there is none."""

    def tell(self) -> None:
        """Write down what happened so far where it stands after a run of another mechanism."""


@runtime_checkable
class HasWholeRun(Protocol):
    def whole_run(self, act: Accounting, points: NDArray[np.int64]) -> WholeRun | None:
        """After `on_begin`: the run as one compiled loop; None: its handlers are called one by one.

        `points`: rows of (time in us, point, job), those known from the begin in order.
        """


Mechanism: TypeAlias = HasArrival | HasMachine
"""It serves on-demand jobs, or brings the machine that does or has none."""


def mechanism_of(item: object) -> Mechanism:
    """The plug-in that a scenario names, with its parameters. Raises ValueError; TypeError for what is no mechanism."""
    mechanism = make_plugin(GROUP, item)
    if isinstance(mechanism, FunctionType | partial):
        mechanism = _Serves(mechanism)
    if not isinstance(mechanism, Mechanism):
        name = type(mechanism).__name__
        raise TypeError(
            f"{name} is no mechanism: it has neither on_arrival nor make_machine (docs/mechanisms.md)"
        )
    notice_us: object = getattr(mechanism, "notice_us", 0)
    if hasattr(mechanism, "on_notice") and not (isinstance(notice_us, Integral) and int(notice_us) >= 0):
        raise TypeError(
            f"{plugin_name(item)}: notice_us is a whole number of microseconds, at least 0, not {notice_us!r}"
        )
    for tile in getattr(mechanism, "tiles", ()):
        if not isinstance(tile, Tile):
            raise TypeError(f"{plugin_name(item)}: tiles: {tile!r} is no Tile (docs/mechanisms.md)")
    return mechanism


class _Serves:
    """A function of (job, act) as a mechanism: what it does at an arrival; nodes of a lease go back at its end."""

    def __init__(self, function: Callable[[int, Actions], object]) -> None:
        self._function = function

    def on_arrival(self, job: int, act: Actions) -> None:
        self._function(job, act)

    def on_completion(self, job: int, nodes: NDArray[Any], act: Actions) -> None:  # noqa: ARG002 - all alike
        act.release(nodes)


def plugin_name(item: object) -> str:
    """The name in what a scenario says of a plug-in (`name` or `{name: parameters}`)."""
    return str(next(iter(item))) if isinstance(item, dict) and item else str(item)


_Ability = TypeVar("_Ability")


def ability(mechanism: object, kind: type[_Ability]) -> _Ability | None:
    """The mechanism as one that has this ability, or None."""
    # Most runs have none, and to ask a protocol takes longer than to schedule a hundred jobs.
    return mechanism if mechanism is not None and isinstance(mechanism, kind) else None
