"""The controller of a fleet in containers: it paces the clock, tells every role its settings, and collects.

What `emulator/live/fleet.py` is for processes of one machine. A run belongs to the fleet's volume: a controller that
finds an unfinished one there goes on with it, clock, ledger, jobs and all; else it begins a new one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import requests

from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Role
from balancer.auth.tokens import TokenFile
from balancer.clock import micros, seconds, utc_us, wall_us
from balancer.plugin_files import files_of
from balancer.plugins import ALGORITHMS, IN_USE
from emulator.harness.mechanism import HasNotice, ability
from emulator.harness.record import Mark
from emulator.live.collect import STILL_WORKING, BatchSide, collect
from emulator.live.containers import settings
from emulator.live.containers.control import ControlServer, NotYet
from emulator.live.containers.faults import STILL, UNDO, Deed, Step, Steps, steps_of
from emulator.live.containers.names import (
    BALANCER,
    BALANCER_PORT,
    BATCH,
    BATCH_PORT,
    CONTROLLER_PORT,
    NODE,
    ONDEMAND,
    ONDEMAND_PORT,
    REPLAYER,
)
from emulator.live.containers.wanted import ControllerError, expected_nodes, read_scenario, slots_of
from emulator.live.counts import Counts
from emulator.live.failure import FailedPlans, Failure, read_failure
from emulator.live.replay_log import read_replay
from emulator.live.torque.accounting_read import read_accounting
from emulator.live.torque.protocol import request
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.ranks import Rank
from emulator.report import files
from emulator.report.progress import RunProgress
from emulator.runner import Prepared, describe, make_mechanism, prepare
from emulator.scenario import Scenario, ScenarioError, from_mapping
from emulator.shared_clock import SharedClock, SharedClockMaster
from emulator.workload import store
from emulator.workload.files import TraceError
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.harness.record import RunRecord

_EPOCH_S = 1_767_225_600
_LOOK_S = 0.1
_ASK_S = 5.0
_BROKEN_OFF_S = 0.2
_MORE_SLOTS = 32
"""Places at the clock beside those of the nodes: services, and those that died and were not noticed yet."""
_WITH_BALANCER, _WITHOUT = 4, 2
"""Batch server and replayer; Balancer and on-demand manager."""
_RETURN_US = 90_000_000
"""How long (wall time) a controller that goes on with a run waits for the others to come back."""
_STEP_US = 60_000_000
"""A fault that nobody carries out within this wall time is given up."""
_GONE_US = 300_000_000
"""A batch server that has not answered for this long (wall time) ends the run."""


@dataclass(slots=True)
class State:
    """What a controller must know to go on with a run; a file of the volume."""

    run: str
    scenario: dict[str, Any]
    nodes: int
    node_names: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    token: str = ""
    marks: list[tuple[int, str]] = field(default_factory=list)
    steps_done: int = 0
    wall_us: int = 0
    over: bool = False

    def save(self, path: Path) -> None:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self)), encoding="utf-8")
        beside.replace(path)


class Controller:
    """One run, or the rest of one. Also what `collect` reads the run from."""

    def __init__(
        self, shared: settings.Shared, scenario: Scenario, state: State, clock: SharedClockMaster
    ) -> None:
        mechanism = make_mechanism(scenario)
        self.prepared: Prepared = prepare(scenario)
        self._slots_per_node = slots_of(scenario, self.prepared, mechanism)
        self._in_batch: HasNotice | bool = False
        if mechanism is not None and not isinstance(mechanism, BalancerMechanism):
            self._in_batch = ability(mechanism, HasNotice) or True
            mechanism = None
        if mechanism is not None and mechanism.predictor is not None:
            raise ScenarioError(
                "a predictor has no container yet; use `emulator run --clock live`, or `balancer predict`"
            )
        if mechanism is not None and mechanism.static_reserve > state.nodes:
            raise ScenarioError(
                f"balancer: static_reserve is {mechanism.static_reserve}, the fleet has {state.nodes} nodes"
            )
        self._shared = shared
        self._scenario = scenario
        self._mechanism = mechanism
        self._state = state
        self._clock = clock
        self._lock = threading.RLock()
        self._steps = Steps(steps_of(scenario.live.faults), state.steps_done)
        self._step_since_us: int | None = None
        self._is_resumed = bool(state.passed)
        self._keys = HookKeyFile(shared.hook_keys)
        self._progress: dict[str, int] = {}
        self._failed_plans = FailedPlans(f"http://{BALANCER}:{BALANCER_PORT}")
        self._seen_us = wall_us()
        self.now_us = 0

    # What `collect` reads.

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._state.node_names)

    @property
    def marks(self) -> list[Mark]:
        return [Mark(at_us, text) for at_us, text in self._state.marks]

    @property
    def epoch_s(self) -> int:
        return _EPOCH_S

    @property
    def batch_home(self) -> Path:
        return self._shared.batch_home

    @property
    def replay_log(self) -> Path:
        return self._shared.replay_log

    @property
    def ledger(self) -> str | Path | None:
        if self._mechanism is None:
            return None
        return os.environ.get("FLEET_LEDGER") or (
            self._shared.ledger if self._shared.ledger.exists() else None
        )

    @property
    def results_name(self) -> str:
        return f"{self._scenario.name}-live"

    @property
    def threshold_s(self) -> float:
        return self._scenario.results.bounded_slowdown_threshold_s

    # What containers and people ask (`control.py` calls these from its threads).

    def start_settings(self, role: str, name: str | None) -> dict[str, Any]:
        """The settings of a role that may start now. Raises NotYet, with what it waits for."""
        shared, scenario, mechanism = self._shared, self._scenario, self._mechanism
        environ = dict(settings.ENVIRONMENT.get(role, {}))
        if role == NODE:
            if name is None:
                raise ValueError("a node must say its name")
            return {
                "config": settings.node(name, np=self._slots_per_node, hooked=mechanism is not None),
                "files": self._node_files(name),
            }
        if role == BATCH:
            config = settings.batch(
                scenario,
                shared,
                self._state.nodes,
                _EPOCH_S,
                np=self._slots_per_node,
                with_mechanism=bool(self._in_batch),
            )
            return settings.with_plugins(scenario.plugins, config)
        facts = self._facts()
        if role == REPLAYER:
            if mechanism is not None:
                self._pass(ONDEMAND, self._ondemand_answers)
            real_jobs = scenario.live.jobs == "emulator-job"
            config = settings.replayer(mechanism, shared, facts, in_batch=self._in_batch, real_jobs=real_jobs)
            return {"config": config, "environ": environ}
        if mechanism is None:
            return {"config": {}, "needed": False}
        if role == BALANCER:
            with scenario.plugged_in():
                plugins = files_of(IN_USE.get(), (ALGORITHMS,))
            config = settings.balancer(mechanism, shared, facts)
            return settings.with_plugins(plugins, config) | {"environ": environ}
        self._pass(BALANCER, self._balancer_answers)
        return {"config": settings.ondemand(mechanism, shared, facts)}

    def _node_files(self, name: str) -> Mapping[str, str]:
        if self._mechanism is None:
            return {}
        with self._lock:
            # The first call makes the master key; the others are answered without a look at the file's lock.
            key = next(iter(self._keys.keys_of(name)), None) or self._keys.issue(name)
        return {"hook.key": f"{name} {key.hex()}\n", "hook.env": settings.hook_environment()}

    def _facts(self) -> settings.Facts:
        self._pass(BATCH, self._batch_is_whole)
        ledger = os.environ.get("FLEET_LEDGER") or str(self._shared.ledger)
        return settings.Facts(self.names, ledger, self._state.token, _EPOCH_S)

    def _pass(self, gate: str, check: Any) -> None:
        """Everybody starts after those it needs; once only, since later they may come and go."""
        with self._lock:
            if gate not in self._state.passed:
                check()
                self._state.passed.append(gate)
                self._state.save(self._shared.state)

    def _batch_is_whole(self) -> None:
        found = self._ask_batch("nodes")
        if not found["open"]:
            raise NotYet(f"{len(found['nodes'])} of {found['expected']} nodes have registered")
        if not self._ask_batch("state")["all_nodes_up"]:
            raise NotYet("not all nodes are up")  # the Balancer takes no node that is down
        self._state.node_names = list(found["nodes"])

    def _ask_batch(self, what: str) -> dict[str, Any]:
        try:
            found = request((BATCH, BATCH_PORT), {"do": what})
        except OSError as error:
            raise NotYet(f"the batch server does not answer: {error}") from error
        self._seen_us = wall_us()
        return found

    def _balancer_answers(self) -> None:
        _must_answer(f"http://{BALANCER}:{BALANCER_PORT}/healthz", "the Balancer")

    def _ondemand_answers(self) -> None:
        _must_answer(f"http://{ONDEMAND}:{ONDEMAND_PORT}/identity/v3", "the on-demand manager")

    def status(self) -> dict[str, Any]:
        """For people, and for who carries out faults."""
        with self._lock:
            now_us = self._clock.now_us()
            step = self._steps.due(now_us)
            return {
                "run": self._state.run,
                "scenario": self._scenario.name,
                "nodes": self._state.nodes,
                "cluster_time_s": seconds(now_us),
                "running": self._state.passed[-1:] == [REPLAYER],
                **self._progress,
                "marks": [{"at_s": seconds(at_us), "text": text} for at_us, text in self._state.marks],
                "fault": None if step is None else step.as_json(),
                "over": self._state.over,
            }

    def mark(self, text: str, *, fault: int | None, deed: str | None, host: str | None) -> dict[str, Any]:
        """Note what somebody did to the fleet; the clock waits no longer for a host that cannot answer."""
        with self._lock:
            at_us = self._clock.now_us()
            if host is not None and deed is not None:
                if Deed(deed) in STILL:
                    self._clock.excuse(host)
                elif Deed(deed) in {UNDO[each] for each in STILL}:
                    self._clock.expect(host)
            if fault is None or self._steps.finish(fault):
                self._state.marks.append((at_us, text))
                self._state.steps_done = self._steps.done
                self._step_since_us = None
            self._state.save(self._shared.state)
            return {"at_s": seconds(at_us)}

    # The run.

    def run(self, stopped: threading.Event) -> str | None:
        """Until everything has happened. Returns why it ended early, '' if it did not; None: told to stop."""
        own = SharedClock(self._shared.clock)
        alarm = own.alarm(Rank.TIMER)
        alarm.set(self._steps.next_us())
        if not self._wait_for_replayer(stopped):
            return None
        began_us = wall_us() - self._state.wall_us
        jobs = self.prepared.jobs
        batch_jobs = len(jobs) if self._in_batch else int((jobs.kind == Kind.BATCH).sum())
        counts = Counts(self.batch_home, self.replay_log)
        looked_us = wall_us()
        self._clock.start()
        with RunProgress(jobs=len(jobs), end_us=int(jobs.submit_us.max(initial=0))) as progress:
            while not stopped.wait(_LOOK_S):
                is_replayed = self._is_replayed()  # before its last lines are read
                counts.look()
                self._progress = {
                    "jobs_ended": counts.ended,
                    "granted": counts.granted,
                    "rejected": counts.rejected,
                }
                progress.update(self._clock.now_us(), counts.ended, counts.granted, counts.rejected)
                if is_replayed and (counts.ended >= batch_jobs - counts.failed or self._is_stuck()):
                    self._state.wall_us = wall_us() - began_us
                    # It may have failed since it was last looked at.
                    return self._failed_plans.look() if self._mechanism is not None else ""
                if self.failure:
                    return self.failure.reason
                if self._mechanism is not None and (failed_plan := self._failed_plans.now_and_then()):
                    return failed_plan
                self._see_to_steps()
                alarm.set(self._steps.next_us())
                if wall_us() - looked_us > micros(_ASK_S):
                    looked_us = wall_us()
                    self._state.wall_us = looked_us - began_us
                    if reason := self._trouble():
                        return reason
        return None

    def _wait_for_replayer(self, stopped: threading.Event) -> bool:
        """Until time may begin; or go on, with all of them back or without those that stay away."""
        since_us = wall_us()
        while not self._shared.replayer_ready.exists() or (
            self._is_resumed and self._clock.living() <= self._places and wall_us() - since_us < _RETURN_US
        ):
            if self.failure:
                return True  # as the run began; `run` tells
            if stopped.wait(_LOOK_S):
                return False
        with self._lock:
            if REPLAYER not in self._state.passed:
                self._state.passed.append(REPLAYER)
                self._state.save(self._shared.state)
        return True

    @property
    def _places(self) -> int:
        """Who has a place at the clock, beside the controller."""
        return self._state.nodes + (_WITH_BALANCER if self._mechanism is not None else _WITHOUT)

    @property
    def failure(self) -> Failure | None:
        """A plug-in that failed in the batch server."""
        return read_failure(self.batch_home)

    def _is_replayed(self) -> bool:
        return self.replay_log.exists() and not read_replay(self.replay_log).interrupted

    def _is_stuck(self) -> bool:
        """A mechanism may leave jobs waiting for good: nothing more will happen then, as in virtual time."""
        try:
            return bool(self._in_batch) and bool(self._ask_batch("state")["is_over"])
        except NotYet:
            return False

    def _trouble(self) -> str:
        """What makes the run pointless."""
        try:
            self._ask_batch("nodes")
        except NotYet as error:
            if wall_us() - self._seen_us > _GONE_US:
                return str(error)
        live, longest_s = self._scenario.live, seconds(self._clock.pace.longest_hold_us)
        if live.pace == "strict" and longest_s > live.max_lag_s:
            return f"the machine cannot keep up: {longest_s:.3f} s behind (live.max_lag_s is {live.max_lag_s:g} s)"
        return ""

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
                text = f"not carried out: {step.text()} (nobody follows this fleet: `emulator fleet follow`)"
                self.mark(text, fault=step.number, deed=None, host=None)

    def record(self, reason: str) -> RunRecord:
        """Let everything stand still and collect."""
        failure = self.failure  # then its process holds the clock for good
        all_done = self._clock.freeze(_BROKEN_OFF_S) if failure else self._clock.freeze()
        self.now_us = self._clock.now_us()
        pace = asdict(self._clock.pace) | {"speed": self._clock.speed}
        try:
            exported = self._ask_batch("export")
            if "record" in exported:
                batch = BatchSide([], [], exported["record"])
            else:
                batch = BatchSide(exported["jobs"], exported["offline"])
        except NotYet:
            log = self.batch_home / "server_priv" / "accounting"
            batch = BatchSide(read_accounting(log, self.names, _EPOCH_S), None)
        # Who waits for a server that is gone waits in vain.
        if not all_done and batch.offline is not None and not failure:
            self._state.marks.append((self.now_us, STILL_WORKING))
        record = collect(self, batch, reason)
        return describe(record, self._scenario, self.prepared, wall_s=seconds(self._state.wall_us), pace=pace)

    def keep_job_output(self, scratch: Path, folder: Path) -> None:
        """What real jobs printed goes with the results."""
        if self._scenario.live.jobs == "emulator-job":
            folder.mkdir(parents=True)
            for path in sorted(scratch.glob("j*.[oe]*")):
                shutil.copyfile(path, folder / path.name)

    def leave(self) -> None:
        """Told to stop in the middle: the clock stands, and what is there waits for the next controller."""
        self._clock.stand()
        with self._lock:
            self._state.save(self._shared.state)

    def finish(self) -> None:
        """The run is over for everybody."""
        with self._lock:
            self._state.over = True
            self._state.save(self._shared.state)
        self._clock.stop()


def _must_answer(url: str, who: str) -> None:
    try:
        if requests.get(url, timeout=5).ok:
            return
    except requests.RequestException:
        pass  # said below
    raise NotYet(f"{who} does not answer yet")


def begin(shared: settings.Shared) -> Controller:
    """A new run, or the one that was broken off in this volume."""
    wanted = read_scenario()
    if shared.state.exists():
        state = State(**json.loads(shared.state.read_text(encoding="utf-8")))
        state.marks = [(int(at_us), str(text)) for at_us, text in state.marks]
        known = wanted.model_copy(update={"nodes": state.nodes}).as_json() == state.scenario
        if not state.over and known and shared.clock.exists():
            clock = SharedClockMaster.resume(shared.clock)
            state.marks.append((clock.now_us(), "the controller was started again"))
            sys.stderr.write(f"controller: goes on with run {state.run} at {seconds(clock.now_us()):.0f} s\n")
            return Controller(shared, from_mapping(state.scenario), state, clock)
    for folder in (shared.root, Path(settings.SCRATCH)):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    nodes = expected_nodes()
    scenario = wanted.model_copy(update={"nodes": nodes})
    state = State(run=uuid4().hex[:12], scenario=scenario.as_json(), nodes=nodes)
    _, state.token = TokenFile(shared.tokens).create(Role.ON_DEMAND, "fleet", now_us=utc_us())
    clock = SharedClockMaster(
        shared.clock, speed=scenario.live.speed, held=scenario.live.pace == "held", slots=nodes + _MORE_SLOTS
    )
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
    shared = settings.Shared()
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
    with ControlServer(("0.0.0.0", CONTROLLER_PORT), controller):  # noqa: S104 - the fleet's own network
        reason = controller.run(stopped)
        if reason is None:
            controller.leave()
            return 128 + signals[0]
        record = controller.record(reason)
        name = controller.results_name
        files.write(record, shared.results / name, bounded_slowdown_threshold_s=controller.threshold_s)
        controller.keep_job_output(Path(settings.SCRATCH), shared.results / name / files.LOGS / "jobs")
        sys.stderr.write(f"controller: {reason or 'done'}; results in runs/{name}\n")
        controller.finish()
        return int(bool(reason))


if __name__ == "__main__":
    sys.exit(main())
