"""Processes of the live fleet: how they start, say that they are ready, are found and stop, and leave nobody behind."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, wall_us
from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_EPHEMERAL, _FIRST_FREE, _PORTS = 32_768, 1024, 8192


def write_ready(path: Path | None, **more: str) -> None:
    """Write `{"pid": ..., **more}`; the file appears whole. Nothing happens without a path."""
    if path is not None:
        write_text(path, json.dumps(more | {"pid": os.getpid()}) + "\n")


def read_ready(path: Path) -> dict[str, Any] | None:
    """What a process wrote into a file that appears whole; None until it has."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def lasting_port() -> int:
    """A free port that nobody is given by chance: a server that is started again finds it free again.

    It is below those that the kernel gives to connections, which ask the dead server's port again and again meanwhile.
    """
    low = int(_EPHEMERAL.read_text(encoding="ascii").split()[0]) if _EPHEMERAL.exists() else _FIRST_EPHEMERAL
    ports = list(range(max(_FIRST_FREE, low - _PORTS), low))
    random.SystemRandom().shuffle(ports)
    for port in ports:
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def write_address(path: Path, address: tuple[str, int]) -> None:
    """Tell where a server listens; the file appears whole or not at all."""
    write_text(path, json.dumps({"host": address[0], "port": address[1]}))


def read_address(home: Path) -> tuple[str, int] | None:
    """Where the server with this home listens; None until it does."""
    found = read_ready(home / "address")
    return None if found is None else (str(found["host"]), int(found["port"]))


def party_name(nodes: tuple[str, ...]) -> str:
    """What the agent of these nodes is called at the clock."""
    return nodes[0] if len(nodes) == 1 else f"agent of {nodes[0]} to {nodes[-1]}"


def stop_on_signal(stop: Callable[[], None]) -> None:
    """SIGTERM and SIGINT call `stop`, in a thread: the handler may have interrupted a lock it needs."""

    def handler(*_: object) -> None:
        threading.Thread(target=stop, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


# Nobody is left behind.

_SCRIPT = """
trap '' HUP INT TERM
sessions=' '
tags=
files=
while read -r action session; do
    case $action in
        watch) sessions="$sessions$session " ;;
        tag) tags="$tags $session" ;;
        remove) files="$files $session" ;;
        forget) case $sessions in  # else what is not there would double the list
            *" $session "*) sessions="${sessions%% "$session" *} ${sessions#* "$session" }" ;;
        esac ;;
    esac
done
for session in $sessions; do
    group=$(sed -n 's/^[0-9]*:freezer://p' "/proc/$session/cgroup")
    kill -KILL "-$session"
    case $group in
        */emulator-job-*) echo THAWED > "/sys/fs/cgroup/freezer$group/freezer.state" ;;
    esac
done
# Who is found may have started another one, and who was being started is found a moment later.
silent=0
while [ -n "$tags$files" ] && [ $silent -lt 3 ]; do
    pids=$({
        for tag in $tags; do grep -lszFx -e "$tag" /proc/[0-9]*/environ; done
        for file in $files; do find /proc/[0-9]*/fd -lname "$file" -o -lname "$file (deleted)"; done
    } | cut -d/ -f3 | grep -vx "$PPID")
    if [ -n "$pids" ]; then silent=0; kill -KILL $pids; else silent=$((silent + 1)); sleep 0.05; fi
done
rm -rf $files
"""


class OrphanReaper:
    """A small shell that reads from a pipe which only we hold open; at its end it kills what it was told to watch.

    A suspended job dies only once it is thawed, where the freezer is that of cgroup version 1.

    The kernel closes the pipe however we end, SIGKILL included. Sessions that ended by themselves must be
    forgotten, because their number may be given to somebody else.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, session: int) -> None:
        """Kill this session (its leader's process number) should we be killed."""
        self._say(f"watch {session}\n")

    def forget(self, session: int) -> None:
        """A session that is watched is over."""
        with suppress(BrokenPipeError):  # without a guard there is nothing to forget
            self._say(f"forget {session}\n")

    def watch_tag(self, tag: str) -> None:
        """Kill every process with this entry (NAME=VALUE, no spaces) in its environment, whatever its session.

        For programs that put their children out of our reach. The tag must be of this run alone.
        """
        self._say(f"tag {tag}\n")

    def remove(self, path: Path) -> None:
        """Delete this file or folder at the end, and kill whoever has the file open. No spaces in its name.

        slurmstepd wipes its environment, and waits for ever where its slurmd died: it has the file of the run's time.
        """
        self._say(f"remove {path}\n")

    def close(self) -> None:
        """Kill what is still watched, and end."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait()

    def _say(self, line: str) -> None:
        if self._shell.stdin is not None and not self._shell.stdin.closed:
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()


# A process of the fleet.

_LOOK_S = 0.02
_STOP_S = 10.0


class FleetProcessError(RuntimeError):
    """A process of the fleet did not come up or ended by itself; the message holds the end of its log."""


class FleetProcess:
    """A process in a session of its own, whose output goes to `logs/NAME.log`; `reaper` ends it should we be killed."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        logs: Path,
        environ: Mapping[str, str] | None = None,
        reaper: OrphanReaper | None = None,
    ) -> None:
        self.name = name
        self._command = list(command)
        self._environ = environ
        self._reaper = reaper
        self._is_paused = False
        self.log = logs / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(environ or {}),
                start_new_session=True,
            )
        if reaper is not None:
            reaper.watch(self._process.pid)

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Block until `ready`. Raises FleetProcessError if the process ends first or the wall time runs out."""
        end_us = wall_us() + micros(limit_s)
        pause = threading.Event()
        while not ready():
            if self.exit_status is not None:
                raise FleetProcessError(
                    f"{self.name} ended with status {self.exit_status}:\n{self.log_end()}"
                )
            if wall_us() > end_us:
                raise FleetProcessError(f"{self.name} was not ready within {limit_s:g} s:\n{self.log_end()}")
            pause.wait(_LOOK_S)

    def wait_ready(self, path: Path, limit_s: float = 60.0) -> dict[str, Any]:
        """What it writes into its ready file, once it has. Raises FleetProcessError as `wait_until` does."""
        self.wait_until(path.exists, limit_s)  # the file appears whole
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def exit_summary(self) -> str:
        """How it ended, in a line."""
        last = " | ".join(line.strip() for line in self.log_end(3).splitlines())
        return f"{self.name} ended with status {self.exit_status}" + (f": {last}" if last else "")

    def log_end(self, lines: int = 15) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in text[-lines:])

    def again(self) -> FleetProcess:
        """A new one with the same command, whose output goes to the same file. This one must have ended."""
        return FleetProcess(self.name, self._command, self.log.parent, self._environ, self._reaper)

    def kill(self) -> None:
        """SIGKILL to the whole session; returns when the process is gone."""
        self._signal_session(signal.SIGKILL)
        self._process.wait()
        if self._reaper is not None:
            self._reaper.forget(self._process.pid)

    def pause(self) -> None:
        """SIGSTOP to the whole session."""
        self._is_paused = True
        self._signal_session(signal.SIGSTOP)

    def unpause(self) -> None:
        self._is_paused = False
        self._signal_session(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, without waiting for what it does."""
        if self.exit_status is None:
            self._process.terminate()
            if self._is_paused:  # else it does not hear of it
                self.unpause()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to the whole session whatever that does. Harmless when it has ended."""
        try:
            self.terminate()
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            pass  # killed below, as it is when the user has no patience
        finally:
            self.kill()

    def _signal_session(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # nobody of the session is left
            os.killpg(self._process.pid, number)
