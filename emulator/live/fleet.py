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
from balancer.clock import seconds, utc_us, wall_us
from balancer.plugin_files import files_of
from balancer.plugins import ALGORITHMS, IN_USE, PREDICTORS
from emulator.harness.decisions import default_node_names
from emulator.harness.machine import HasSlots, tells_work
from emulator.harness.mechanism import HasMachine, HasNotice, ability
from emulator.harness.record import Mark
from emulator.live import shares
from emulator.live.collect import STILL_WORKING, ask_batch, collect
from emulator.live.counts import Counts
from emulator.live.failure import FailedPlans, Failure, read_failure
from emulator.live.fleet_process import FleetProcess, FleetProcessError, read_ready
from emulator.live.guard import Guard
from emulator.live.process import read_address
from emulator.live.torque.install import install_commands
from emulator.live.torque.protocol import request
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.report.progress import RunProgress
from emulator.runner import describe, make_machine, make_mechanism
from emulator.scenario import ScenarioError
from emulator.shared_clock import SharedClockMaster
from emulator.workload import store
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from balancer.plugin_files import PluginFile
    from emulator.harness.record import RunRecord
    from emulator.mechanisms.balancer.forecast import PredictorSettings
    from emulator.runner import Prepared
    from emulator.scenario import Scenario

_LOOK_S = 0.1
_BROKEN_OFF_S = 0.2
"""A plug-in has failed: its process holds the clock for good, nobody has to be waited for."""
_COMPILES_S = 600.0
"""The first time after an installation a mechanism's kernels may have to be compiled."""
_EPOCH_S = 1_767_225_600
_RECONCILE_S = 6 * 3600.0


class FleetError(RuntimeError):
    """The fleet could not be started or broke; the message says which process and where its log is."""


def run_live(
    scenario: Scenario, prepared: Prepared, work: Path, interrupted: Any, *, quiet: bool = False
) -> RunRecord:
    """Run the scenario live. `interrupted` is true (with a `reason`) once the user wants it to end.

    `work` is an empty folder for everything the processes write; their logs are in WORK/logs. Raises
    FleetError; no process is left behind in any case. A run that breaks off half-way leaves a record that
    says why (`interrupted`).
    """
    fleet = Fleet(scenario, prepared, work)
    try:
        return fleet.run(interrupted, quiet=quiet)
    except (FleetProcessError, shares.CalibrationError) as error:
        raise FleetError(str(error)) from error


class Fleet:
    """One live run. Everything it writes is below `work`."""

    def __init__(self, scenario: Scenario, prepared: Prepared, work: Path) -> None:
        mechanism = make_mechanism(scenario)
        if scenario.live.faults:
            raise ScenarioError("live.faults need a fleet in containers; see `emulator fleet up`")
        self.batch_decides = mechanism is not None and not isinstance(mechanism, BalancerMechanism)
        """The batch server has the mechanism: every one but the Balancer, which is a service of its own."""
        self.slots_per_node, slotted = 1, None
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
        self.logs.mkdir()
        self.names = default_node_names(prepared.nodes)
        self.marks: list[Mark] = []
        self.processes: dict[str, FleetProcess] = {}
        self._guard: Guard | None = None
        self._failed_plans: FailedPlans | None = None
        self.balancer_url = ""
        self.epoch_s = _EPOCH_S
        self.token = ""
        self.now_us = 0

    def run(self, interrupted: Any, *, quiet: bool) -> RunRecord:
        live = self.scenario.live
        began_us = wall_us()
        clock = SharedClockMaster(self.work / "clock", speed=live.speed, held=live.pace == "held")
        with ExitStack() as stack:
            self._guard = Guard()
            stack.callback(self._guard.close)
            stack.callback(self._stop_processes)
            rates = shares.calibrate() if live.jobs == "cpu-bound" else {}
            self._start(interrupted)
            stack.enter_context(clock)
            reason = self._watch(clock, interrupted, quiet=quiet)
            # From here on nothing happens any more: the record is that of one moment.
            failure = self.failure
            if not reason and self._failed_plans is not None:
                reason = self._failed_plans.look()
            all_done = clock.freeze(_BROKEN_OFF_S) if failure else clock.freeze()
            self.now_us = clock.now_us()
            pace = asdict(clock.pace) | {"speed": live.speed}
            batch = ask_batch(self)
            # Who waits for a server that is gone waits in vain.
            if not all_done and batch.offline is not None and not failure:
                self.marks.append(Mark(self.now_us, STILL_WORKING))
            self._stop_processes()  # the ledger and the replayer's log are read from their files
            record = collect(self, batch, reason)
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
        steps = [self._start_batch, self._start_agent]  # the Balancer takes no node that is down
        if self.mechanism is not None:
            steps += [
                partial(self._start_balancer, self.mechanism),
                partial(self._start_manager, self.mechanism),
            ]
            if self.mechanism.forecasts is not None:
                steps.append(partial(self._start_predictor, self.mechanism.forecasts))
        for step in (*steps, self._start_replayer):
            if interrupted or self.failure:
                return
            step()

    def _config(self, name: str, settings: dict[str, Any]) -> Path:
        path = self.work / f"{name}.json"
        path.write_text(json.dumps(settings, indent=1, default=str), encoding="utf-8")
        return path

    def _launch(
        self, name: str, *arguments: str | Path, environ: dict[str, str] | None = None
    ) -> FleetProcess:
        process = FleetProcess(
            name, [str(argument) for argument in arguments], self.logs, environ, self._guard
        )
        self.processes[name] = process
        return process

    @property
    def workload(self) -> Path:
        return self.work / "workload.npz"

    @property
    def job_folder(self) -> Path:
        """What real jobs print, and their checkpoints: kept with the results."""
        return self.logs / "jobs"

    @property
    def batch_home(self) -> Path:
        return self.work / "torque"

    def _start_batch(self) -> None:
        self.batch_home.mkdir()
        scheduler = {
            ("pass" if key == "pass_" else key): value
            for key, value in asdict(self.scenario.scheduler_config).items()
        }
        settings: dict[str, Any] = {
            "home": self.batch_home,
            "nodes": self.names,
            "np": self.slots_per_node,
            "scheduler": scheduler,
            "epoch_s": self.epoch_s,
            "cycle_after_offline": True,
            "plugins": self.scenario.as_json().get("plugins", []),
        }
        if self.batch_decides:
            store.save(self.prepared.jobs, self.workload)
            mechanism = {"mechanism": self.scenario.mechanism, "workload": self.workload}
            settings |= mechanism | {"queues": ["batch", "ondemand"], "seed": self.scenario.seed}
        config = self._config("batch", settings)
        process = self._launch(
            "batch", "-m", "emulator.live.torque.server", "--config", config, "--clock", self.work / "clock"
        )
        process.wait_until(lambda: read_address(self.batch_home) is not None, _COMPILES_S)
        address = read_address(self.batch_home)
        assert address is not None  # noqa: S101 - waited for
        install_commands(self.bin, address)

    def _issue_credentials(self) -> None:
        """A token for the manager and the replayer, and a key for each node: as a site would."""
        _, self.token = TokenFile(self._token_file).create(Role.ON_DEMAND, "fleet", now_us=utc_us())
        keys = HookKeyFile(self._hook_key_file)
        lines = [f"{name} {keys.issue(name).hex()}\n" for name in self.names]
        self._node_keys.write_text("".join(lines), encoding="utf-8")

    @property
    def _token_file(self) -> Path:
        return self.work / "tokens"

    @property
    def _hook_key_file(self) -> Path:
        return self.work / "hook-keys"

    @property
    def _node_keys(self) -> Path:
        return self.work / "node-keys"

    def _start_balancer(self, mechanism: BalancerMechanism) -> None:
        config = self._config(
            "balancer",
            {
                "nodes": self.names,
                "driver": {
                    "torque": {"pbsnodes": str(self.bin / "pbsnodes"), "qmgr": str(self.bin / "qmgr")}
                },
                "algorithm": mechanism.algorithm,
                "plugins": [each.model_dump(mode="json") for each in self._plugins(ALGORITHMS)],
                "reserve": mechanism.static_reserve,
                "wait_s": mechanism.wait_s,
                "idle_hold_s": mechanism.idle_hold_s,
                "pick": mechanism.pick,
                "db": str(self.work / "ledger.db"),
                "auth": True,
                "token_file": self._token_file,
                "hook_key_file": self._hook_key_file,
                "hook_skew_s": 3600,
                "rate_per_s": 0,  # cluster time runs fast: nobody here calls too often
                "port": 0,
                "ready_file": self.work / "balancer.ready",
                "clock": {"shared": {"path": self.work / "clock"}},
                "reconcile_period_s": _RECONCILE_S,
                "refresh_age_s": 0,
                "at_once_s": 3600,  # time may run far faster than the programs
                "confirm_s": 3600,
                "mark_wait_s": 60,
                "confirm_poll_s": 0.005,
            },
        )
        environ = {"TORQUE_USER": "root"}
        process = self._launch("balancer", "-m", "balancer", "serve", "--config", config, environ=environ)
        process.wait_until(lambda: read_ready(self.work / "balancer.ready") is not None)
        ready = read_ready(self.work / "balancer.ready")
        assert ready is not None  # noqa: S101 - waited for
        self.balancer_url = ready["url"]
        self._failed_plans = FailedPlans(self.balancer_url)

    def _plugins(self, group: str) -> tuple[PluginFile, ...]:
        """The plug-ins of this kind that files bring."""
        with self.scenario.plugged_in():
            return files_of(IN_USE.get(), (group,))

    def _start_agent(self) -> None:
        settings: dict[str, Any] = {
            "home": self.work / "mom",
            "nodes": self.names,
            "np": self.slots_per_node,
            "server_home": self.batch_home,
            "walltime_check_s": 0,
        }
        if self.mechanism is not None:
            self._issue_credentials()
            settings["hooks"] = self._hooks()
        process = self._launch(
            "agent",
            "-m", "emulator.live.agent",
            "--config", self._config("agent", settings),
            "--clock", self.work / "clock",
            environ={
                "BALANCER_READY_FILE": str(self.work / "balancer.ready"),
                "BALANCER_MARKER": str(self.work / "no-marker"),
                "BALANCER_HOOK_KEY_FILE": str(self._node_keys),
            },
        )  # fmt: skip
        process.wait_until(self._agent_has_registered)

    def _agent_has_registered(self) -> bool:
        address = read_address(self.batch_home)
        if self.failure:  # as the run began; `_watch` tells
            return True
        return address is not None and bool(request(address, {"do": "state"})["all_nodes_up"])

    def _hooks(self) -> dict[str, Any]:
        if self.scenario.live.hooks == "in_process":
            callable_name = "emulator.live.balancer_hooks:hook"
            return {"kind": "python", "prologue": callable_name, "epilogue": callable_name}
        scripts = {}
        for name in ("prologue", "epilogue"):
            script = self.bin / name
            script.write_text(
                "#!/bin/sh\n"
                f"BALANCER_URL=$({sys.executable} -c "
                f'\'import json; print(json.load(open("{self.work / "balancer.ready"}"))["url"])\') '
                f"BALANCER_MARKER={self.work / 'no-marker'} "
                f"BALANCER_HOOK_KEY_FILE={self._node_keys} "
                f'exec {sys.executable} -m balancer hook {name} "$@"\n',
                encoding="utf-8",
            )
            script.chmod(0o755)
            scripts[name] = str(script)
        return {"kind": "script", **scripts}

    def _start_manager(self, mechanism: BalancerMechanism) -> None:
        config = self._config(
            "ondemand",
            {
                "clock": self.work / "clock",
                "balancer_url": self.balancer_url,
                "balancer_token": self.token,
                "wait_s": mechanism.wait_s,
                "hosts": self.names,
                "ready_file": self.work / "ondemand.ready",
            },
        )
        process = self._launch("ondemand", "-m", "emulator.live.ondemand", "--config", config)
        process.wait_until(lambda: read_ready(self.work / "ondemand.ready") is not None)

    def _start_predictor(self, predictor: PredictorSettings) -> None:
        """The service's own `balancer predict`, which knows nothing but the API and the slots before time 0."""
        before, ready = self.work / "before.json", self.work / "predictor.ready"
        past = [{"nodes_requested": nodes} for nodes in predictor.history]
        before.write_text(json.dumps({"slots": past}), encoding="utf-8")
        last_submit_us = int(self.prepared.jobs.submit_us.max(initial=0))
        process = self._launch(
            "predictor",
            "-m", "balancer", "predict", "--url", self.balancer_url,
            *(f"--plugin={each.source}" for each in self._plugins(PREDICTORS)),
            "--predictor", json.dumps(predictor.predictor),
            "--slots-per-day", str(predictor.slots.a_day), "--keep", predictor.keep,
            "--before", before, "--until-s", repr(seconds(last_submit_us)),
            "--clock", json.dumps({"shared": {"path": str(self.work / "clock"), "rank": "forecast"}}),
            "--ready-file", ready,
            environ={"BALANCER_TOKEN": self.token},
        )  # fmt: skip
        process.wait_until(lambda: read_ready(ready) is not None)

    def _start_replayer(self) -> None:
        store.save(self.prepared.jobs, self.workload)
        settings: dict[str, Any] = {
            "workload": self.workload,
            "result": self.replay_log,
            "clock": self.work / "clock",
            "qsub": [str(self.bin / "qsub")],
            "ready_file": self.work / "replayer.ready",
        }
        if self.scenario.live.jobs != "sleep":
            self.job_folder.mkdir()
            settings |= {"job_folder": self.job_folder, "program": self.scenario.live.jobs}
        if self.batch_decides:
            notice = ability(make_mechanism(self.scenario), HasNotice)  # type: ignore[type-abstract]
            settings["qnotice"] = [str(self.bin / "qnotice")]
            settings["notice_s"] = seconds(notice.notice_us) or None if notice is not None else None
        if self.mechanism is not None:
            ready = read_ready(self.work / "ondemand.ready")
            assert ready is not None  # noqa: S101 - waited for
            settings |= {
                "cloud": {"auth_url": f"{ready['url']}/identity/v3"},
                "wait_s": self.mechanism.wait_s,
                "balancer_url": self.balancer_url,
                "balancer_token": self.token,
                "notice_s": self.mechanism.notice_s or None,
            }
        process = self._launch(
            "replayer", "-m", "emulator.live.replayer", "--config", self._config("replayer", settings),
            environ={"TORQUE_USER": "alice"},
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

    def _watch(self, clock: SharedClockMaster, interrupted: Any, *, quiet: bool) -> str:
        """Until everything has happened. Returns why it ended early, or ''."""
        jobs = self.prepared.jobs
        batch_jobs = len(jobs) if self.batch_decides else int((jobs.kind == Kind.BATCH).sum())
        counts = Counts(self.batch_home, self.replay_log)
        pause = threading.Event()
        with RunProgress(jobs=len(jobs), end_us=int(jobs.submit_us.max(initial=0)), quiet=quiet) as progress:
            while True:
                if interrupted:
                    return f"stopped by {interrupted.reason}"
                if self.failure:
                    return self.failure.reason
                if self._failed_plans is not None and (failed_plan := self._failed_plans.now_and_then()):
                    return failed_plan
                lag = self._lag(clock)
                if lag:
                    return lag
                trouble = self._look_at_processes(clock)
                if trouble:
                    return self.failure.reason if self.failure else trouble
                is_replayed = (
                    self.processes["replayer"].exit_status is not None
                )  # before its last lines are read
                counts.look()
                progress.update(clock.now_us(), counts.ended, counts.granted, counts.rejected)
                has_ended = counts.ended >= batch_jobs - counts.failed
                if is_replayed and (self._is("all_told") if has_ended else self._is_stuck()):
                    return ""
                pause.wait(_LOOK_S)

    @property
    def failure(self) -> Failure | None:
        """A plug-in that failed in the batch server."""
        return read_failure(self.batch_home)

    def _is_stuck(self) -> bool:
        """A mechanism may leave jobs waiting for good: nothing more will happen then, as in virtual time."""
        return self.batch_decides and self._is("is_over")

    def _is(self, what: str) -> bool:
        """Ask the batch server for its state; False if it is gone, which is noticed elsewhere."""
        address = read_address(self.batch_home)
        try:
            return address is not None and bool(request(address, {"do": "state"})[what])
        except OSError:
            return False

    def _lag(self, clock: SharedClockMaster) -> str:
        live = self.scenario.live
        longest_s = seconds(clock.pace.longest_hold_us)
        if live.pace == "strict" and longest_s > live.max_lag_s:
            return f"the machine cannot keep up: {longest_s:.3f} s behind (live.max_lag_s is {live.max_lag_s:g} s)"
        return ""

    def _look_at_processes(self, clock: SharedClockMaster) -> str:
        """Balancer, manager and predictor may fail, batch goes on; without the others there is no run."""
        for name, process in list(self.processes.items()):
            status = process.exit_status
            if status is None or (name in {"replayer", "predictor"} and status == 0):
                continue
            if name in {"balancer", "ondemand", "predictor"}:
                self.marks.append(Mark(clock.now_us(), f"{name} ended with status {status}"))
                process.stop()  # what is left of its session
                del self.processes[name]
                continue
            log_end = " | ".join(line.strip() for line in process.log_end(3).splitlines())
            return f"{name} ended with status {status}" + (f": {log_end}" if log_end else "")
        return ""

    def _stop_processes(self) -> None:
        """All at once; each of them is stopped even if the user interrupts the wait for another one."""
        for process in self.processes.values():
            process.terminate()
        with ExitStack() as stack:
            for process in self.processes.values():
                stack.callback(process.stop)
