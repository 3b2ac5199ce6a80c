"""The batch server as a process: `python -m emulator.live.torque.server --config FILE [--clock FILE]`.

One thread, the executor's, owns all state; a thread a connection carries messages to it and answers back.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import US, SystemClock
from emulator.clock.shared_clock import SharedClock
from emulator.cluster.cluster import Cluster
from emulator.events.external_events import ExternalEvents
from emulator.events.node_outages import NodeOutages
from emulator.live.failure import Failure, forget_failure, write_failure
from emulator.live.process import stop_on_signal, write_address
from emulator.live.settings import SettingsError, load_settings
from emulator.live.torque import commands
from emulator.live.torque.accounting import AccountingLog
from emulator.live.torque.batch import BatchServer
from emulator.live.torque.config import ServerConfig
from emulator.live.torque.journal import Journal, is_change
from emulator.live.torque.mechanism_scheduler import MachineScheduler, MechanismScheduler
from emulator.live.torque.nodes import Enrolment, MarksFile, NodeFacts
from emulator.live.torque.protocol import Connection, Message, ProtocolError, notice_loss
from emulator.live.torque.scheduler import FailingNodes
from emulator.plugins.failure import PluginError, plugin_error
from emulator.runs.scenario_events import failures_of
from emulator.simulation.executor_live import ExecutorStoppedError, LiveExecutor
from emulator.simulation.mechanism import HasFailures, HasMachine, ability, mechanism_of, plugin_name
from emulator.simulation.warm import warm_mechanism

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from balancer.clock import Clock
    from emulator.live.torque.job_effects import JobEffects, Link
    from emulator.live.torque.scheduler import Scheduler
    from emulator.simulation.mechanism import Mechanism
    from emulator.workload.table import JobTable

_RETURN = "agents come back"
_RETURN_S = 3.0
"""How long (wall time) a server that was started again gives its agents to register before time goes on."""


def _mechanism_scheduler(config: ServerConfig, executor: LiveExecutor, effects: JobEffects) -> Scheduler:
    """The mechanism of the settings, with the workload that it gets. Raises ValueError; PluginError, if it fails."""
    from emulator.workload.store import load  # noqa: PLC0415 - slow, and most servers have no mechanism

    assert config.workload is not None  # noqa: S101 - the settings have both or neither
    jobs = load(config.workload)
    mechanism, name = mechanism_of(config.mechanism), plugin_name(config.mechanism)
    parts: dict[str, Any] = {"node_names": config.nodes, "executor": executor, "effects": effects}
    maker = ability(mechanism, HasMachine)  # type: ignore[type-abstract]
    if maker is None and config.failures is not None:
        return _failing_scheduler(config, mechanism, name, jobs, parts)
    if maker is None:
        cluster = Cluster(len(config.nodes), config.scheduler, jobs, simulated=False)
        return MechanismScheduler(cluster, mechanism, name, **parts)
    warm_mechanism(mechanism)  # a clock at a free pace would run on meanwhile
    try:
        machine = maker.make_machine(len(config.nodes), config.scheduler, jobs, config.seed)
    except Exception as error:
        raise plugin_error(f"mechanism {name}", "make_machine", 0, error) from error
    return MachineScheduler(machine, mechanism, name, jobs, **parts)


def _failing_scheduler(
    config: ServerConfig, mechanism: Mechanism, name: str, jobs: JobTable, parts: Mapping[str, Any]
) -> Scheduler:
    """The loop of virtual time knows when nodes fail: the fleet follows it as it follows a machine that keeps the time.

    Raises ValueError, PluginError.
    """
    assert config.failures is not None  # noqa: S101 - asked for
    knows = ability(mechanism, HasFailures)  # type: ignore[type-abstract]
    if knows is None:
        raise ValueError(f"failures: the mechanism {name} does not know what they mean")
    warm_mechanism(mechanism)
    knows.expect_failures()
    external_events = ExternalEvents(outages=_outages(config))
    cluster = Cluster(len(config.nodes), config.scheduler, jobs)
    return MachineScheduler(cluster, mechanism, name, jobs, external_events=external_events, **parts)


def _outages(config: ServerConfig) -> NodeOutages:
    assert config.failures is not None  # noqa: S101 - asked for
    with config.plugged_in():
        failures = failures_of(config.failures, config.seed, config.nodes)
    return NodeOutages(
        len(config.nodes),
        failures,
        lost=config.failures.jobs == "lost",
        model=plugin_name(config.failures.model),
    )


class TorqueServer:
    """Listens as soon as it is made; `run` serves until `stop`.

    With `expect_nodes` there is no batch system before that many nodes have registered; `Enrolment` waits for them.
    """

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        config.home.mkdir(parents=True, exist_ok=True)
        forget_failure(config.home)
        self._config = config
        self._clock = clock
        self._private = config.home / "server_priv"
        self._executor = LiveExecutor(clock, self._schedule_pass, self._note_due, self._break_off)
        self._log = AccountingLog(self._private / "accounting")
        self._journal = Journal(self._private / "journal" if config.keep_jobs else None)
        self._links = count(1)
        self._enrolment = Enrolment(config, self._private / "nodes")
        self._batch: BatchServer | None = None
        self._failure: Failure | None = None
        self._to_the_end = ExitStack()
        """Holds the clock after a failure: a context that nobody keeps would let it go on."""
        self._left: dict[str, dict[str, Any]] = {}
        """What `state` and `export` are answered after a failure."""
        self._stopped = threading.Event()
        if self._enrolment.names:
            self._begin()
            self._enrolment.opened.set()
        self._listener = socket.create_server((config.host, config.port), backlog=512)
        host, port = self._listener.getsockname()[:2]
        self.address: tuple[str, int] = (str(host), int(port))
        write_address(config.home / "address", self.address)

    def run(self) -> None:
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        try:
            if self._enrolment.wait():
                if self._batch is None:
                    self._begin()
                self._enrolment.opened.set()
                self._executor.run()
        except PluginError as error:
            if self._failure is None:
                self._break_off(error)
            self._enrolment.opened.set()
            self._stopped.wait()  # until then it can be asked what happened
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept, which closing does not
            self._listener.close()
            self._log.close()
            self._journal.close()

    def stop(self) -> None:
        self._stopped.set()
        self._enrolment.stop()
        self._executor.stop()

    def _break_off(self, error: PluginError) -> None:
        """A plug-in failed: time stands, and nothing happens any more. What happened can still be asked for."""
        self._to_the_end.enter_context(self._clock.paused())
        failure = write_failure(self._config.home, error)
        sys.stderr.write(f"{failure.traceback}torque server: {error}\n")
        batch = self._batch
        state = {} if batch is None else batch.short_state()
        export = {"jobs": [], "offline": []} if batch is None else batch.export()
        self._left = {"state": state | {"failed": True}, "export": export}
        self._failure = failure

    def _begin(self) -> None:
        """A new batch system, or the one that was here before, by its journal."""
        marks = MarksFile(self._private / "marks.json")
        past = self._journal.past
        now_us = self._clock.now_us()
        if past:
            now_us, _, (marks.next_number, marked) = past[0]
            marks.nodes = {name: (bool(offline), str(note)) for name, (offline, note) in marked.items()}
        else:
            self._journal.write(now_us, "begin", marks.next_number, marks.nodes)
        config = self._config.model_copy(update={"nodes": self._enrolment.names, "expect_nodes": 0})
        has_mechanism = config.mechanism is not None
        batch = self._batch = BatchServer(
            config,
            self._executor,
            self._log,
            marks,
            make_scheduler=partial(_mechanism_scheduler, config, self._executor) if has_mechanism else None,
            epoch_us=0 if isinstance(self._clock, SystemClock) else config.epoch_s * US,
            checks_work=isinstance(self._clock, SharedClock) and self._clock.is_held,
        )
        if not has_mechanism:
            batch.start_cycle(now_us)
            if config.failures is not None:
                FailingNodes(_outages(config), batch, self._executor)
        if past:
            self._log.muted = marks.muted = True
            links = _repeat(batch, self._executor, past)
            self._log.muted = marks.muted = False
            self._links = count(max(links, default=0) + 1)
            self._lose(batch, links)

    def _lose(self, batch: BatchServer, links: Mapping[int, Link]) -> None:
        """The agents of the server's former life; on a paced clock there is time for them to come back."""
        now_us = self._clock.now_us()
        for number, link in links.items():
            self._journal.write(now_us, "lost", number)
            batch.lost(link, now_us)
        self._executor.hold(_RETURN)
        timer = threading.Timer(
            _RETURN_S, lambda: self._executor.post(lambda _: self._executor.release(_RETURN))
        )
        timer.daemon = True
        timer.start()

    @property
    def batch(self) -> BatchServer:
        if self._batch is None:
            raise ProtocolError(self._enrolment.story())
        return self._batch

    def _schedule_pass(self, now_us: int) -> None:
        self.batch.schedule_pass(now_us)

    def _note_due(self, now_us: int) -> None:
        self._journal.write(now_us, "due")

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return  # closed: the server ends
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        connection = Connection(sock)
        try:
            notice_loss(sock)
            message = connection.receive()
            if message is not None:
                self._answer(connection, message)
        except (ProtocolError, KeyError, TypeError) as error:
            connection.send({"do": "refused", "error": f"not a request of the batch server: {error}"})
        except OSError:
            pass  # the other side is gone and needs no answer
        finally:
            connection.finish()

    def _answer(self, connection: Connection, message: Message) -> None:
        if self._failure is None:
            try:
                self._answer_alive(connection, message)
            except (PluginError, ExecutorStoppedError):
                if self._failure is None:
                    raise
            else:
                return
        self._answer_broken_off(connection, message, self._failure.reason)

    def _answer_broken_off(self, connection: Connection, message: Message, reason: str) -> None:
        match message.get("do"):
            case "command":
                connection.send([1, "", f"{message['argv'][0]}: the run has ended: {reason}\n"])
            case "state" | "export" as what:
                connection.send(self._left[what])
            case "nodes":
                connection.send({"nodes": [], "expected": 0, "open": False, "missing": []})
            case _:
                connection.send({"do": "refused", "error": reason})

    def _answer_alive(self, connection: Connection, message: Message) -> None:
        match message.get("do"):
            case "command":
                self._run_command(connection, message)
            case "state":
                connection.send(self._executor.call(lambda _: self.batch.short_state()))
            case "export":
                connection.send(self._executor.call(lambda _: self.batch.export()))
            case "nodes":
                names, expected = self._enrolment.progress()
                is_open, missing = self._enrolment.opened.is_set(), self._enrolment.missing
                connection.send({"nodes": names, "expected": expected, "open": is_open, "missing": missing})
            case "open":
                self._enrolment.count_in([str(name) for name in message["missing"]])
                connection.send({})
            case "register":
                if self._enrolment.enrol([str(name) for name in message["nodes"]]):
                    link = AgentLink(next(self._links), connection, self.batch, self._executor, self._journal)
                    link.serve(message)
            case other:
                raise ProtocolError(f"unknown request {other!r}")

    def _run_command(self, connection: Connection, message: Message) -> None:
        argv = tuple(map(str, message["argv"]))
        environ = {str(name): str(value) for name, value in message.get("env", {}).items()}
        call = commands.Invocation(argv, str(message["user"]), str(message["cwd"]), environ)
        if not self._enrolment.opened.is_set():
            connection.send([1, "", f"{argv[0]}: {self._enrolment.story()}\n"])
            return

        def carry_out(now_us: int) -> commands.Reply | commands.Need:
            reply = commands.run(self.batch, call, now_us)
            if not isinstance(reply, commands.Need) and is_change(argv):
                self._journal.write(now_us, "command", asdict(call))
            return reply

        reply = self._executor.call(carry_out)
        if isinstance(reply, commands.Need):
            connection.send(["read", reply.path])
            read = connection.receive()
            if read is None:
                return
            failed = (int(read["errno"]), str(read["error"])) if "errno" in read else None
            call = commands.Invocation(argv, call.user, call.cwd, environ, read.get("text"), failed)
            reply = self._executor.call(carry_out)
        if isinstance(reply, commands.Need):
            raise ProtocolError("the command's script was not sent")
        connection.send([reply.status, reply.stdout, reply.stderr])


class _GoneLink:
    """An agent of the past: what was sent to it was sent then."""

    def send(self, message: dict[str, Any]) -> None:
        """It has been."""


def _repeat(
    batch: BatchServer, executor: LiveExecutor, past: Sequence[tuple[int, str, list[Any]]]
) -> dict[int, Link]:
    """Tell a new server all that the former one was told; the agents that it had at its end, by number."""
    links: dict[int, Link] = {}
    for now_us, what, details in past[1:]:
        match what, details:
            case "due", []:
                executor.run_due(now_us)
            case "command", [call]:
                failed = None if call["read_error"] is None else tuple(call["read_error"])
                commands.run(
                    batch,
                    commands.Invocation(**call | {"argv": tuple(call["argv"]), "read_error": failed}),
                    now_us,
                )
            case "register", [number, registration]:
                links[number] = _GoneLink()
                register(batch, links[number], registration, now_us)
            case "report", [number, message]:
                report(batch, links[number], message, now_us)
            case "lost", [number]:
                batch.lost(links.pop(number), now_us)
            case _:
                raise ProtocolError(f"the journal holds {what!r}, which this server does not know")
    return links


def register(batch: BatchServer, link: Link, message: Message, now_us: int) -> dict[str, Any]:
    """A registration as it came over the wire; the answer to it."""
    names, slots = [str(name) for name in message["nodes"]], int(message["np"])
    running = [(int(number), int(run)) for number, run in message["jobs"]]
    facts = None
    if (told := message.get("facts")) is not None:
        facts = NodeFacts(str(told["address"]), int(told["cores"]), int(told["memory_kib"]))
    return batch.register(link, names, slots, running, now_us, facts=facts)


def report(batch: BatchServer, link: Link, message: Message, now_us: int) -> None:
    """An agent's report as it came over the wire."""
    number, run, session = int(message["job"]), int(message["run"]), int(message["session"])
    match message["do"]:
        case "changed":
            batch.actions.changed(int(message["seq"]), message.get("done"))
        case "started":
            batch.started(number, run, session)
        case "ended":
            status, requeue = int(message["exit_status"]), bool(message["requeue"])
            batch.ended(number, run, status, session, now_us, requeue=requeue, done=message.get("done"))
            link.send({"do": "noted", "job": number, "run": run})
        case other:
            raise ProtocolError(f"unknown report {other!r}")


class AgentLink:
    """A node agent's connection; its reader thread hands every report to the executor."""

    def __init__(
        self,
        number: int,
        connection: Connection,
        batch: BatchServer,
        executor: LiveExecutor,
        journal: Journal,
    ) -> None:
        self._number = number
        self._connection = connection
        self._batch = batch
        self._executor = executor
        self._journal = journal

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.send(message)
        except OSError:
            self._connection.close()  # the reader notices and reports the agent as lost

    def serve(self, registration: Message) -> None:
        def come(now_us: int) -> bool:
            self._journal.write(now_us, "register", self._number, registration)
            answer = register(self._batch, self, registration, now_us)
            self.send(answer)
            return bool(answer["do"] == "registered")

        if not self._executor.call(come):
            return
        try:
            while (message := self._connection.receive()) is not None:
                self._take(message)
        except OSError:
            pass  # reset by the agent's death, which is reported below
        finally:
            self._executor.post(self._go)

    def _go(self, now_us: int) -> None:
        self._journal.write(now_us, "lost", self._number)
        self._batch.lost(self, now_us)

    def _take(self, message: Message) -> None:
        if message.get("do") not in {"changed", "started", "ended"}:
            raise ProtocolError(f"unknown report {message.get('do')!r}")

        def take(now_us: int) -> None:
            self._journal.write(now_us, "report", self._number, message)
            report(self._batch, self, message, now_us)

        self._executor.post(take)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="emulator.live.torque.server", description="A Torque-like batch server."
    )
    parser.add_argument("--config", type=Path, required=True, help="settings (YAML or JSON)")
    parser.add_argument(
        "--clock", type=Path, help="clock file of the run; without it the machine's time is used"
    )
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        try:
            config = load_settings(options.config, ServerConfig)
            stack.enter_context(config.plugged_in())
            clock = SharedClock(options.clock, name="batch") if options.clock else SystemClock()
            server = TorqueServer(config, clock)
        except (SettingsError, OSError, ValueError) as error:
            sys.stderr.write(f"torque server: {error}\n")
            return 2
        except PluginError as error:  # its mechanism cannot even be made
            failure = write_failure(config.home, error)
            sys.stderr.write(f"{failure.traceback}torque server: {error}\n")
            return 1
        stop_on_signal(server.stop)
        server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
