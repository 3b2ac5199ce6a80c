"""The batch server as a process: `python -m emulator.live.torque.server --config FILE [--clock FILE]`.

One thread, the executor's, owns all state; a thread a connection carries messages to it and answers back.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from balancer.clock import SharedClock, SystemClock
from emulator.harness.cluster import Cluster
from emulator.harness.executor_live import LiveExecutor
from emulator.harness.mechanism import HasMachine, ability
from emulator.live.process import stop_on_signal, write_address
from emulator.live.settings import SettingsError, load_settings
from emulator.live.torque import commands
from emulator.live.torque.accounting import AccountingLog
from emulator.live.torque.batch import BatchServer
from emulator.live.torque.config import ServerConfig
from emulator.live.torque.host import MechanismHost
from emulator.live.torque.machine_host import MachineHost
from emulator.live.torque.marks import MarksFile
from emulator.live.torque.protocol import Connection, Message, ProtocolError
from emulator.plugins import make_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from balancer.clock import Clock
    from emulator.harness.mechanism import Mechanism
    from emulator.workload.table import JobTable


def _hosted(config: ServerConfig) -> tuple[JobTable | None, Mechanism | None]:
    """The workload and the mechanism of the settings, if they have one. Raises ValueError."""
    if config.mechanism is None or config.workload is None:
        return None, None
    from emulator.workload.store import load  # noqa: PLC0415 - slow, and most servers have no mechanism

    return load(config.workload), make_plugin("emulator.mechanisms", config.mechanism)


class TorqueServer:
    """Listens as soon as it is made; `run` serves until `stop`."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        config.home.mkdir(parents=True, exist_ok=True)
        self._executor = LiveExecutor(clock, self._schedule_pass)
        self._log = AccountingLog(config.home / "server_priv" / "accounting")
        jobs, mechanism = _hosted(config)
        cluster = Cluster(len(config.nodes), config.scheduler, jobs, simulated=False)
        self._batch = BatchServer(
            config,
            cluster,
            self._executor,
            self._log,
            MarksFile(config.home / "server_priv" / "marks.json"),
            epoch_us=0 if isinstance(clock, SystemClock) else config.epoch_us,
        )
        if mechanism is not None:
            maker = ability(mechanism, HasMachine)  # type: ignore[type-abstract]
            parts: dict[str, Any] = {
                "node_names": config.nodes, "executor": self._executor, "outside": self._batch,
            }  # fmt: skip
            if maker is None or jobs is None:
                self._batch.host = MechanismHost(cluster, mechanism, **parts)
            else:
                machine = maker.make_machine(len(config.nodes), config.scheduler, jobs, config.seed)
                # As in virtual time it is asked for no more than `Machine` has.
                self._batch.host = MachineHost(cast("Cluster", machine), mechanism, jobs, **parts)
        else:
            self._batch.start_cycle(clock.now_us())
        self._listener = socket.create_server((config.host, config.port), backlog=512)
        host, port = self._listener.getsockname()[:2]
        self.address: tuple[str, int] = (str(host), int(port))
        write_address(config.home / "address", self.address)

    def run(self) -> None:
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        try:
            self._executor.run()
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept, which closing does not
            self._listener.close()
            self._log.close()

    def stop(self) -> None:
        self._executor.stop()

    def _schedule_pass(self, now_us: int) -> None:
        self._batch.schedule_pass(now_us)

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
            message = connection.receive()
            if message is not None:
                self._answer(connection, message)
        except (ProtocolError, KeyError, TypeError) as error:
            connection.send({"do": "refused", "error": f"not a request of the batch server: {error}"})
        except OSError:
            pass  # the other side is gone and needs no answer
        finally:
            connection.close()

    def _answer(self, connection: Connection, message: Message) -> None:
        match message.get("do"):
            case "command":
                self._run_command(connection, message)
            case "state":
                connection.send(self._executor.call(lambda _: self._batch.short_state()))
            case "export":
                connection.send(self._executor.call(lambda _: self._batch.export()))
            case "register":
                AgentLink(connection, self._batch, self._executor).serve(message)
            case other:
                raise ProtocolError(f"unknown request {other!r}")

    def _run_command(self, connection: Connection, message: Message) -> None:
        argv = tuple(map(str, message["argv"]))
        environ = {str(name): str(value) for name, value in message.get("env", {}).items()}
        call = commands.Invocation(argv, str(message["user"]), str(message["cwd"]), environ)
        reply = self._executor.call(lambda now_us: commands.run(self._batch, call, now_us))
        if isinstance(reply, commands.Need):
            connection.send(["read", reply.path])
            read = connection.receive()
            if read is None:
                return
            failed = (int(read["errno"]), str(read["error"])) if "errno" in read else None
            call = commands.Invocation(argv, call.user, call.cwd, environ, read.get("text"), failed)
            reply = self._executor.call(lambda now_us: commands.run(self._batch, call, now_us))
        if isinstance(reply, commands.Need):
            raise ProtocolError("the command's script was not sent")
        connection.send([reply.status, reply.stdout, reply.stderr])


class AgentLink:
    """A node agent's connection; its reader thread hands every report to the executor."""

    def __init__(self, connection: Connection, batch: BatchServer, executor: LiveExecutor) -> None:
        self._connection = connection
        self._batch = batch
        self._executor = executor

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.send(message)
        except OSError:
            self._connection.close()  # the reader notices and reports the agent as lost

    def serve(self, registration: Message) -> None:
        names, slots = [str(name) for name in registration["nodes"]], int(registration["np"])
        running = [(int(number), int(run)) for number, run in registration["jobs"]]

        def register(now_us: int) -> bool:
            answer = self._batch.register(self, names, slots, running, now_us)
            self.send(answer)
            return bool(answer["do"] == "registered")

        if not self._executor.call(register):
            return
        try:
            while (message := self._connection.receive()) is not None:
                self._take(message)
        except OSError:
            pass  # reset by the agent's death, which is reported below
        finally:
            self._executor.post(lambda now_us: self._batch.lost(self, now_us))

    def _take(self, message: Message) -> None:
        number, run = int(message["job"]), int(message["run"])
        session = int(message["session"])
        match message["do"]:
            case "changed":
                seq = int(message["seq"])
                self._executor.post(lambda _: self._batch.changed(seq))
            case "started":
                self._executor.post(lambda _: self._batch.started(number, run, session))
            case "ended":
                status, requeue = int(message["exit_status"]), bool(message["requeue"])

                def ended(now_us: int) -> None:
                    self._batch.ended(number, run, status, session, now_us, requeue=requeue)
                    self.send({"do": "noted", "job": number, "run": run})

                self._executor.post(ended)
            case other:
                raise ProtocolError(f"unknown report {other!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="emulator.live.torque.server", description="A Torque-like batch server."
    )
    parser.add_argument("--config", type=Path, required=True, help="settings (YAML or JSON)")
    parser.add_argument(
        "--clock", type=Path, help="clock file of the run; without it the machine's time is used"
    )
    options = parser.parse_args(arguments)
    try:
        config = load_settings(options.config, ServerConfig)
        server = TorqueServer(config, SharedClock(options.clock) if options.clock else SystemClock())
    except (SettingsError, OSError, ValueError) as error:
        sys.stderr.write(f"torque server: {error}\n")
        return 2
    stop_on_signal(server.stop)
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
