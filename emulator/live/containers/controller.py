"""The controller of a fleet in containers: it paces the clock, tells every role its settings, and collects.

What `emulator/live/fleet.py` is for processes of one machine. A run belongs to the fleet's volume: a controller that
finds an unfinished one there goes on with it, clock, ledger, jobs and all; else it begins a new one.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from balancer.auth.identity import Role
from balancer.auth.tokens import TokenFile
from balancer.clock import micros, seconds, utc_us, wall_us
from emulator.clock.clock_server import ClockServer
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock
from emulator.live import roles
from emulator.live.containers.control import ControlServer, NotYet
from emulator.live.containers.startup import (
    BALANCER_URL,
    ContainerBatch,
    ControllerError,
    StartupCoordinator,
    check_containers,
    expected_nodes,
    read_scenario,
)
from emulator.live.failure import DiskGuard, FailedPlans
from emulator.live.faults import STILL, UNDO, FaultAction, Step, Steps, steps_of
from emulator.live.folder_copy import FolderServer
from emulator.live.names import (
    BATCH,
    CLOCK_PORT,
    CONTROLLER,
    CONTROLLER_PORT,
    MADE,
    REPLAYER,
    SCRATCH,
    SCRATCH_PORT,
    SHARED,
    endpoint_lines,
)
from emulator.live.replay_log import read_replay
from emulator.live.resume import ResumableRun
from emulator.live.run_files import RunFiles, State, forgotten
from emulator.live.watch import WENT_ON, LiveRun
from emulator.record.run_record import Mark
from emulator.report import files
from emulator.runs.preparation import prepare
from emulator.runs.runner import describe
from emulator.runs.scenario import Scenario, ScenarioError
from emulator.workload import store
from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from emulator.clock.clock_master import SharedClockMaster
    from emulator.live.replay_log import Counts
    from emulator.record.run_record import RunRecord

_LOOK_S = 0.1
_ASK_S = 5.0
_MORE_SLOTS = 32
"""Places at the clock beside those of the nodes: services, and those that died and were not noticed yet."""
_RETURN_US = 90_000_000
"""How long (wall time) a controller that goes on with a run waits for the next of the others to come back."""
_STEP_US = 60_000_000
"""A fault that nobody carries out within this wall time is given up."""
_GONE_US = 300_000_000
"""A batch server that has not answered for this long (wall time) ends the run."""


class _Stopped(Exception):
    """The run is to stand still until somebody goes on with it."""


class Controller(LiveRun):
    """A live run in containers, or the rest of one."""

    _batch: ContainerBatch

    def __init__(self, shared: RunFiles, scenario: Scenario, state: State, clock: SharedClockMaster) -> None:
        check_containers(scenario)
        resumable = ResumableRun(shared.root, state, is_resumed=bool(state.passed))
        # Any container may be killed and started.
        super().__init__(scenario, prepare(scenario), shared, resumable, comes_back=True)
        self._state = state
        self._clock = clock
        self._lock = threading.RLock()
        self._steps = Steps(steps_of(scenario.live.faults), state.steps_done)
        self._step_since_us: int | None = None
        self._is_resumed = resumable.is_resumed
        self._is_paced = False
        self._stays_away: tuple[set[str], int] = (set(), 0)
        """Who was missing when a run goes on, and since when (wall time) exactly these are."""
        self._batch = ContainerBatch(shared, state, batch_decides=self.batch_decides)
        self._startup = StartupCoordinator(shared, state, self.run_settings, self._batch)
        self._progress: dict[str, int] = {}
        if self.mechanism is not None:
            self._failed_plans = FailedPlans(BALANCER_URL)

    @property
    def ledger(self) -> str | Path | None:
        if self.mechanism is None:
            return None
        return os.environ.get("FLEET_LEDGER") or (self._files.ledger if self._files.ledger.exists() else None)

    @property
    def steps_done(self) -> int:
        return self._steps.done

    def note_progress(self) -> None:
        with self._lock:
            super().note_progress()

    # What containers and people ask (`control.py` calls these from its threads).

    def start_settings(self, role: str, name: str | None) -> dict[str, Any]:
        """The settings of a role that may start now. Raises NotYet, with what it waits for."""
        return self._startup.start_settings(role, name)

    def status(self) -> dict[str, Any]:
        """For people, and for who carries out faults."""
        with self._lock:
            now_us = self._clock.now_us()
            step = self._steps.due(now_us)
            return {
                "run": self._state.run,
                "scenario": self.scenario.name,
                "nodes": self._state.nodes,
                "cluster_time_s": seconds(now_us),
                "running": self._state.passed[-1:] == [REPLAYER],
                "waits_for": self._startup.waits_for,
                "held_by": [
                    {"name": str(holder.party), "for_s": seconds(holder.for_us)}
                    for holder in self._clock.holders()
                ],
                "silent": [str(party) for party in self._clock.silent()],
                **self._progress,
                "marks": [{"at_s": seconds(mark.at_us), "text": mark.text} for mark in self.marks],
                "fault": None if step is None else step.as_json(),
                "over": self._state.over,
                "viewer_token": self._viewer_token,
            }

    @property
    def _viewer_token(self) -> str:
        """With which people look at the Balancer; '' where there is none."""
        return "" if self.mechanism is None else self._state.viewer_token

    def mark(self, text: str, *, fault: int | None, action: str | None, host: str | None) -> dict[str, Any]:
        """Note what somebody did to the fleet; the clock waits no longer for a host that cannot answer."""
        with self._lock:
            at_us = self._clock.now_us()
            if host is not None and action is not None:
                if FaultAction(action) in STILL:
                    self._clock.excuse(host)
                elif FaultAction(action) in {UNDO[each] for each in STILL}:
                    self._clock.expect(host)
            if fault is None or self._steps.finish(fault):
                self.marks.append(Mark(at_us, text))
                self._step_since_us = None
            self.note_progress()
            return {"at_s": seconds(at_us)}

    # The run.

    def wait_for_start(self, stopped: threading.Event) -> str | None:
        """Until time may begin or go on. Why it cannot, '' if it can; None: told to stop."""
        asked_us = since_us = wall_us()
        while not self._files.ready(REPLAYER).exists() or (self._is_resumed and not self._are_back(since_us)):
            if self.failure:
                return ""  # as the run began; `run` tells
            if stopped.wait(_LOOK_S):
                return None
            if wall_us() - asked_us > micros(_ASK_S):
                asked_us = wall_us()
                if (lost := self._startup.lost_at_start()) and not self._continue_without_missing_nodes():
                    return lost
                if self._is_resumed and BATCH in self._missing() and asked_us - since_us > _GONE_US:
                    return f"the batch server did not come back within {seconds(_GONE_US):.0f} s"
        with self._lock:
            if REPLAYER not in self._state.passed:
                self._state.passed.append(REPLAYER)
                self.note_progress()
        return ""

    def _continue_without_missing_nodes(self) -> bool:
        """$FLEET_MISSING=down: who has not come is down from the beginning."""
        if os.environ.get("FLEET_MISSING") != "down":
            return False
        try:
            names = self._startup.go_on_without_lost()
        except (NotYet, OSError):
            return False
        for name in names:
            self._mark_now(f"{name} has not come: the run begins without it")
        return bool(names)

    def _missing(self) -> set[str]:
        """Who had a place at the clock and is not back."""
        there = {party.name for party in self._clock.living()}
        return self._startup.parties - there - ({REPLAYER} if self.is_replayed() else set())

    def _are_back(self, since_us: int) -> bool:
        """A clock that goes on waits for all for whom it waited at first; at last without those that stay away."""
        missing = self._missing() or self._startup.unresponsive_services()
        if not missing:
            return True
        if missing != self._stays_away[0]:
            self._stays_away = missing, wall_us()  # somebody has come: the others may still be on their way
        passed_us = wall_us() - max(since_us, self._stays_away[1])
        if passed_us < _RETURN_US or BATCH in missing:
            return False
        for name in sorted(missing):
            self._mark_now(
                f"{name} did not come back within {seconds(passed_us):.0f} s: the run goes on without it"
            )
        return True

    def _mark_now(self, text: str) -> None:
        self.annotate(self._clock.now_us(), text)

    def run(self, stopped: threading.Event) -> str | None:
        """Until everything has happened. Returns why it ended early, '' if it did not; None: told to stop."""
        alarm = SharedClock(self._files.clock, name=CONTROLLER).alarm(EventPriority.TIMER)
        alarm.set(self._steps.next_us())
        self._alarm, self._stopped = alarm, stopped
        self.names = tuple(self._state.node_names)  # all have come
        self._began_us = self._looked_us = wall_us()
        for door in endpoint_lines(os.environ, self._viewer_token):
            sys.stderr.write(f"controller: {door}\n")
        self._clock.start()
        self._is_paced = True
        try:
            return self.watch(stopped, quiet=False)
        except _Stopped:
            return None

    def abort_reason(self) -> str:
        """Why the run must end now, or ''. Raises _Stopped when it is to stand still."""
        if self._stopped.is_set():
            raise _Stopped
        if why := super().abort_reason():
            return why
        self._see_to_steps()
        self._alarm.set(self._steps.next_us())
        if wall_us() - self._looked_us < micros(_ASK_S):
            return ""
        self._looked_us = wall_us()
        try:
            self._startup.ask_batch("nodes")
        except NotYet as error:
            age_us = wall_us() - self._batch.seen_us
            if age_us > _GONE_US:
                return f"{error}, for {seconds(age_us):.0f} s"
        return ""

    def is_replayed(self) -> bool:
        return self.replay_log.exists() and not read_replay(self.replay_log).interrupted

    def annotate(self, at_us: int, text: str) -> None:
        sys.stderr.write(f"controller: {text}\n")
        super().annotate(at_us, text)

    def report_progress(self, counts: Counts) -> None:
        self._progress = {
            "jobs_ended": counts.ended,
            "granted": counts.granted,
            "rejected": counts.rejected,
        }

    def _see_to_steps(self) -> None:
        """A step that is due is in `status` until somebody has done it; not for ever."""
        with self._lock:
            step: Step | None = self._steps.due(self._clock.now_us())
            if step is None:
                return
            if self._step_since_us is None:
                self._step_since_us = wall_us()
                sys.stderr.write(f"controller: fault due: {step.text()}\n")
            elif wall_us() - self._step_since_us > _STEP_US:
                text = f"not carried out: {step.text()} (no controller follows this fleet: `emulator fleet follow`)"
                self.mark(text, fault=step.number, action=None, host=None)

    def record(self, reason: str) -> RunRecord:
        """Let everything stand still and collect."""
        wall_s = seconds(self.wall_us)
        record, pace = self.collect(reason)
        return describe(record, self.scenario, self.prepared, wall_s=wall_s, pace=pace)

    def end_processes(self) -> None:
        """They end with their containers, when the run is over."""

    def keep_job_output(self, scratch: Path, folder: Path) -> None:
        """What real jobs printed goes with the results."""
        if self.scenario.live.jobs == "emulator-job":
            folder.mkdir(parents=True)
            for path in sorted(scratch.glob("j*.[oe]*")):
                shutil.copyfile(path, folder / path.name)

    def leave(self) -> None:
        """Told to stop in the middle: the clock stands, and what is there waits for the next controller.

        First all that is due by now is dealt with. Where the controller is stopped before the others, as Compose does,
        nothing is then under way between them.
        """
        if self._is_paced:
            self._clock.freeze()
        self._clock.stand()
        self.note_progress()

    def finish(self) -> None:
        """The run is over for everybody."""
        with self._lock:
            self._state.over = True
            self.note_progress()
        self._clock.stop()


def begin(shared: RunFiles) -> Controller:
    """A new run, or the one that was broken off in this volume."""
    requested = read_scenario()
    check_containers(requested)  # before anything is forgotten
    if shared.state.exists():
        state = State.load(shared.state)
        known = requested.model_copy(update={"nodes": state.nodes}).as_json() == state.scenario
        if not state.over and known and shared.clock.exists():
            clock = roles.resumed_clock(requested.live, shared.clock)
            state.marks.append((clock.now_us(), WENT_ON))
            sys.stderr.write(f"controller: goes on with run {state.run} at {seconds(clock.now_us()):.0f} s\n")
            go_on = requested.model_copy(update={"nodes": state.nodes})  # the same, as above
            return Controller(shared, go_on, state, clock)
        if not state.over:
            sys.stderr.write(f"controller: {forgotten(state, requested)}\n")
    nodes = expected_nodes()
    for folder in (shared.root, Path(SCRATCH)):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if shortage := DiskGuard(shared.root).shortage():
        raise ControllerError(shortage)
    scenario = requested.model_copy(update={"nodes": nodes})
    state = State(run=uuid4().hex[:12], scenario=scenario.as_json(), nodes=nodes)
    state.token = roles.issue_token(shared)
    _, state.viewer_token = TokenFile(shared.tokens).create(Role.READ_ONLY, "viewer", now_us=utc_us())
    clock = roles.new_clock(scenario.live, shared.clock, nodes + _MORE_SLOTS)
    controller = Controller(shared, scenario, state, clock)
    store.save(controller.prepared.jobs, shared.workload)
    state.save(shared.state)
    sys.stderr.write(
        f"controller: run {state.run}: {scenario.name}, {nodes} nodes, speed {scenario.live.speed:g}\n"
    )
    return controller


def main() -> int:
    """Exit status: 0, 1 when the run broke off, 2 for bad input, 128 + signal when it was told to stop."""
    os.umask(0o002)
    shared = RunFiles(SHARED)
    stopped = threading.Event()
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        controller = begin(shared)
    except (ScenarioError, TraceError, ControllerError, ValueError) as error:
        sys.stderr.write(f"controller: {error}\n")
        return 2
    with (
        ControlServer(("0.0.0.0", CONTROLLER_PORT), controller),  # noqa: S104 - the fleet's own network
        ClockServer(("0.0.0.0", CLOCK_PORT), shared.clock),  # noqa: S104 - as above
        FolderServer(("0.0.0.0", SCRATCH_PORT), Path(SCRATCH)),  # noqa: S104 - as above
    ):
        problem = controller.wait_for_start(stopped)
        if problem:
            sys.stderr.write(f"controller: the run cannot begin: {problem}\n")
            controller.finish()
            return 1
        reason = None if problem is None else controller.run(stopped)
        if reason is None:
            controller.leave()
            return 128 + signals[0]
        record, results = controller.record(reason), controller.scenario.results
        name = f"{controller.scenario.name}-live"
        files.write(record, MADE / name, bounded_slowdown_threshold_s=results.bounded_slowdown_threshold_s)
        controller.keep_job_output(Path(SCRATCH), MADE / name / files.LOGS / "jobs")
        sys.stderr.write(f"controller: {record.interrupted or 'done'}; results in runs/{name}\n")
        controller.finish()
        return int(bool(record.interrupted))


if __name__ == "__main__":
    sys.exit(main())
