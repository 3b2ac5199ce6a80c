"""A live run on one machine: the Balancer, a batch server, node agents, an on-demand manager and a replayer.

Each is a process of its own; they talk over loopback and share a clock file. This module starts them in order,
lets the clock run, watches, and collects what happened (`emulator/live/collect.py`).
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Role
from balancer.auth.tokens import TokenFile
from balancer.clock import micros, seconds, utc_us, wall_us
from balancer.plugin_files import files_of
from balancer.plugins import ALGORITHMS, IN_USE, PREDICTORS
from emulator.clock_file import SLOTS
from emulator.clock_master import SharedClockMaster
from emulator.harness.decisions import default_node_names
from emulator.harness.machine import HasSlots, tells_work
from emulator.harness.mechanism import HasMachine, ability
from emulator.harness.record import Mark
from emulator.live import services, shares
from emulator.live.batch_system import ComesBack, make_batch_system
from emulator.live.clock_cost import with_cost
from emulator.live.collect import STILL_WORKING, collect, replayed
from emulator.live.failure import FailedPlans
from emulator.live.fleet_process import FleetProcess, FleetProcessError, read_ready
from emulator.live.guard import Guard
from emulator.live.ondemand_system import make_ondemand_system
from emulator.live.process import lasting_port
from emulator.live.process_faults import BATCH, ProcessFaults, check_faults
from emulator.live.qsub import SUBMITTERS
from emulator.live.watch import lag, watch
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.runner import UNDER_WAY, check_live, describe, make_machine, make_mechanism
from emulator.scenario import ScenarioError
from emulator.workload import store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from balancer.plugin_files import PluginFile
    from emulator.harness.record import RunRecord
    from emulator.live.counts import Counts
    from emulator.mechanisms.balancer.forecast import PredictorSettings
    from emulator.report.watch_page import WatchPage
    from emulator.runner import Prepared
    from emulator.scenario import Scenario

_BROKEN_OFF_S = 0.2
"""A plug-in has failed: its process holds the clock for good, nobody has to be waited for."""


class FleetError(RuntimeError):
    """The fleet could not be started or broke; the message says which process and where its log is."""


def run_live(
    scenario: Scenario,
    prepared: Prepared,
    work: Path,
    interrupted: Any,
    *,
    quiet: bool = False,
    page: WatchPage | None = None,
) -> RunRecord:
    """Run the scenario live. `interrupted` is true (with a `reason`) once the user wants it to end.

    `work` is an empty folder for everything the processes write; their logs are in WORK/logs. Raises
    FleetError; no process is left behind in any case. A run that breaks off half-way leaves a record that
    says why (`interrupted`).
    """
    fleet = Fleet(scenario, prepared, work, page)
    try:
        return fleet.run(interrupted, quiet=quiet)
    except (FleetProcessError, shares.CalibrationError) as error:
        raise FleetError(str(error)) from error


class Fleet:
    """One live run. Everything it writes is below `work`."""

    def __init__(
        self, scenario: Scenario, prepared: Prepared, work: Path, page: WatchPage | None = None
    ) -> None:
        check_live(scenario, prepared)
        mechanism = make_mechanism(scenario)
        system, cloud = make_batch_system(scenario), make_ondemand_system(scenario)
        self.batch_decides = mechanism is not None and not isinstance(mechanism, BalancerMechanism)
        """The batch server has the mechanism: every one but the Balancer, which is a service of its own."""
        self.slots_per_node, slotted, machine = 1, None, None
        if ability(mechanism, HasMachine) is not None:  # type: ignore[type-abstract]
            # What it cannot run is an error before anything has begun.
            machine = make_machine(scenario, prepared, mechanism)
            if scenario.live.jobs == "emulator-job" and not tells_work(machine):
                problem = "the mechanism's machine does not tell how far its jobs are; use sleep"
                raise ScenarioError(f"live.jobs: {problem}")
            slotted = ability(machine, HasSlots)  # type: ignore[type-abstract]
            self.slots_per_node = 1 if slotted is None else slotted.slots_per_node
        if scenario.live.jobs == "cpu-bound":
            shares.check_possible(scenario.live, prepared.jobs, slotted)
        system.check(scenario, prepared, mechanism, machine)
        cloud.check_leases(scenario, prepared, mechanism)
        if not isinstance(mechanism, BalancerMechanism):
            mechanism = None
        if mechanism is not None and mechanism.static_reserve > prepared.nodes:
            raise ScenarioError(
                f"balancer: static_reserve is {mechanism.static_reserve}, the cluster has {prepared.nodes} nodes"
            )
        self.scenario = scenario
        self.prepared = prepared
        self.mechanism = mechanism
        self.work = work
        self.logs = work / "logs"
        self.bin = work / "bin"
        self.names = default_node_names(prepared.nodes)
        self.marks: list[Mark] = []
        self.processes: dict[str, FleetProcess] = {}
        self._guard: Guard | None = None
        self._failed_plans: FailedPlans | None = None
        self.balancer_url = ""
        self.token = ""
        self.now_us = 0
        self._page = page
        self._batch, self._ondemand = system.at(self), cloud.at(self)
        self.apart = check_faults(scenario.live.faults, self._batch, self.names, self._services())
        self._faults: ProcessFaults | None = None
        self.logs.mkdir()

    def _services(self) -> set[str]:
        """What a fault may be done to besides nodes."""
        if self.mechanism is None:
            return {"batch", "replayer"}
        predictor = {"predictor"} if self.mechanism.forecasts is not None else set()
        return {"batch", "replayer", "balancer"} | predictor | self._ondemand.names

    def run(self, interrupted: Any, *, quiet: bool) -> RunRecord:
        live = self.scenario.live
        began_us = wall_us()
        held, patience_us = live.pace == "held", micros(live.patience_s)
        clock = SharedClockMaster(
            self.clock_file,
            speed=live.speed,
            held=held,
            slots=SLOTS + len(self.apart),
            patience_us=patience_us,
        )
        self._clock, self._interrupted = clock, interrupted
        with ExitStack() as stack:
            self._guard = Guard()
            stack.callback(self._batch.close)
            stack.callback(self._guard.close)
            stack.callback(self._stop_processes)
            rates = shares.calibrate() if live.jobs == "cpu-bound" else {}
            self._start(interrupted)
            clock.follow = self._batch.own_time()
            if live.faults and isinstance(self._batch, ComesBack):
                self._faults = ProcessFaults(self, self._batch, live.faults)
            stack.enter_context(clock)
            counts = self._batch.counts(self.replay_log)
            reason = watch(self, clock, counts, threading.Event(), quiet=quiet)
            if self._faults is not None:
                self._faults.close()
            # From here on nothing happens any more: the record is that of one moment.
            failure = self._batch.failure
            if not reason and self._failed_plans is not None:
                reason = self._failed_plans.look()
            all_done = clock.freeze(_BROKEN_OFF_S) if failure else clock.freeze()
            self.now_us = clock.now_us()
            pace = asdict(clock.pace) | {"speed": live.speed}
            batch = self._batch.collect(replayed(self.replay_log).job_ids)
            self.now_us = max(self.now_us, batch.now_us)
            # Who waits for a server that is gone waits in vain.
            if not all_done and batch.offline is not None and not failure:
                self.marks.append(Mark(self.now_us, STILL_WORKING))
            self._stop_processes()  # the ledger and the replayer's log are read from their files
            record = collect(self, batch, reason)
            late = {} if self.ledger is None else self._ondemand.cost()
            if clock.follow is not None or late:
                record, pace = with_cost(record, self.prepared.jobs, pace, live.max_lag_s, late)
            if failure:
                record = replace(record, traceback=failure.traceback)
            if rates and self.job_folder.exists():  # else it ended before there was a job
                measured = shares.measure(record, shares.read_tracks(self.job_folder), rates)
                record = replace(record, figures=record.figures | shares.figures(measured))
        return describe(
            record,
            self.scenario,
            self.prepared,
            wall_s=seconds(wall_us() - began_us),
            pace=pace,
        )

    # Starting, in the order in which they need each other.

    def _start(self, interrupted: Any) -> None:
        if self.mechanism is not None:
            self._issue_credentials()
        steps = list(self._batch.start_steps())  # the Balancer takes no node that is down
        if self.mechanism is not None:
            steps += [
                partial(self._start_balancer, self.mechanism),
                *self._ondemand.start_steps(self.mechanism),
            ]
            if self.mechanism.forecasts is not None:
                steps.append(partial(self._start_predictor, self.mechanism.forecasts))
        for step in (*steps, self._start_replayer):
            if interrupted or self._batch.failure:
                return
            step()

    def config(self, name: str, settings: dict[str, Any]) -> Path:
        path = self.work / f"{name}.json"
        path.write_text(json.dumps(settings, indent=1, default=str), encoding="utf-8")
        return path

    def launch(
        self,
        name: str,
        *arguments: str | Path,
        environ: dict[str, str] | None = None,
        program: Path | None = None,
    ) -> FleetProcess:
        command = [str(sys.executable if program is None else program), *map(str, arguments)]
        process = FleetProcess(name, command, self.logs, environ, self._guard)
        self.processes[name] = process
        return process

    def start_again(self, name: str) -> FleetProcess:
        """A process that was killed, with the settings that it had."""
        if name == BATCH and isinstance(self._batch, ComesBack):
            self._batch.prepare_return()
        process = self.processes[name] = self.processes[name].again()
        return process

    def lasting_port(self) -> int:
        return lasting_port() if self.scenario.live.faults else 0

    def end_with(self, tag: str, files: Iterable[Path]) -> None:
        assert self._guard is not None  # noqa: S101 - the first thing that a run has
        self._guard.watch_tag(tag)
        for file in files:
            self._guard.remove(file)

    @property
    def has_balancer(self) -> bool:
        return self.mechanism is not None

    @property
    def balancer_ready(self) -> Path:
        return self.work / "balancer.ready"

    @property
    def clock_file(self) -> Path:
        return self.work / "clock"

    @property
    def workload(self) -> Path:
        return self.work / "workload.npz"

    @property
    def job_folder(self) -> Path:
        """What real jobs print, and their checkpoints: kept with the results."""
        return self.logs / "jobs"

    def _issue_credentials(self) -> None:
        """A token for the manager and the replayer, and a key for each node: as a site would."""
        _, self.token = TokenFile(self._token_file).create(Role.ON_DEMAND, "fleet", now_us=utc_us())
        keys = HookKeyFile(self._hook_key_file)
        lines = [f"{name} {keys.issue(name).hex()}\n" for name in self.names]
        self.node_keys.write_text("".join(lines), encoding="utf-8")

    @property
    def places(self) -> services.Places:
        ledger = self.work / "ledger.db"
        return services.Places(
            self.names, self.clock_file, ledger, self._token_file, self._hook_key_file, self.token
        )

    @property
    def _token_file(self) -> Path:
        return self.work / "tokens"

    @property
    def _hook_key_file(self) -> Path:
        return self.work / "hook-keys"

    @property
    def node_keys(self) -> Path:
        return self.work / "node-keys"

    def _start_balancer(self, mechanism: BalancerMechanism) -> None:
        settings, environ = self._batch.balancer_settings()
        own = {
            "plugins": [each.model_dump(mode="json") for each in self._plugins(ALGORITHMS)],
            "port": self.lasting_port(),
            "ready_file": self.balancer_ready,
        }
        given = services.balancer(mechanism, self.places) | self._ondemand.balancer_settings()
        config = self.config("balancer", given | own | settings)
        process = self.launch("balancer", "-m", "balancer", "serve", "--config", config, environ=environ)
        process.wait_until(lambda: read_ready(self.balancer_ready) is not None)
        ready = read_ready(self.balancer_ready)
        assert ready is not None  # noqa: S101 - waited for
        self.balancer_url = ready["url"]
        self._failed_plans = FailedPlans(self.balancer_url)

    def _plugins(self, group: str) -> tuple[PluginFile, ...]:
        """The plug-ins of this kind that files bring."""
        with self.scenario.plugged_in():
            return files_of(IN_USE.get(), (group,))

    def _start_predictor(self, predictor: PredictorSettings) -> None:
        before, ready = self.work / "before.json", self.work / "predictor.ready"
        before.write_text(services.slots_before(predictor), encoding="utf-8")
        arguments = services.predictor_arguments(
            predictor, self.prepared.jobs, self.places, self.balancer_url,
            before=before, ready_file=ready, plugins=[each.source for each in self._plugins(PREDICTORS)],
        )  # fmt: skip
        environ = {"BALANCER_TOKEN": self.token}
        process = self.launch("predictor", "-m", "balancer", "predict", *arguments, environ=environ)
        process.wait_until(lambda: read_ready(ready) is not None)

    def _start_replayer(self) -> None:
        store.save(self.prepared.jobs, self.workload)
        settings: dict[str, Any] = {
            "workload": self.workload,
            "result": self.replay_log,
            "clock": self.clock_file,
            "ready_file": self.work / "replayer.ready",
            "resume": bool(self.scenario.live.faults),
            "plugins": [each.model_dump(mode="json") for each in self._plugins(SUBMITTERS)],
        }
        submitting, environ = self._batch.replayer_settings()
        settings |= submitting
        if self.scenario.live.jobs != "sleep":
            self.job_folder.mkdir()
            settings |= {"job_folder": self.job_folder, "program": self.scenario.live.jobs}
        if self.mechanism is not None:
            settings |= self._ondemand.replayer_settings(self.mechanism)
        process = self.launch(
            "replayer", "-m", "emulator.live.replayer", "--config", self.config("replayer", settings),
            environ=environ,
        )  # fmt: skip
        process.wait_until(lambda: read_ready(self.work / "replayer.ready") is not None)

    @property
    def ledger(self) -> Path | None:
        path = self.work / "ledger.db"
        return path if path.exists() else None

    @property
    def replay_log(self) -> Path:
        return self.work / "replay.jsonl"

    # Watching.

    def trouble(self) -> str:
        """Why the run must end now, or ''."""
        if self._interrupted:
            return f"stopped by {self._interrupted.reason}"
        if self._batch.failure:
            return self._batch.failure.reason
        if self._failed_plans is not None and (failed_plan := self._failed_plans.now_and_then()):
            return failed_plan
        if behind := lag(self.scenario.live, self._clock):
            return behind
        if self._faults is not None:
            self._faults.look(self._clock)
        lost = self._look_at_processes(self._clock)
        return self._batch.failure.reason if lost and self._batch.failure else lost

    def is_replayed(self) -> bool:
        return self.processes["replayer"].exit_status is not None and not self._is_away("replayer")

    def _is_away(self, name: str) -> bool:
        """A step of the scenario has killed it, and that is no reason to end."""
        return self._faults is not None and self._faults.is_away(name)

    def is_settled(self) -> bool:
        return self._batch.is_settled()

    def stuck(self) -> str | None:
        return self._batch.stuck(self._clock.now_us())

    def note(self, at_us: int, text: str) -> None:
        self.marks.append(Mark(at_us, text))

    def tell(self, counts: Counts) -> None:  # noqa: ARG002 - the page has more than counts
        """To the page, where there is one."""
        if self._page is not None:
            self._page.offer(self._so_far)

    def _so_far(self) -> RunRecord:
        marks = [*self.marks]
        self.now_us = self._clock.now_us()
        try:
            batch = self._batch.collect(replayed(self.replay_log).job_ids)
            record = collect(self, batch, UNDER_WAY)
        finally:
            self.marks[:] = marks  # what is said of the whole run is said at its end
        return describe(record, self.scenario, self.prepared)

    def _look_at_processes(self, clock: SharedClockMaster) -> str:
        """Balancer, manager and predictor may fail, batch goes on; without the others there is no run."""
        for name, process in list(self.processes.items()):
            status = process.exit_status
            if status is None or (name in {"replayer", "predictor"} and status == 0) or self._is_away(name):
                continue
            if name in {"balancer", "predictor"} | self._ondemand.names:
                self.marks.append(Mark(clock.now_us(), f"{name} ended with status {status}"))
                process.stop()  # what is left of its session
                del self.processes[name]
                continue
            if name == "replayer":
                return process.obituary()
            if (why := self._batch.has_lost(name, process, clock.now_us())) is not None:
                return why
        return ""

    def _stop_processes(self) -> None:
        """All at once; each of them is stopped even if the user interrupts the wait for another one."""
        for process in self.processes.values():
            process.terminate()
        with ExitStack() as stack:
            for process in self.processes.values():
                stack.callback(process.stop)
