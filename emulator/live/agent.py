"""Node agents as a process: `python -m emulator.live.agent --config FILE [--clock FILE]`.

One process plays any number of nodes (Torque's pbs_mom). A job whose script only sleeps is an alarm at its
exact end; any other script is a real process in a session of its own. Hooks run as real Torque runs them.
"""

from __future__ import annotations

import argparse
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from balancer.clock import NEVER_US, SystemClock, micros
from emulator.clock.event_priority import EventPriority
from emulator.clock.remote_clock import open_clock
from emulator.clock.shared_clock import SharedClock
from emulator.live.folder_copy import FolderCopy, FolderCopyConfig
from emulator.live.hooks import HookConfig, HookInputs, Hooks
from emulator.live.process import party_name, read_address, stop_on_signal
from emulator.live.real_jobs import Key, RealJobs, Run, phase_of
from emulator.live.settings import Settings, SettingsError, load_settings
from emulator.live.torque.jobs import DELETED, OVER_WALLTIME, PROLOGUE_ABORTS, PROLOGUE_REQUEUES
from emulator.live.torque.protocol import Connection, Message, ProtocolError, connect
from emulator.simulation.executor_live import LiveExecutor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from balancer.clock import Clock

_RETRY_S = 0.1


class AgentConfig(Settings):
    """`server` is HOST:PORT; `server_home` finds the address there, also after a restart on another port.

    `walltime_check_s` (cluster time): a job over its walltime is noticed at the next multiple; 0: at once.
    `ends_at_walltime`: else it runs on until it ends by itself.
    `facts`: address, cores and memory (`memory_kib`) that the node tells the server. `restart`: what becomes of jobs
    that ran here when an earlier agent ended: `adopt` (a sleep goes on) or `requeue` (the node was gone with it).
    `folder_copy`: the folder that jobs share is on another host, and that here is a copy.
    `prologalarm_s` and `kill_delay_s` are wall time, because they bound real processes.
    """

    home: Path
    nodes: tuple[str, ...] = Field(min_length=1)
    np: int = Field(1, ge=1)
    facts: dict[str, str | int] | None = None
    restart: Literal["adopt", "requeue"] = "adopt"
    server: str = ""
    server_home: Path | None = None
    folder_copy: FolderCopyConfig | None = None
    hooks: HookConfig = HookConfig()
    walltime_check_s: float = Field(45.0, ge=0)
    ends_at_walltime: bool = True
    prologalarm_s: float = Field(300.0, gt=0)
    kill_delay_s: float = Field(2.0, ge=0)

    @model_validator(mode="after")
    def _has_server(self) -> AgentConfig:
        if bool(self.server) == bool(self.server_home):
            raise ValueError("give either server (HOST:PORT) or server_home")
        if self.server and not self.server.rpartition(":")[2].isdigit():
            raise ValueError(f"server must be HOST:PORT, not {self.server!r}")
        return self

    def address(self) -> tuple[str, int] | None:
        if self.server_home is not None:
            return read_address(self.server_home)
        host, _, port = self.server.rpartition(":")
        return host, int(port)


class Agent:
    """See the module's text. Everything about jobs happens in the executor's thread."""

    def __init__(self, config: AgentConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._executor = LiveExecutor(clock)
        self._hooks = Hooks(config.hooks, config.prologalarm_s)
        copy = None if config.folder_copy is None else FolderCopy(config.folder_copy)
        self._real = RealJobs(self._executor, self._exited, config.kill_delay_s, copy)
        self._runs: dict[Key, Run] = {}
        self._connection: Connection | None = None
        self._stopping = threading.Event()
        self._sessions = 0
        (config.home / "mom_priv").mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Serve until `stop`; kills the processes of its jobs then."""
        reader = threading.Thread(target=self._talk, name="server", daemon=True)
        reader.start()
        try:
            self._executor.run()
        finally:
            self._stopping.set()
            if (connection := self._connection) is not None:
                connection.close()
            reader.join()
            self._real.close()

    def stop(self) -> None:
        self._executor.stop()

    # The server. The reader thread hands every message to the executor.

    def _talk(self) -> None:
        while not self._stopping.is_set():
            if self._is_over():
                self.stop()
                return
            address = self._config.address()
            try:
                if address is not None:
                    self._serve(connect(address))
            except OSError:
                pass  # no server there (yet, or any more): try again below
            self._stopping.wait(_RETRY_S)

    def _is_over(self) -> bool:
        """The run's clock has been stopped for good: no server will come any more."""
        return isinstance(self._clock, SharedClock) and self._clock.stopped

    def _serve(self, connection: Connection) -> None:
        self._connection = connection
        try:
            if self._stopping.is_set():
                return
            running = self._executor.call(lambda _: [list(key) for key in self._runs])
            names, np = list(self._config.nodes), self._config.np
            facts = {} if self._config.facts is None else {"facts": self._config.facts}
            connection.send({"do": "register", "nodes": names, "np": np, "jobs": running} | facts)
            while (message := connection.receive()) is not None:
                self._executor.post(partial(self._take, message))
        finally:
            self._connection = None
            connection.close()
            self._executor.post(lambda _: self._let_go())

    def _take(self, message: Message, now_us: int) -> None:
        match message["do"]:
            case "start":
                self._start(message, now_us)
            case "change":
                self._change(message, now_us)
            case "kill":
                save = bool(message.get("save", False))
                self._lose_node((message["job"], message["run"]), message.get("dead", ""))
                self._kill((message["job"], message["run"]), message["why"], now_us, save=save)
            case "noted":
                self._forget((message["job"], message["run"]))
            case "registered":
                self._registered(message, now_us)
            case _:
                raise ProtocolError(f"the server refuses this agent: {message.get('error', message)}")

    def _registered(self, message: Message, now_us: int) -> None:
        for number, run in message["drop"]:
            dropped = self._runs.get((number, run))
            if dropped is not None:
                if dropped.process is not None:
                    dropped.process.kill()
                self._forget(dropped.key)
        for start in message["start"]:
            self._start(start, now_us)
        for waiting in self._runs.values():
            if waiting.report is not None:
                self._report(waiting)

    def _send(self, message: dict[str, Any]) -> None:
        connection = self._connection
        if connection is None:
            return  # told again after the next registration
        try:
            connection.send(message)
        except OSError:
            connection.close()

    def _report(self, run: Run) -> None:
        """Tell the server that the run is over; a paced clock waits until it has taken note."""
        if run.report is not None:
            if self._connection is not None:
                self._executor.release(("report", run.key))
                self._executor.hold(("report", run.key))
            self._send(run.report)

    def _forget(self, key: Key) -> None:
        run = self._runs.pop(key, None)
        if run is not None and (self._hooks.any or run.process is not None):
            run.inputs.remove_files()
        self._executor.release(("report", key))

    def _let_go(self) -> None:
        """Without a server the clock is not kept waiting for its answers."""
        for key in self._runs:
            self._executor.release(("report", key))

    # A job's life.

    def _start(self, message: Message, now_us: int) -> None:
        key = (int(message["job"]), int(message["run"]))
        if key in self._runs:
            return
        inputs = HookInputs(message, self._config.home)
        run = self._runs[key] = Run(key, message, inputs, phase=phase_of(message))
        if self._hooks.any or run.sleeps_us is None:
            run.inputs.write_files()
        if message["adopt"]:
            self._adopt(run, now_us)
            return
        arguments = run.inputs.prologue_arguments()
        self._hook("prologue", run, arguments, partial(self._after_prologue, run), now_us)

    def _hook(self, name: Any, run: Run, arguments: list[str], then: Any, now_us: int) -> None:
        """Run a hook and go on with `then(status, now_us)`; the clock waits for a script, which has a thread."""
        if not self._hooks.is_script(name):
            then(self._hooks.run(name, run.inputs, arguments), now_us)
            return

        def in_thread() -> None:
            status = self._hooks.run(name, run.inputs, arguments)

            def go_on(at_us: int) -> None:
                then(status, at_us)
                self._executor.release((name, run.key))

            self._executor.post(go_on)

        self._executor.hold((name, run.key))
        threading.Thread(target=in_thread, daemon=True).start()

    def _after_prologue(self, run: Run, status: int, now_us: int) -> None:
        if run.kill_why:
            self._finish(run, DELETED if run.kill_why == "delete" else 0, now_us)
        elif status == 0:
            self._begin(run, now_us)
        elif status == 1:
            self._finish(run, PROLOGUE_ABORTS, now_us)
        else:
            # 2 or more, or it ran too long: the server puts the job back into the queue.
            self._finish(run, PROLOGUE_REQUEUES, now_us, requeue=True)

    def _begin(self, run: Run, now_us: int) -> None:
        run.begun = True
        if run.sleeps_us is None:
            try:
                self._real.spawn(run, self._config.home, self._config.np)
            except ConnectionError:
                raise  # the jobs' folder is out of reach: no fault of this job
            except OSError as error:
                sys.stderr.write(f"node agent: job {run.message['id']} cannot be started: {error}\n")
                self._finish(run, 1, now_us)
                return
        else:
            self._sessions += 1
            run.session = self._sessions
        has_limit = run.process is not None and run.line is None and not run.message["cores"]
        if run.phase is None or has_limit:
            self._set_end(run, run.sleeps_us)
        else:
            self._follow_phase(run, now_us)
        self._send({"do": "started", "job": run.key[0], "run": run.key[1], "session": run.session})

    def _follow_phase(self, run: Run, now_us: int) -> None:
        """A job that only sleeps is over when the server's account says; a process tells by itself."""
        run.plan += 1
        plan = run.plan
        if run.phase is None or run.process is not None or run.phase.end_us == NEVER_US:
            return

        def end(at_us: int) -> None:
            if run.plan == plan:
                self._finish(run, 0, at_us)

        self._executor.at(max(run.phase.end_us, now_us), end, run.phase.rank, order=run.key[0])

    def _change(self, message: Message, now_us: int) -> None:
        """Other nodes or another phase for a running job; the server is told when its process knows."""
        key = (int(message["job"]), int(message["run"]))
        changed = {"do": "changed", "job": key[0], "run": key[1], "seq": message["seq"], "session": 0}
        run = self._runs.get(key)
        if run is None or run.finishing:
            self._send(changed)
            return
        run.phase = phase_of(message)
        run.message["hosts"] = message["hosts"]
        if run.process is not None:
            self._real.change(run, int(message["save_us"]), now_us)
        elif run.begun:
            self._follow_phase(run, now_us)
        if run.line is not None and run.line.is_busy:
            run.acknowledgements.append(lambda: self._send(changed | {"done": run.done}))
        else:
            self._send(changed)

    def _set_end(self, run: Run, duration_us: int | None) -> None:
        """The first of its own end, after `duration_us` (None: its process ends by itself), and of its walltime's."""
        end_us = NEVER_US if duration_us is None else run.start_us + duration_us
        kill_us = self._noticed_us(run) if self._config.ends_at_walltime else NEVER_US
        if (due_us := min(end_us, kill_us)) != NEVER_US:
            work = partial(self._finish, run, 0) if end_us <= kill_us else partial(self._over_walltime, run)
            self._executor.at(due_us, work, EventPriority.JOB_END, order=run.key[0])

    def _noticed_us(self, run: Run) -> int:
        """When a job that goes on is found to be over its walltime."""
        check_us = micros(self._config.walltime_check_s)
        limit_us = run.start_us + int(run.message["walltime_us"])
        return limit_us if check_us == 0 else (limit_us // check_us + 1) * check_us

    def _over_walltime(self, run: Run, now_us: int) -> None:
        if run.process is None:
            self._finish(run, OVER_WALLTIME, now_us)
        elif not run.finishing:
            run.over_walltime = True
            self._real.terminate(run)

    def _kill(self, key: Key, why: str, now_us: int, *, save: bool) -> None:
        """End a run: `delete` and `requeue` give a process time, `preempt` and `over` (its work is done) do not.

        `save`: it writes a checkpoint.
        """
        run = self._runs.get(key)
        if run is None:
            number, start = key
            status = DELETED if why == "delete" else 0
            ended = {"do": "ended", "job": number, "run": start, "exit_status": status, "session": 0}
            self._send(ended | {"requeue": False})
        elif not run.finishing:
            run.kill_why = why
            if run.process is not None and why in ("preempt", "over"):
                self._real.leave(run, save=save, why=why, now_us=now_us)
            elif run.process is not None:
                self._real.terminate(run)
            elif run.begun:
                self._finish(run, DELETED if why == "delete" else 0, now_us)

    def _lose_node(self, key: Key, name: str) -> None:
        """One of a run's nodes is gone: its epilogue runs on the others, and nowhere if there are none."""
        run = self._runs.get(key)
        if run is not None and name in run.message["hosts"]:
            run.message["hosts"] = [host for host in run.message["hosts"] if host != name]
            if self._hooks.any:
                run.inputs.write_files()

    def _finish(self, run: Run, exit_status: int, now_us: int, *, requeue: bool = False) -> None:
        """The epilogue, then the report: until the server has noted it the job is R, its nodes are taken."""
        if run.finishing or self._runs.get(run.key) is not run:
            return
        run.finishing = True
        used_us = max(now_us - run.start_us, 0)
        arguments = run.inputs.epilogue_arguments(run.session, exit_status, used_us)

        def report(_status: int, _at_us: int) -> None:
            # The epilogue's exit status is ignored, as in Torque.
            number, start = run.key
            run.report = {
                "do": "ended", "job": number, "run": start, "exit_status": exit_status,
                "session": run.session, "requeue": requeue, "done": run.done,
            }  # fmt: skip
            self._report(run)

        if run.message["hosts"]:
            self._hook("epilogue", run, arguments, report, now_us)
        else:
            report(0, now_us)

    def _adopt(self, run: Run, now_us: int) -> None:
        """A job that an earlier agent started: a sleep goes on, a process cannot be found again."""
        if self._config.restart == "requeue" or run.sleeps_us is None:
            self._finish(run, PROLOGUE_REQUEUES, now_us, requeue=True)
        else:
            self._begin(run, now_us)

    def _exited(self, run: Run, code: int, now_us: int) -> None:
        """A job's process is over."""
        if run.over_walltime:
            status = OVER_WALLTIME
        elif run.kill_why:
            status = DELETED if run.kill_why == "delete" else 0
        else:
            status = code if code >= 0 else 128 - code
        self._finish(run, status, now_us)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="emulator.live.agent", description="Agents of a batch cluster's nodes."
    )
    parser.add_argument("--config", type=Path, required=True, help="settings (YAML or JSON)")
    parser.add_argument(
        "--clock", help="clock file of the run, or HOST:PORT; without it the machine's time is used"
    )
    options = parser.parse_args(arguments)
    try:
        config = load_settings(options.config, AgentConfig)
        clock = open_clock(options.clock, party_name(config.nodes)) if options.clock else SystemClock()
        agent = Agent(config, clock)
    except (SettingsError, OSError, ValueError) as error:
        sys.stderr.write(f"node agent: {error}\n")
        return 2
    stop_on_signal(agent.stop)
    try:
        agent.run()
    except ProtocolError as error:
        sys.stderr.write(f"node agent: {error}\n")
        return 2
    except ConnectionError as error:  # the clock's or the folder's: those of the server are tried again
        sys.stderr.write(f"node agent: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
