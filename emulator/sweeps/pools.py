"""Where the runs of a sweep are done. A pool takes runs and yields each one's row or error when it is over."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from balancer.clock import wall_us
from emulator.runs.scenario import ScenarioError
from emulator.workload.shared_memory import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from multiprocessing.synchronize import Event

    from emulator.sweeps.grid import Run

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")

_Outcomes: TypeAlias = "tuple[list[tuple[dict[str, Any] | None, str]], int]"
"""Of each run its row, or why it has none; and how many microseconds all took."""

_LOOK_S = 0.2
_AHEAD = 4
"""What is handed to each process beyond what it does: it never waits, and little is undone at the end."""
_ASKED_AGAIN_US = 1_000_000


@dataclass(frozen=True, slots=True)
class _Batches:
    """Short runs are handed over together: handing one over costs as much as doing it.

    They are as many as take from `least_us` to `most_us`: the latter as long as many are left, so that at the end
    nobody has much to do that others could do.
    """

    least_us: int
    most_us: int
    most: int

    def runs(self, done: int, lasted_us: int, left: int) -> int:
        """How many make a batch, where so many took so long, and so many are left for each batch at a time."""
        in_time = min(max(left, self.least_us * done // lasted_us), self.most_us * done // lasted_us)
        return max(1, min(self.most, in_time))


_OF_PROCESSES = _Batches(least_us=20_000, most_us=20_000, most=16)
_OF_DASK = _Batches(least_us=200_000, most_us=1_000_000, most=1024)
"""A batch goes through two more processes and their sockets: 5 ms of a processor that has runs to do."""
_ALONE = _Batches(least_us=0, most_us=0, most=1)


@dataclass(frozen=True, slots=True)
class Done:
    """A run that is over: its row, or why it has none."""

    run: Run
    row: dict[str, Any] | None
    error: str = ""


_Finished: TypeAlias = tuple[list[Done], int]
"""What became of the runs of a batch, and how many microseconds they took; 0: that is not known."""


class Pool(Protocol):
    def done(self, runs: Iterable[Run], stop: Callable[[], bool]) -> Iterator[Done]:
        """Do the runs; each as soon as it is over, in any order. Ends early, and soon, when `stop` says so.

        Runs are taken when there is something to do them with: which are left may depend on what is over.
        """


@dataclass(frozen=True, slots=True)
class Here:
    """One after the other in this process: for a few short runs."""

    def done(self, runs: Iterable[Run], stop: Callable[[], bool]) -> Iterator[Done]:
        from emulator.sweeps.execute import execute  # noqa: PLC0415 - compiles kernels

        return _one_by_one(runs, stop, execute)


@dataclass(frozen=True, slots=True)
class Cores:
    """Processes on this machine; each does one run at a time."""

    jobs: int

    def done(self, runs: Iterable[Run], stop: Callable[[], bool]) -> Iterator[Done]:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["emulator.sweeps.execute"])
        stopped = context.Event()
        # It has a process only when a run is there for it.
        with tempfile.TemporaryDirectory(prefix="emulator-") as logs:
            pool = _processes(self.jobs, context, stopped, logs)
            try:
                at_once = self.jobs * (1 + _AHEAD)
                yield from _handed_over(pool, lambda: at_once, runs, stop, _OF_PROCESSES, _of_process)
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class LiveToo:
    """The runs of virtual time wherever `virtual` does them, then the live ones here, one after the other."""

    virtual: Pool

    def done(self, runs: Iterable[Run], stop: Callable[[], bool]) -> Iterator[Done]:
        from emulator.sweeps.execute import execute_live  # noqa: PLC0415 - compiles kernels

        others = _WithoutLive(runs)
        if others.are_there():
            yield from self.virtual.done(others, stop)
        yield from _one_by_one(others.live, stop, execute_live)


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """The workers of a Dask cluster, by the address of its scheduler. They need this package and the traces."""

    address: str

    def done(self, runs: Iterable[Run], stop: Callable[[], bool]) -> Iterator[Done]:
        try:
            import distributed  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ScenarioError(
                "--dask needs the package distributed: install this package with its extra, FILE.whl[dask]"
            ) from error
        try:
            client = distributed.Client(self.address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise ScenarioError(f"--dask {self.address}: no scheduler answers there: {error}") from error
        suspects: list[Run] = []

        def of_batch(future: Future[_Outcomes], runs: list[Run]) -> _Finished:
            if future.cancelled():
                raise OSError("it took back what it was given")
            if isinstance(future.exception(), distributed.KilledWorker):
                suspects.extend(runs)
                return [], 0
            return _of_task(future, runs)

        try:
            with client:
                pool = client.get_executor(pure=False)
                yield from _handed_over(pool, _AtOnce(client), runs, stop, _OF_DASK, of_batch)
                # What was on workers that died: each with no other run beside it, so that only the cause fails.
                yield from _handed_over(pool, lambda: 1, suspects, stop, _ALONE, _of_task)
        except OSError as error:
            raise ScenarioError(
                f"--dask {self.address}: the scheduler is gone ({error}); what is finished is kept: "
                "the same command goes on once there is one"
            ) from error


class _AtOnce:
    """How many batches the workers of a cluster get now, a few of them ahead: workers come and go."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked_us = self._found = 0

    def __call__(self) -> int:
        if (now_us := wall_us()) > self._asked_us + _ASKED_AGAIN_US:
            self._asked_us, self._found = now_us, sum(self._client.nthreads().values())
        return max(1, self._found) * (1 + _AHEAD)


def _handed_over(  # noqa: PLR0917
    pool: Executor,
    at_once: Callable[[], int],
    runs: Iterable[Run],
    stop: Callable[[], bool],
    batches: _Batches,
    finished: Callable[[Future[_Outcomes], list[Run]], _Finished],
) -> Iterator[Done]:
    """Give a pool `at_once` batches, and another one for each that is over."""
    waiting = iter(runs)
    pending: dict[Future[_Outcomes], list[Run]] = {}
    together = 1
    try:
        while not stop():
            while len(pending) < at_once() and (some := [*islice(waiting, together)]):
                pending[pool.submit(_work, [_text(run) for run in some])] = some
            if not pending:
                return
            over, _ = wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            for future in over:
                some = pending.pop(future)
                found, lasted_us = finished(future, some)
                if lasted_us:
                    together = batches.runs(len(some), lasted_us, length_hint(waiting) // at_once())
                yield from found
    finally:
        for future in pending:
            future.cancel()


class _WithoutLive:
    """The runs of virtual time, each taken when it is asked for; the others are put aside, in `live`."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = iter(runs)
        self._first: list[Run] = []
        self.live: list[Run] = []

    def are_there(self) -> bool:
        """Whether there is one."""
        self._first = [*islice(self, 1)]
        return bool(self._first)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Run:
        if self._first:
            return self._first.pop()
        for run in self._runs:
            if not run.is_live:
                return run
            self.live.append(run)
        raise StopIteration

    def __length_hint__(self) -> int:
        return len(self._first) + length_hint(self._runs)


def on_cores(
    function: Callable[[_Given], _Found],
    given: Sequence[_Given],
    jobs: int,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[_Found]:
    """What a function of a module makes of each, in their order, in so many processes; with one, here.

    `on_done` is told how many are over, after each.
    """

    def counted(results: Iterable[_Found]) -> list[_Found]:
        found: list[_Found] = []
        for each in results:
            found.append(each)
            on_done(len(found))
        return found

    if min(jobs, len(given)) < 2:  # noqa: PLR2004 - then a process would only cost
        return counted(map(function, given))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["emulator.sweeps.execute"])
    with tempfile.TemporaryDirectory(prefix="emulator-") as logs:
        pool = _processes(jobs, context, context.Event(), logs)
        try:
            return counted(pool.map(function, given))
        finally:
            pool.shutdown(cancel_futures=True)


def _processes(jobs: int, context: Any, stopped: Event, logs: str) -> ProcessPoolExecutor:
    """So many, which share the logs that they read, in the folder `logs`."""
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(stopped, logs))


def _of_process(future: Future[_Outcomes], runs: list[Run]) -> _Finished:
    """What a process of ours made of its runs. Raises ScenarioError if it died."""
    try:
        return _finished(future, runs)
    except BrokenProcessPool as error:
        raise ScenarioError(
            "a worker process died (out of memory?); what is finished is kept: start again with fewer --jobs"
        ) from error


def _of_task(future: Future[_Outcomes], runs: list[Run]) -> _Finished:
    """What a task of Dask's made of its runs."""
    try:
        return _finished(future, runs)
    except Exception as error:  # noqa: BLE001 - one bad run must not end the others; it is reported
        return [Done(run, None, _reason(error)) for run in runs], 0


def _finished(future: Future[_Outcomes], runs: list[Run]) -> _Finished:
    outcomes, lasted_us = future.result()
    return [Done(run, row, error) for run, (row, error) in zip(runs, outcomes, strict=True)], lasted_us


_stopped: Event | None = None
"""In a worker process: set when the sweep ends early."""


def _begin(stopped: Event, logs: str) -> None:
    global _stopped  # noqa: PLW0603 - a process pool has no other way to hand a lock to its workers
    _stopped = stopped
    FOLDER.set(Path(logs))
    # Ctrl-C goes to the whole process group; the parent decides what becomes of the runs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed sweep leaves no workers behind: nobody else would ever tell them to end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(scenarios: list[str]) -> _Outcomes:
    """Do these runs: a row or an error of each, and how long all took."""
    from emulator.sweeps.execute import RunStoppedError, execute  # noqa: PLC0415

    def go_on() -> bool:
        return _stopped is None or not _stopped.is_set()

    began_us = wall_us()
    found: list[tuple[dict[str, Any] | None, str]] = []
    for scenario in scenarios:
        try:
            found.append((execute(scenario, go_on), ""))
        except RunStoppedError:
            found.append((None, "stopped"))
        except Exception as error:  # noqa: BLE001 - one bad run must not end the others; it is reported
            found.append((None, _reason(error)))
    return found, wall_us() - began_us


def _one_by_one(
    runs: Iterable[Run],
    stop: Callable[[], bool],
    execute: Callable[[str, Callable[[], bool]], dict[str, Any]],
) -> Iterator[Done]:
    """Do the runs here and now."""
    from emulator.sweeps.execute import RunStoppedError  # noqa: PLC0415 - compiles kernels

    for run in runs:
        if stop():
            return
        try:
            row = execute(_text(run), lambda: not stop())
        except RunStoppedError:
            return
        except Exception as error:  # noqa: BLE001 - one bad run must not end the others; it is reported
            yield Done(run, None, _reason(error))
        else:
            yield Done(run, row)


def _text(run: Run) -> str:
    return json.dumps(run.scenario.as_json())


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
