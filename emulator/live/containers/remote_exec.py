"""Processes of a live run in other containers: `python -m emulator.live.containers.remote_exec NAME`.

A place is a container that starts what it is told to, through a socket in a folder that all containers share. A
connection is a process: a line of JSON says what to start, the place answers with its number and, when it has ended,
with its status. If the connection ends, the process does, so nobody is left when the run is killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, wall_us
from emulator.live.containers.entry import bring_kernels
from emulator.live.names import SHARED
from emulator.live.process import FleetProcess, FleetProcessError, stop_on_signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SOCKETS = SHARED / "places"
_COMES_S = 120.0
_HOME_S = 20.0
_STOP_S = 10.0
_LOOK_S = 0.1
_TERMINATE, _KILL = b"terminate\n", b"kill\n"
_GONE = -int(signal.SIGKILL)
_MOST_WAITING = 512


class PlacedProcess(FleetProcess):
    """A process in another container, whose output goes to `logs/NAME.log` on the volume that both have."""

    def __init__(  # it starts none here
        self, name: str, command: Sequence[str], logs: Path, environ: Mapping[str, str], place: Path
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self.log.touch()
        self._status: int | None = None
        self._received = b""
        self._place = _connect(place, _COMES_S)
        order = {"command": list(command), "environ": dict(environ), "log": str(self.log)}
        self._place.sendall(json.dumps(order).encode() + b"\n")

    @property
    def exit_status(self) -> int | None:
        """None while it runs. Of one whose container is gone: as if it had been killed."""
        if self._status is None:
            self._place.setblocking(False)
            with suppress(BlockingIOError):
                self._read()
        return self._status

    @property
    def pid(self) -> int:
        """In its own container."""
        while b"\n" not in self._received and self._status is None:
            self._place.settimeout(_COMES_S)
            self._read()
        return int(self._received.partition(b"\n")[0])

    def terminate(self) -> None:
        if self.exit_status is None:
            self._tell(_TERMINATE)

    def stop(self) -> None:
        try:
            self.terminate()
            self._wait(_STOP_S)
        finally:
            self._tell(_KILL)
            self._wait(_STOP_S)
            self._place.close()
            self._status = _GONE if self._status is None else self._status

    def _tell(self, what: bytes) -> None:
        with suppress(OSError):  # its container is gone, and it with that
            self._place.settimeout(_STOP_S)
            self._place.sendall(what)

    def _wait(self, limit_s: float) -> None:
        end_us = wall_us() + micros(limit_s)
        while self._status is None and wall_us() < end_us:
            self._place.settimeout(_LOOK_S)
            with suppress(TimeoutError):
                self._read()

    def _read(self) -> None:
        try:
            found = self._place.recv(64)
        except ConnectionError:
            found = b""
        self._received += found
        lines = self._received.split(b"\n")
        if len(lines) > 2:  # noqa: PLR2004 - its number, its status
            self._status = int(lines[1])
        elif not found:
            self._status = _GONE


def _connect(place: Path, limit_s: float) -> socket.socket:
    """Containers come up in any order. Raises FleetProcessError if this one does not."""
    end_us = wall_us() + micros(limit_s)
    pause = threading.Event()
    while True:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            found.connect(str(place))
        except OSError as error:
            found.close()
            if wall_us() > end_us:
                raise FleetProcessError(
                    f"the container {place.stem} did not come within {limit_s:g} s ({error})"
                ) from error
            pause.wait(_LOOK_S)
        else:
            return found


def shutdown_executors(places: Iterable[Path]) -> None:
    """The run is over: these places come to their end, those too that are only just coming up."""
    for path in places:
        with suppress(OSError, FleetProcessError), _connect(path, _HOME_S) as place:
            place.sendall(b'{"over": true}\n')


class Place:
    """One container's: starts processes until it is sent home or stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()

    def stop(self) -> None:
        self._over.set()

    def serve(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)  # of the run before
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(self._path))
            listening.listen(_MOST_WAITING)
            listening.settimeout(_LOOK_S)
            while not self._over.is_set():
                with suppress(TimeoutError):
                    connection, _ = listening.accept()
                    threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()
        self._path.unlink(missing_ok=True)

    def _serve_one(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        with connection, connection.makefile("rb") as orders:
            line = orders.readline()
            order: dict[str, Any] = json.loads(line) if line else {}
            if "command" not in order:
                if "over" in order:
                    self.stop()
                return
            with Path(order["log"]).open("ab") as log:
                process = subprocess.Popen(
                    order["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    env=os.environ | order["environ"], start_new_session=True,
                )  # fmt: skip
            connection.sendall(f"{process.pid}\n".encode())
            threading.Thread(target=_tell_end, args=(process, connection), daemon=True).start()
            for word in orders:
                if word == _TERMINATE:
                    process.terminate()
                elif word == _KILL:
                    break
            with suppress(ProcessLookupError):  # nobody of the session is left: what is wanted
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            orders.read()  # until the other side has heard of the end


def _tell_end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    status = process.wait()
    with suppress(OSError):  # who asked is gone
        connection.sendall(f"{status}\n".encode())


def be_first_process() -> None:
    """The first process of a container is given all orphans: it reaps them and passes signals on, a child goes on."""
    if os.getpid() != 1:
        return
    child = os.fork()
    if child == 0:
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: os.kill(child, got))
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            sys.exit(code if code >= 0 else 128 - code)


def main() -> None:
    os.umask(0o002)
    be_first_process()
    bring_kernels()
    place = Place(SOCKETS / f"{sys.argv[1]}.sock")
    stop_on_signal(place.stop)
    place.serve()


if __name__ == "__main__":
    main()
