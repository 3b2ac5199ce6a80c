"""A mechanism at work on a machine: which handler is called when, whatever the clock; and the record of the run.

In virtual time `Loop` says what is due (`loop.py`); live what comes in does (`live/torque/mechanism_scheduler.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from emulator.config.node_names import default_node_names
from emulator.machine.actions import Accounting
from emulator.machine.effects import NoEffects
from emulator.machine.points import ARRIVAL, CHECKPOINT, COMPLETION, NOTICE, PREDICTED, TIMER
from emulator.plugins.failure import Cause, PluginError, plugin_error, traceback_of
from emulator.record.lease_table import LeaseTable
from emulator.record.run_record import Mark, RunRecord
from emulator.simulation.mechanism import (
    HasArrival,
    HasBegin,
    HasCompletion,
    HasFailures,
    HasFigures,
    HasJobEnd,
    HasMachine,
    HasNotice,
    HasPass,
    HasPredicted,
    HasPreempted,
    HasTimer,
    HasWholeRun,
    ability,
)
from emulator.simulation.progress import Progress
from emulator.workload.plugin_errors import is_own
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from emulator.cluster.cluster import Cluster
    from emulator.machine.effects import Agenda, Effects
    from emulator.machine.machine import Machine
    from emulator.record.run_record import RunTable
    from emulator.simulation.mechanism import Mechanism, WholeRun

_NO_EFFECTS = NoEffects()


class Decisions:
    """Hands decision points to the mechanism. Whatever it raises comes out as one `PluginError`.

    `name`: the mechanism's, for that error. `actions`: through which it acts.
    """

    def __init__(
        self,
        machine: Machine,
        mechanism: Mechanism | None,
        *,
        agenda: Agenda,
        effects: Effects = _NO_EFFECTS,
        node_names: tuple[str, ...] | None = None,
        name: str = "",
    ) -> None:
        self.machine = machine
        self.mechanism = mechanism
        self.name = name or type(mechanism).__name__
        self.failure: PluginError | None = None
        """What ended the run."""
        names = node_names or default_node_names(machine.node_count)
        self.actions = Accounting(machine, names, agenda, effects)
        self._progress = Progress(machine, self.actions)
        self._timers = Cause(
            f"mechanism {self.name}",
            "on_timer",
            "A timer must not be set for ever where no job can start, and a job that is stopped again and again must "
            "keep its work (Save.NOW)",
        )
        self._at_arrival = ability(mechanism, HasArrival)  # type: ignore[type-abstract]
        self._at_begin = ability(mechanism, HasBegin)  # type: ignore[type-abstract]
        self._at_timer = ability(mechanism, HasTimer)  # type: ignore[type-abstract]
        self._at_job_end = ability(mechanism, HasJobEnd)  # type: ignore[type-abstract]
        self._at_completion = ability(mechanism, HasCompletion)  # type: ignore[type-abstract]
        self._at_notice = ability(mechanism, HasNotice)  # type: ignore[type-abstract]
        self._at_predicted = ability(mechanism, HasPredicted)  # type: ignore[type-abstract]
        self._at_preempted = ability(mechanism, HasPreempted)  # type: ignore[type-abstract]
        self._at_failure = ability(mechanism, HasFailures)  # type: ignore[type-abstract]
        self._at_pass = ability(mechanism, HasPass)  # type: ignore[type-abstract]
        self.actions.watch_ends(self._at_job_end is not None)
        self.actions.watch_passes(self._at_pass is not None)

    # What happens.

    def begin(self, bad_input: type[Exception] | tuple[()] = ()) -> None:
        """The run begins. By an exception of the kind `bad_input` a mechanism says that it cannot serve it."""
        if self._at_begin is not None:
            self._call(self._at_begin.on_begin, self.actions, bad_input=bad_input)

    def whole_run(self, points: NDArray[np.int64]) -> WholeRun | None:
        """The mechanism's own loop for the run that has just begun, if it has one."""
        has = ability(self.mechanism, HasWholeRun)  # type: ignore[type-abstract]
        return None if has is None else has.whole_run(self.actions, points)

    def handle(self, at_us: int, point: int, job: int) -> None:
        """A decision point that is due now; nothing, if it was put off or called off."""
        actions = self.actions
        if point == ARRIVAL:
            if self._at_arrival is None:
                actions.reject(job, "no mechanism serves on-demand jobs")
            else:
                self._call(self._at_arrival.on_arrival, job, actions)
        elif actions.is_stale(at_us, point, job):
            pass
        elif point == COMPLETION:
            self.lease_over(job)
        elif point == CHECKPOINT:
            nodes = actions.checkpoint_written(job)
            self.count_timers()
            if self._at_preempted is not None:
                self._call(self._at_preempted.on_preempted, job, nodes, actions)
        elif point == PREDICTED and self._at_predicted is not None:
            self._call(self._at_predicted.on_predicted, job, actions)
        elif point == NOTICE and self._at_notice is not None:
            self._call(self._at_notice.on_notice, job, actions)
        elif point == TIMER:
            actions.woken()
            if self._at_timer is None:
                raise self._failed("wake", TypeError("it asked to be woken and has no on_timer"))
            self.count_timers()
            self._call(self._at_timer.on_timer, actions)

    def lease_over(self, job: int) -> None:
        """An on-demand job has come to its end."""
        nodes = self.actions.lease_ended(job)
        if self._at_completion is not None:
            self._call(self._at_completion.on_completion, job, nodes, self.actions)

    def jobs_ended(self, jobs: list[int]) -> None:
        """These jobs have come to their ends, all at this time."""
        self.actions.jobs_ended(jobs)
        if jobs and self.actions.watches_ends:
            if self._at_job_end is None:
                raise self._failed("watch_ends", TypeError("it watches ends and has no on_job_end"))
            self._call(self._at_job_end.on_job_end, self.actions)

    def pass_over(self) -> None:
        """The scheduler has started what it could."""
        if self.actions.watches_passes:
            if self._at_pass is None:
                raise self._failed("watch_passes", TypeError("it watches passes and has no on_pass"))
            self._call(self._at_pass.on_pass, self.actions)

    # Nodes that fail (`node_outages.Nodes`), where a mechanism knows what that means.

    @property
    def now_us(self) -> int:
        return self.actions.now_us

    @property
    def cluster(self) -> Cluster:
        return self.actions.cluster

    @property
    def knows_failures(self) -> bool:
        return self._at_failure is not None

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        return self._fail(nodes, lost=False)

    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]:
        return self._fail(nodes, lost=True)

    def _fail(self, nodes: Iterable[int], *, lost: bool) -> list[int]:
        failed = list(nodes)
        gone = self.actions.fail(failed, lost=lost)
        if failed and self._at_failure is not None:
            self._call(self._at_failure.on_nodes_down, failed, self.actions)
        return gone

    def repair(self, nodes: Iterable[int]) -> None:
        repaired = list(nodes)
        if repaired and self._at_failure is not None:
            self._call(self._at_failure.on_nodes_up, repaired, self.actions)

    def drain(self, nodes: Iterable[int]) -> list[int]:
        return self.actions.drain(nodes)

    def drained(self, nodes: Iterable[int]) -> None:
        self.actions.drained(nodes)

    # When it fails.

    def _call(
        self,
        handler: Callable[..., object],
        *arguments: Any,
        bad_input: type[Exception] | tuple[()] = (),
    ) -> None:
        try:
            handler(*arguments)
        except bad_input:
            raise
        except Exception as error:
            event = handler.__name__
            if len(arguments) > 1 and not isinstance(arguments[0], list):
                event += f" of job {self.machine.job_table().number[arguments[0]]}"
            raise self._failed(event, error) from error

    def machine_failed(self, action: str, error: Exception) -> NoReturn:
        """The machine raised: its queue order's failure, or the mechanism's, if that brought it."""
        self.actions.now_us = self.machine.now_us
        if isinstance(error, PluginError):
            self.failure = error
        if self.failure is error or ability(self.mechanism, HasMachine) is None:  # type: ignore[type-abstract]
            raise error
        raise self._failed(f"{action} of its {type(self.machine).__name__}", error) from error

    def count_timers(self, timers: int = 1) -> None:
        """As `count`, of timers and saves that the mechanism asked for."""
        self.count(self._timers, timers)

    def count(self, cause: Cause, events: int = 1) -> None:
        """Events have happened. Raises PluginError where they have led nowhere for long."""
        try:
            self._progress.event(cause, events)
        except PluginError as error:
            self.failure = error
            raise

    def _failed(self, event: str, error: Exception) -> PluginError:
        self.failure = plugin_error(f"mechanism {self.name}", event, self.actions.now_us, error)
        return self.failure

    # Afterwards.

    def record(self, *, interrupted: str = "") -> RunRecord:
        """What happened so far. `interrupted` and `traceback` tell of a plug-in that failed, be it at its figures."""
        counts = ability(self.mechanism, HasFigures)  # type: ignore[type-abstract]
        if self.failure is None:
            record = self._record(interrupted)
            if counts is None:
                return record
            try:
                return replace(record, figures=_checked(counts.figures(record, self.machine), self.mechanism))
            except Exception as error:  # noqa: BLE001 - told below
                failure = self._failed("figures", error)
                failure.__cause__ = error
        assert self.failure is not None  # noqa: S101 - one of the two
        return replace(self._record(str(self.failure)), traceback=traceback_of(self.failure))

    def _record(self, interrupted: str) -> RunRecord:
        machine, actions = self.machine, self.actions
        runs = machine.run_table()
        horizon_us = actions.now_us if interrupted else int(runs.end_us.max(initial=0))
        if actions.has_acted_on_runs:
            done, lost = actions.running.work_of_runs(runs.job, runs.outcome, horizon_us)
            runs = replace(runs, done_node_us=done, lost_node_us=lost)
        return RunRecord(
            jobs=machine.job_table(),
            node_names=actions.node_names,
            state=machine.state.astype(np.int8),
            start_us=machine.start_us.copy(),
            end_us=machine.end_us.copy(),
            runs=runs,
            begin_us=0,
            horizon_us=horizon_us,
            moves=actions.moves_until(horizon_us),
            leases=self._leases(runs),
            marks=(Mark(actions.now_us, f"interrupted: {interrupted}"),) if interrupted else (),
            interrupted=interrupted,
        )

    def _leases(self, runs: RunTable) -> LeaseTable:
        """Those that were decided, then those of the batch queue: granted when the scheduler first started them."""
        actions = self.actions
        decided = LeaseTable.of(actions.leases) if actions.leases_told is None else actions.leases_told
        waited = self.machine.job_table().kind == Kind.ON_DEMAND
        waited[decided.job] = False
        rows = np.flatnonzero(waited[runs.job])
        job, first = np.unique(runs.job[rows], return_index=True)
        return decided.and_then(LeaseTable.of_granted(job.astype(np.int64), runs.start_us[rows[first]]))


def _checked(figures: Any, mechanism: object) -> dict[str, Any]:
    """What goes into `summary.json`. Raises TypeError and ValueError."""
    if not isinstance(figures, dict):
        raise TypeError(f"it returned {figures!r}; return a dictionary of figures, {{}} for none")
    if not is_own(mechanism):
        return figures
    for name, value in figures.items():
        if isinstance(value, float | np.floating) and not np.isfinite(value):
            raise ValueError(f"its figure {name} is {value}; return a number, or None where there is none")
    return figures
