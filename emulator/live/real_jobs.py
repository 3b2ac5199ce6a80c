"""Jobs that are real processes on an agent's nodes, and those of them that speak with the agent (`emulator-job`)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US
from emulator.live.job.spin import PROCESSORS_VARIABLE
from emulator.live.job_port import JobLine, JobPort, new_key
from emulator.live.processes import JobProcess, Processes

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.folder_copy import FolderCopy
    from emulator.live.runs import Run
    from emulator.live.torque.protocol import Connection, Message
    from emulator.simulation.executor_live import LiveExecutor

_SPEAKS = re.compile(r"^[^#\n]*\bemulator-job\b|^[^#\n]*\bemulator\.live\.job\.program\b", re.MULTILINE)


class RealJobs:
    """All processes of one agent. Everything but the waiting happens in the executor's thread.

    `exited(run, code, now_us)`: a process is over; `kill_delay_s` (wall time): from a request to end to SIGKILL.
    `copy`: the folder that jobs share is on another host.
    """

    def __init__(
        self,
        executor: LiveExecutor,
        exited: Callable[[Run, int, int], None],
        kill_delay_s: float,
        copy: FolderCopy | None = None,
    ) -> None:
        self._executor = executor
        self._copy = copy
        self._exited = exited
        self._kill_delay_s = kill_delay_s
        self._shared: Processes | None = None
        self._port: JobPort | None = None
        self._by_key: dict[str, Run] = {}
        self._closing = threading.Event()

    def close(self) -> None:
        """Kill everything."""
        self._closing.set()
        for run in self._by_key.values():
            if run.process is not None:
                run.process.close()
        if self._port is not None:
            self._port.close()
        if self._shared is not None:
            self._shared.close()

    def spawn(self, run: Run, home: Path, processors: int) -> None:
        """Start the job's script. A paced clock waits until an `emulator-job` in it has called."""
        message = run.message
        if self._copy is not None:
            self._copy.fetch(_own_names(run))
        workdir = Path(message["workdir"])
        if not workdir.is_dir():
            workdir = home
        key = new_key()
        self._by_key[key] = run
        environ = {**message["environment"], **run.inputs.environ()}
        environ |= {"PBS_JOBID": message["id"], "PBS_JOBNAME": message["name"], "PBS_QUEUE": message["queue"]}
        if _SPEAKS.search(message["script"]):
            if self._port is None:
                self._port = JobPort(self._hear)
            environ |= self._port.environ(key)
            run.line = JobLine()
            run.line.say(run.first_word())
            self._executor.hold(("line", run.key))
        if self._shared is None:
            self._shared = Processes()
        usable = sorted(os.sched_getaffinity(0))
        bound_to = [usable[core % len(usable)] for core in message["cores"]]
        if bound_to:
            environ[PROCESSORS_VARIABLE] = ",".join(map(str, bound_to))
        output = workdir / message["output_path"]
        run.process = JobProcess(
            self._shared, run.inputs.script_path, name=f"{message['id']}-{run.key[1]}", workdir=workdir,
            environ=environ, output=output,
            errors=output if message["join"] == "oe" else workdir / message["error_path"],
            processors=processors, bound_to=bound_to,
        )  # fmt: skip
        run.session = run.process.session
        self._follow_phase(run)
        threading.Thread(target=self._await_exit, args=(key, run, run.process), daemon=True).start()

    def _await_exit(self, key: str, run: Run, process: JobProcess) -> None:
        code = process.popen.wait()
        if self._closing.is_set():
            return

        def over(now_us: int) -> None:
            del self._by_key[key]
            process.close()
            if run.line is not None:
                run.line.close()
            if self._copy is not None:
                self._copy.leave(_own_names(run))  # before the next run of the job looks for it
            self._exited(run, code, now_us)
            self._acknowledge(run)
            for what in ("line", "exit"):
                self._executor.release((what, run.key))

        self._executor.post(over)

    # What the server wants.

    def change(self, run: Run, save_us: int, now_us: int) -> None:
        """The run's phase or nodes have changed; `save_us`: when what is done now is a whole checkpoint."""
        run.inputs.write_files()
        if run.line is None:
            self._follow_phase(run)
            return
        self._wake(run)
        self._say(run, run.word("change", run.not_before(now_us), save_us=save_us))

    def _follow_phase(self, run: Run) -> None:
        """Let the machine do to the process what the server's account says."""
        if run.process is not None and run.phase is not None and run.line is None:
            if not run.message["cores"]:  # else those who share its cores slow it down
                run.process.set_rate(Fraction(run.phase.num, run.phase.den))
            run.process.suspend(suspended=run.phase.suspended)

    def leave(self, run: Run, *, save: bool, why: str, now_us: int) -> None:
        """The job loses its nodes now."""
        if run.process is None:
            return
        if run.line is not None and run.line.has_called and not run.line.is_over:
            self._wake(run)
            self._say(run, {"what": "leave", "at_us": run.not_before(now_us), "save": save, "why": why})
            self._kill_later(run.process)
        else:
            run.process.kill()

    def terminate(self, run: Run) -> None:
        """SIGTERM to the whole session, SIGKILL after the kill delay."""
        if run.process is not None:
            run.process.terminate()
            self._kill_later(run.process)

    def _kill_later(self, process: JobProcess) -> None:
        def kill() -> None:
            try:
                process.popen.wait(self._kill_delay_s)
            except subprocess.TimeoutExpired:
                process.signal(signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()

    # What `emulator-job` says.

    def _say(self, run: Run, word: dict[str, Any]) -> None:
        if run.line is not None:
            self._executor.hold(("line", run.key))
            run.line.say(word)

    def _hear(self, key: str, connection: Connection, message: Message) -> None:
        self._executor.post(lambda now_us: self._take(key, connection, message, now_us))

    def _take(self, key: str, connection: Connection, message: Message, now_us: int) -> None:
        run = self._by_key.get(key)
        if run is None or run.line is None:
            connection.close()  # not one of ours, or of a run that is over
            return
        match message.get("do"):
            case "hello":
                run.line.called(connection)
            case "wait":
                run.line.answered(int(message["until_us"]), int(message["done"]))
                if not run.line.is_busy:
                    self._rest(run, run.line, now_us)
            case "over":
                run.line.is_over, run.line.done = True, int(message["done"])
                self._executor.hold(("exit", run.key))
                connection.send({"do": "noted"})
            case _:
                connection.close()

    def _rest(self, run: Run, line: JobLine, now_us: int) -> None:
        """The process has heard everything: it sleeps until its time comes."""
        if self._copy is not None:
            self._copy.send(_own_names(run))  # before the time is another one
        self._acknowledge(run)
        if run.phase is not None and run.phase.suspended and run.process is not None:
            run.process.suspend(suspended=True)
        until_us = line.until_us
        if until_us is not None and until_us != NEVER_US:
            tick = partial(self._tick, run, line, until_us)
            self._executor.at(max(until_us, now_us), tick, run.rank, order=run.key[0])
        self._executor.release(("line", run.key))

    def _tick(self, run: Run, line: JobLine, until_us: int, now_us: int) -> None:
        if line.until_us == until_us and not line.is_busy and not line.is_over:
            self._say(run, {"what": "tick", "at_us": run.not_before(now_us)})

    def _wake(self, run: Run) -> None:
        if run.process is not None:
            run.process.suspend(suspended=False)

    def _acknowledge(self, run: Run) -> None:
        for acknowledge in run.acknowledgements:
            acknowledge()
        run.acknowledgements.clear()


def _own_names(run: Run) -> tuple[str, ...]:
    """What the names of a job's files begin with, up to the first dot: its name, and its number."""
    return str(run.message["name"]).partition(".")[0], str(run.message["id"]).partition(".")[0]
