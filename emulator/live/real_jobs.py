"""Jobs on an agent's nodes: runs, real processes, and those of them that speak with the agent (`emulator-job`).

A process calls its agent, one JSON object a line over loopback, and is told the time and what happens to it. Each
message of the agent is answered by `wait` or `over`; in between the agent holds a paced clock, so that a job never
misses its moment and needs no clock of its own.

    {"do": "hello", "key": ..., "total": ...}     ->  {"what": "begin", ...}      the messages of `job/control.py`
    {"do": "wait", "until_us": ..., "done": ...}  ->  {"what": "tick" | "change" | "leave", ...}
    {"do": "over", "done": ...}                   ->  {"do": "noted"}
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import threading
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US
from emulator.clock.event_priority import EventPriority
from emulator.live.job.control import ADDRESS_VARIABLE, KEY_VARIABLE
from emulator.live.job.spin import PROCESSORS_VARIABLE
from emulator.live.job_process import JobProcess, Processes
from emulator.live.torque.jobs import sleep_us
from emulator.live.torque.protocol import Connection, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.folder_copy import FolderCopy
    from emulator.live.hooks import HookInputs
    from emulator.live.torque.protocol import Message
    from emulator.simulation.executor_live import LiveExecutor

# Runs, as their node's agent keeps them.

Key = tuple[int, int]
"""A run of a job: its number and which start it is."""


@dataclass(frozen=True, slots=True)
class Phase:
    """How a job computes from now on, by the account of a server that keeps one; times in us, NEVER_US for not at all.

    It computes from `since_us` on, at `num / den` of what its nodes can do, and is over at `end_us`. Of its own
    it writes a checkpoint after each `interval_us` of computing, which costs `cost_us`. `begun`: so much work
    of earlier runs counts. `rank`: its place among what happens at one time. `total`: how much work there is, where the
    account counts it in its own units (else None); `told_end`: the job is not over before it is told.
    """

    since_us: int
    end_us: int
    num: int = 1
    den: int = 1
    interval_us: int = 0
    cost_us: int = 0
    suspended: bool = False
    begun: int = 0
    rank: EventPriority = EventPriority.JOB_END
    total: int | None = None
    told_end: bool = False


def phase_of(message: dict[str, Any]) -> Phase | None:
    """The phase in a message of the server."""
    found = message.get("phase")
    return None if found is None else Phase(**found | {"rank": EventPriority(found["rank"])})


@dataclass(slots=True)
class Run:
    """A job on its mother superior. `plan` counts its phases, so that an alarm of an earlier one is recognised."""

    key: Key
    message: dict[str, Any]
    inputs: HookInputs
    session: int = 0
    process: JobProcess | None = None
    line: JobLine | None = None
    phase: Phase | None = None
    plan: int = 0
    begun: bool = False
    kill_why: str = ""
    over_walltime: bool = False
    report: dict[str, Any] | None = None
    finishing: bool = False
    acknowledgements: list[Callable[[], None]] = field(default_factory=list)
    """To be called when its process has heard all that it was told."""
    _heard_us: int = 0

    @property
    def start_us(self) -> int:
        return int(self.message["start_us"])

    @property
    def rank(self) -> EventPriority:
        return EventPriority.JOB_END if self.phase is None else self.phase.rank

    @property
    def done(self) -> int | None:
        """The work that its process says it has done, if it says so."""
        return None if self.line is None else self.line.done

    @property
    def sleeps_us(self) -> int | None:
        """How long the job sleeps, if that is all that it does."""
        return sleep_us(self.message["script"])

    def not_before(self, now_us: int) -> int:
        """Now, for a process that must never hear of an earlier time than before."""
        self._heard_us = max(self._heard_us, now_us)
        return self._heard_us

    def first_word(self) -> dict[str, Any]:
        """What an `emulator-job` hears first: a job computes since its start, however long its process took."""
        word = self.word("begin", self.not_before(self.start_us)) | {"run": self.key[1]}
        if self.phase is not None:
            phase = self.phase
            word |= {"begun": phase.begun, "interval_us": phase.interval_us, "cost_us": phase.cost_us}
            word |= {"total": phase.total, "told_end": phase.told_end}
        return word

    def word(self, what: str, at_us: int, save_us: int = NEVER_US) -> dict[str, Any]:
        word: dict[str, Any] = {"what": what, "at_us": at_us, "nodes": len(self.message["hosts"])}
        if self.phase is not None:
            phase = self.phase
            word |= {"num": phase.num, "den": phase.den, "since_us": phase.since_us, "save_us": save_us}
        return word


# How processes speak with the agent.


class JobLine:
    """The agent's end of the line to one run's process, which may not have called yet. Owned by one thread."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._owes_answer = False
        self._messages: deque[dict[str, Any]] = deque()
        self.until_us: int | None = None
        """When it wants to be told the time; None while it does not wait."""
        self.is_over = False
        self.done: int | None = None
        """What it said last that it has done."""

    @property
    def has_called(self) -> bool:
        return self._connection is not None

    @property
    def is_busy(self) -> bool:
        """A message is under way or waits for its turn."""
        return self._owes_answer or bool(self._messages)

    def called(self, connection: Connection) -> None:
        """The process is there; its first message must be among those that wait for it."""
        self._connection = connection
        self._send_next()

    def say(self, message: dict[str, Any]) -> None:
        """Say this when all that was said before is answered."""
        self._messages.append(message)
        if not self._owes_answer:
            self._send_next()

    def answered(self, until_us: int, done: int) -> None:
        """The process has done what it was told, and waits."""
        self._owes_answer = False
        self.done = done
        self.until_us = until_us
        self._send_next()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _send_next(self) -> None:
        if self._connection is None or not self._messages or self.is_over:
            return
        message = self._messages.popleft()
        self._owes_answer, self.until_us = True, None
        try:
            self._connection.send(message)
        except OSError:
            self._connection.close()  # the process is gone, which its end tells


class JobPort:
    """Listens for processes; `heard(key, connection, message)` is called from a thread for each thing one says."""

    def __init__(self, heard: Callable[[str, Connection, Message], None]) -> None:
        self._heard = heard
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        host, port = self._listener.getsockname()[:2]
        self._address = f"{host}:{port}"
        threading.Thread(target=self._accept, name="jobs", daemon=True).start()

    def environ(self, key: str) -> dict[str, str]:
        """What a process needs in order to call."""
        return {ADDRESS_VARIABLE: self._address, KEY_VARIABLE: key}

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept, which closing does not
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return  # closed: the agent ends
            threading.Thread(target=self._serve, args=(Connection(sock),), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        key = ""
        try:
            while (message := connection.receive()) is not None:
                key = str(message.get("key", key))
                self._heard(key, connection, message)
        except ProtocolError:
            connection.close()  # not one of our processes
        except OSError:
            pass  # it is gone, which its end tells


# The processes.

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
        key = secrets.token_hex(16)  # by which a process shows which run it belongs to
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
