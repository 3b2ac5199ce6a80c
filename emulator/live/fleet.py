"""A live run on one machine: the Balancer, a batch server, node agents, an on-demand manager and a replayer.

Each is a process of its own; they talk over loopback and share a clock file. This module starts them in order,
lets the clock run, watches, and collects what happened (`emulator/live/collect.py`).
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from balancer.auth.hook_keys import HookKeyFile
from balancer.clock import seconds, wall_us
from emulator.clock.clock_file import SLOTS
from emulator.config.node_names import default_node_names
from emulator.live import roles, shares
from emulator.live.batch_system import ComesBack, make_batch_system
from emulator.live.clock_cost import with_cost
from emulator.live.collect import collect
from emulator.live.failure import FailedPlans
from emulator.live.names import BALANCER, BATCH, PREDICTOR, REPLAYER, ROLES
from emulator.live.ondemand_system import make_ondemand_system
from emulator.live.process import FleetProcess, FleetProcessError, OrphanReaper, lasting_port
from emulator.live.process_faults import ProcessFaults, check_faults
from emulator.live.resume import RunSuspended
from emulator.live.run_files import RunFiles
from emulator.live.watch import WENT_ON, LiveRun
from emulator.record.run_record import UNDER_WAY, Mark
from emulator.runs.runner import describe
from emulator.workload import store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from emulator.clock.clock_master import SharedClockMaster
    from emulator.live.batch_system import Batch
    from emulator.live.replay_log import Counts
    from emulator.live.resume import ResumableRun
    from emulator.live.roles import RoleConfig
    from emulator.record.run_record import RunRecord
    from emulator.report.watch_page import WatchPage
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario


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
    resumable: ResumableRun | None = None,
) -> RunRecord:
    """Run the scenario live. `interrupted` is true (with a `reason`) once the user wants it to end.

    `work` is an empty folder for everything the processes write; their logs are in WORK/logs. Raises
    FleetError; no process is left behind in any case. A run that breaks off half-way leaves a record that
    says why (`interrupted`). `resumable`: the run of the folder `work`, which may go on; RunSuspended when it was
    stopped.
    """
    fleet = Fleet(scenario, prepared, work, page, resumable)
    try:
        return fleet.run(interrupted, quiet=quiet)
    except (FleetProcessError, shares.CalibrationError) as error:
        raise FleetError(str(error)) from error


class Fleet(LiveRun):
    """One live run. Everything it writes is below `work`."""

    _batch: Batch

    def __init__(
        self,
        scenario: Scenario,
        prepared: Prepared,
        work: Path,
        page: WatchPage | None = None,
        resumable: ResumableRun | None = None,
    ) -> None:
        files = RunFiles(work)
        comes_back = bool(scenario.live.faults) or resumable is not None
        super().__init__(scenario, prepared, files, resumable, comes_back=comes_back)
        requirements = self.requirements
        system, cloud = make_batch_system(scenario), make_ondemand_system(scenario)
        if scenario.live.jobs == "cpu-bound":
            shares.check_possible(scenario.live, prepared.jobs, requirements.slotted)
        system.check(scenario, prepared, requirements.mechanism, requirements.machine)
        cloud.check_leases(scenario, prepared, requirements.mechanism)
        self.comes_back, self.slots_per_node = comes_back, requirements.slots_per_node
        """Whether processes must be able to go on where others of their kind have ended."""
        self.work, self.logs, self.bin = work, work / "logs", work / "bin"
        self.job_folder = self.logs / "jobs"
        """What real jobs print, and their checkpoints: kept with the results."""
        self.clock_file, self.workload = files.clock, files.workload
        self.has_balancer = self.mechanism is not None
        self.balancer_ready, self.node_keys = files.ready(BALANCER), work / "node-keys"
        self.names = default_node_names(prepared.nodes)
        self.processes: dict[str, FleetProcess] = {}
        self._reaper: OrphanReaper | None = None
        self.balancer_url = ""
        self._page = page
        self._batch, self._ondemand = system.at(self), cloud.at(self)
        self.apart = check_faults(scenario.live.faults, self._batch, self.names, self._services())
        self._faults: ProcessFaults | None = None
        self._stands = False
        self.logs.mkdir(exist_ok=self.is_resumed)

    def _services(self) -> set[str]:
        """What a fault may be done to besides nodes."""
        cloud = set() if self.mechanism is None else self._ondemand.names
        return {*filter(self.requirements.has, (BATCH, REPLAYER, BALANCER, PREDICTOR)), *cloud}

    def run(self, interrupted: Any, *, quiet: bool) -> RunRecord:
        live = self.scenario.live
        self._began_us = wall_us()
        self._clock, self._interrupted = self._make_clock(), interrupted
        clock = self._clock
        with ExitStack() as stack:
            self._reaper = OrphanReaper()
            stack.callback(self._batch.close)
            stack.callback(self._reaper.close)
            stack.callback(self.end_processes)
            rates = shares.calibrate() if live.jobs == "cpu-bound" else {}
            self._start(interrupted)
            clock.follow = self._batch.own_time()
            if isinstance(self._batch, ComesBack) and live.faults:
                done = 0 if self._resumable is None else self._resumable.state.steps_done
                self._faults = ProcessFaults(self, self._batch, live.faults, done)
            clock.start()
            stack.callback(lambda: clock.stand() if self._stands else clock.stop())
            self.note_progress()
            reason = self.watch(threading.Event(), quiet=quiet)
            if self._resumable is not None and interrupted:
                self._stand()
            record, pace = self._record(reason, rates)
        return describe(record, self.scenario, self.prepared, wall_s=seconds(self.wall_us), pace=pace)

    @property
    def is_resumed(self) -> bool:
        return self._resumable is not None and self._resumable.is_resumed

    def _make_clock(self) -> SharedClockMaster:
        live = self.scenario.live
        if self.is_resumed:
            clock = roles.resumed_clock(live, self.clock_file)
            self.marks.append(Mark(clock.now_us(), WENT_ON))
            for ready_file in self.work.glob("*.ready"):
                ready_file.unlink()
            return clock
        return roles.new_clock(live, self.clock_file, SLOTS + len(self.apart))

    @property
    def steps_done(self) -> int:
        return 0 if self._faults is None else self._faults.done

    def _stand(self) -> None:
        """Stopped in the middle: all that is due by now is dealt with, then time stands. Raises RunSuspended."""
        self._clock.freeze()
        if self._faults is not None:
            self._faults.close()
        self._stands = True
        self._clock.stand()
        self.note_progress()
        # First whoever would note that the others go.
        if (server := self.processes.pop(BATCH, None)) is not None:
            server.stop()
        raise RunSuspended(
            f"stopped by {self._interrupted.reason}: the run stands at {seconds(self._clock.now_us()):.0f} s"
        )

    def _record(self, reason: str, rates: Any) -> tuple[RunRecord, dict[str, Any]]:
        """Let everything stand still and collect. With the record the clock's pace."""
        live, clock = self.scenario.live, self._clock
        if self._faults is not None:
            self._faults.close()
        record, pace = self.collect(reason)
        late = {} if self.ledger is None else self._ondemand.cost()
        if clock.follow is not None or late:
            record, pace = with_cost(record, self.prepared.jobs, pace, live.max_lag_s, late)
        if rates and self.job_folder.exists():  # else it ended before there was a job
            measured = shares.measure(record, shares.read_tracks(self.job_folder), rates)
            record = replace(record, figures=record.figures | shares.figures(measured))
        return record, pace

    # Starting, in the order in which they need each other.

    def _start(self, interrupted: Any) -> None:
        if self.mechanism is not None and not self.token:
            self._issue_credentials()
            self.note_progress()
        steps = list(self._batch.start_steps())  # the Balancer takes no node that is down
        if self.mechanism is not None:
            steps += [self._start_balancer, *self._ondemand.start_steps(self.mechanism)]
            if self.requirements.has(PREDICTOR):
                steps.append(self._start_predictor)
        for step in (*steps, self._start_replayer):
            if interrupted or self._batch.failure:
                return
            step()

    def config(self, name: str, settings: dict[str, Any]) -> Path:
        path = self.work / f"{name}.json"
        path.write_text(json.dumps(settings, indent=1, default=str), encoding="utf-8")
        return path

    def config_of(self, name: str, role_config: RoleConfig, **process_settings: Any) -> Path:
        return self.config(name, role_config.config_with(role_config.plugins) | process_settings)

    def launch(
        self,
        name: str,
        *arguments: str | Path,
        environ: dict[str, str] | None = None,
        program: Path | None = None,
    ) -> FleetProcess:
        command = [str(sys.executable if program is None else program), *map(str, arguments)]
        process = self.processes[name] = self._new_process(name, command, environ)
        return process

    def _new_process(self, name: str, command: list[str], environ: dict[str, str] | None) -> FleetProcess:
        return FleetProcess(name, command, self.logs, environ, self._reaper)

    def start_again(self, name: str) -> FleetProcess:
        """A process that was killed, with the settings that it had."""
        if name == BATCH and isinstance(self._batch, ComesBack):
            self._batch.prepare_return()
        process = self.processes[name] = self.processes[name].again()
        return process

    def lasting_port(self) -> int:
        return lasting_port() if self.comes_back else 0

    def end_with(self, tag: str, files: Iterable[Path]) -> None:
        assert self._reaper is not None  # noqa: S101 - the first thing that a run has
        self._reaper.watch_tag(tag)
        for file in files:
            self._reaper.remove(file)

    def _issue_credentials(self) -> None:
        """A token for the manager and the replayer, and a key for each node: as a site would."""
        self.token = roles.issue_token(self._files)
        keys = HookKeyFile(self._files.hook_keys)
        lines = [f"{name} {keys.issue(name).hex()}\n" for name in self.names]
        self.node_keys.write_text("".join(lines), encoding="utf-8")

    @property
    def places(self) -> roles.Places:
        files = self._files
        return roles.Places(
            self.names,
            files,
            files.ledger,
            self.bin,
            self.work,
            self.job_folder,
            self.token,
            self.balancer_url,
        )

    def _start_balancer(self) -> None:
        role_config = self.run_settings.balancer(
            self.places, self._batch.balancer_settings(), self._ondemand.balancer_settings()
        )
        config = self.config_of(
            BALANCER, role_config, port=self.lasting_port(), ready_file=self.balancer_ready
        )
        arguments = ROLES[BALANCER].arguments(config)
        process = self.launch(BALANCER, *arguments, environ=role_config.environ)
        self.balancer_url = process.wait_ready(self.balancer_ready)["url"]
        self._failed_plans = FailedPlans(self.balancer_url)

    def _start_predictor(self) -> None:
        role_config = self.run_settings.predictor(self.places)
        for name, text in role_config.files.items():
            (self.work / name).write_text(text, encoding="utf-8")
        arguments = (*ROLES[PREDICTOR].arguments(), *role_config.arguments_with(role_config.plugins))
        process = self.launch(PREDICTOR, *arguments, environ=role_config.environ)
        process.wait_ready(self._files.ready(PREDICTOR))

    def _start_replayer(self) -> None:
        store.save(self.prepared.jobs, self.workload)
        if self.scenario.live.jobs != "sleep":
            self.job_folder.mkdir(exist_ok=self.is_resumed)
        leases = {} if self.mechanism is None else self._ondemand.replayer_settings()
        role_config = self.run_settings.replayer(self.places, self._batch.replayer_settings(), leases)
        arguments = ROLES[REPLAYER].arguments(self.config_of(REPLAYER, role_config))
        process = self.launch(REPLAYER, *arguments, environ=role_config.environ)
        process.wait_ready(self._files.ready(REPLAYER))

    @property
    def ledger(self) -> Path | None:
        path = self._files.ledger
        return path if path.exists() else None

    # Watching.

    def abort_reason(self) -> str:
        """Why the run must end now, or ''."""
        if self._interrupted:
            return f"stopped by {self._interrupted.reason}"
        if why := super().abort_reason():
            return why
        if self._faults is not None and self._faults.look(self._clock):
            self.note_progress()
        lost = self._look_at_processes(self._clock)
        return self._batch.failure.reason if lost and self._batch.failure else lost

    def is_replayed(self) -> bool:
        return self.processes[REPLAYER].exit_status is not None and not self._is_away(REPLAYER)

    def _is_away(self, name: str) -> bool:
        """A step of the scenario has killed it, and that is no reason to end."""
        return self._faults is not None and self._faults.is_away(name)

    def report_progress(self, counts: Counts) -> None:  # noqa: ARG002 - the page has more than counts
        """To the page, where there is one."""
        if self._page is not None:
            self._page.offer(self._so_far)

    def _so_far(self) -> RunRecord:
        marks = [*self.marks]
        self.now_us = self._clock.now_us()
        try:
            record = collect(self, self.batch_side(), UNDER_WAY)
        finally:
            self.marks[:] = marks  # what is said of the whole run is said at its end
        return describe(record, self.scenario, self.prepared)

    def _look_at_processes(self, clock: SharedClockMaster) -> str:
        """Balancer, manager and predictor may fail, batch goes on; without the others there is no run."""
        for name, process in list(self.processes.items()):
            status = process.exit_status
            if status is None or (name in {REPLAYER, PREDICTOR} and status == 0) or self._is_away(name):
                continue
            if name in {BALANCER, PREDICTOR} | self._ondemand.names:
                self.marks.append(Mark(clock.now_us(), f"{name} ended with status {status}"))
                process.stop()  # what is left of its session
                del self.processes[name]
                continue
            if name == REPLAYER:
                return process.exit_summary()
            if (why := self._batch.has_lost(name, process, clock.now_us())) is not None:
                return why
        return ""

    def end_processes(self) -> None:
        """All at once; each of them is stopped even if the user interrupts the wait for another one."""
        for process in self.processes.values():
            process.terminate()
        with ExitStack() as stack:
            for process in self.processes.values():
                stack.callback(process.stop)
