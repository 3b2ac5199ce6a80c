"""Faults of a fleet of processes: steps of a scenario (`live.faults`), carried out at exactly their cluster times."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from balancer.clock import micros, wall_us
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock
from emulator.live.batch_system import ComesBack
from emulator.live.faults import FaultAction, Steps, steps_of
from emulator.live.names import BATCH
from emulator.live.process import FleetProcessError, read_ready
from emulator.record.run_record import Mark
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from emulator.clock.clock_master import SharedClockMaster
    from emulator.config.run_parts import FaultPart
    from emulator.live.faults import Step
    from emulator.live.process import FleetProcess

_POSSIBLE = {FaultAction.KILL, FaultAction.PAUSE}
_LIMIT_S = 120.0
_LOOK_S = 0.02


class Faulty(Protocol):
    """The fleet that steps are carried out on."""

    names: tuple[str, ...]
    work: Path
    processes: dict[str, FleetProcess]
    marks: list[Mark]

    @property
    def clock_file(self) -> Path: ...

    def start_again(self, name: str) -> FleetProcess:
        """A process that has been killed, with the settings that it had."""


def check_faults(
    faults: Sequence[FaultPart], batch: object, nodes: Collection[str], services: Collection[str]
) -> tuple[str, ...]:
    """The nodes that steps name, each of which gets an agent of its own. Raises ScenarioError.

    `batch`: the run's batch system; `nodes` and `services`: what a step may name.
    """
    if faults and not isinstance(batch, ComesBack):
        raise ScenarioError(
            "live.faults: not with this batch system, whose processes cannot be started again"
        )
    for place, fault in enumerate(faults):
        if FaultAction(fault.do) not in _POSSIBLE:
            raise ScenarioError(
                f"live.faults[{place}].do: {fault.do} needs a network of its own for each process, as in a fleet in"
                " containers (`emulator fleet up`); kill and pause are possible here"
            )
        if fault.target not in nodes and fault.target not in services:
            raise ScenarioError(
                f"live.faults[{place}].target: there is no {fault.target!r} here; "
                f"a node, or one of {', '.join(sorted(services))}"
            )
    named = {fault.target for fault in faults}
    return tuple(name for name in nodes if name in named)


class ProcessFaults:
    """How far a run has come with its steps. `look` is called again and again by who watches it."""

    def __init__(self, fleet: Faulty, batch: ComesBack, faults: Sequence[FaultPart], done: int = 0) -> None:
        """`done`: how many steps were done when the run was stopped, with which it goes on."""
        self._fleet = fleet
        self._batch = batch
        self._all = steps_of(faults)
        self._steps = Steps(self._all, done)
        self._absent: set[str] = set()
        """Nodes whose agents have been killed."""
        self._down: set[str] = set()
        self._pause = threading.Event()
        self._alarm = SharedClock(fleet.clock_file, name="faults").alarm(EventPriority.TIMER)
        self._alarm.set(self._steps.next_us())

    def is_away(self, name: str) -> bool:
        """A step has killed it, and it comes back, or it is a node, without which the run goes on."""
        return name in self._down and (name in self._fleet.names or self._comes_back(name))

    def _comes_back(self, name: str) -> bool:
        return any(
            step.target == name and step.action == FaultAction.START for step in self._all[self._steps.done :]
        )

    @property
    def done(self) -> int:
        return self._steps.done

    def look(self, clock: SharedClockMaster) -> bool:
        """Carry out what is due, when everything else that is due before it is done. The clock stands meanwhile.

        Whether there was something.
        """
        before = self._steps.done
        while (step := self._steps.due(clock.now_us())) is not None and self._alarm.wait(0):
            at_us = clock.now_us()
            why = self._carry_out(step, clock)
            text = f"not carried out: {step.text()}: {why}" if why else f"fault: {step.text()}"
            self._fleet.marks.append(Mark(at_us, text))
            self._steps.finish(step.number)
            self._alarm.set(self._steps.next_us())
        return self._steps.done > before

    def close(self) -> None:
        """No step is carried out any more, and the clock waits for none."""
        self._alarm.close()

    def _carry_out(self, step: Step, clock: SharedClockMaster) -> str:
        """Why it could not be; '' if it was."""
        name = step.target
        process = self._fleet.processes.get(name)
        if process is None or (process.exit_status is not None and name not in self._down):
            return "it has ended"
        match step.action:
            case FaultAction.KILL:
                process.kill()
                self._down.add(name)
            case FaultAction.START if name not in self._down:
                return "it runs"  # the run was stopped meanwhile, and has gone on with all its processes
            case FaultAction.START:
                process = self._fleet.start_again(name)
                self._down.discard(name)
            case FaultAction.PAUSE:
                process.pause()
                clock.excuse_process(name)
            case _:
                process.unpause()
                clock.expect_process(name)
        if name in self._fleet.names and step.action in {FaultAction.KILL, FaultAction.START}:
            (self._absent.add if step.action == FaultAction.KILL else self._absent.discard)(name)
        return self._wait(step, process)

    def _wait(self, step: Step, process: FleetProcess) -> str:
        """Until those whom it concerns know of it, since otherwise the run would depend on who is faster."""
        if step.action == FaultAction.START and step.target not in self._fleet.names:
            try:
                process.wait_until(lambda: self._is_ready(process))
            except FleetProcessError as error:
                return str(error)
        if step.action in {FaultAction.KILL, FaultAction.START} and BATCH not in self._down:
            end_us = wall_us() + micros(_LIMIT_S)
            while not self._batch.serves_all_but(len(self._absent)) and wall_us() < end_us:
                self._pause.wait(_LOOK_S)
        return ""

    def _is_ready(self, process: FleetProcess) -> bool:
        if process.name == BATCH:
            return self._batch.is_back()
        ready = read_ready(self._fleet.work / f"{process.name}.ready")
        return ready is not None and ready["pid"] == process.pid
