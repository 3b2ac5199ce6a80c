"""One process of the live fleet: started, watched, stopped, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, wall_us

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from emulator.live.reaper import OrphanReaper

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


def read_ready(path: Path) -> dict[str, Any] | None:
    """What a process wrote into its ready file; None until it has."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found
