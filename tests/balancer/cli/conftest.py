"""The real service as a process, with a small fake Torque behind it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from balancer.client import Balancer
from polling import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PBSNODES = """#!{python} -S
import fcntl, json, sys
with open("{state}", "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    states = json.load(file)
    if sys.argv[1] == "-x":
        names = sys.argv[2:] or states
        node = "<Node><name>%s</name><state>%s</state>%s</Node>"
        jobs = {{name: "<jobs>0/%s</jobs>" % states[name][1] if states[name][1] else "" for name in names}}
        print("<Data>" + "".join(node % (name, states[name][0], jobs[name]) for name in names) + "</Data>")
    else:
        for name in set(sys.argv[2:]) & set(states):
            free = "job-exclusive" if states[name][1] else "free"
            states[name][0] = "offline" if sys.argv[1] == "-o" else free
        file.seek(0)
        file.truncate()
        json.dump(states, file)
"""


class Service:
    """`balancer serve` in a process; `kill` is kill -9 of everything it is made of."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        self.state = folder / "states.json"
        self.state.write_text(
            json.dumps({f"n{n:02d}": ["free", ""] for n in range(1, count + 1)}), encoding="utf-8"
        )
        programs = folder / "bin"
        programs.mkdir()
        pbsnodes = programs / "pbsnodes"
        pbsnodes.write_text(_PBSNODES.format(python=sys.executable, state=self.state), encoding="utf-8")
        pbsnodes.chmod(0o755)
        (programs / "qmgr").symlink_to("/bin/true")
        self.environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        self.ready = folder / "ready.json"
        self.log = folder / "log"
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def command(self, *options: str) -> list[str]:
        start = [sys.executable, "-c", "from balancer.cli import main; main()", "serve"]
        nodes = ["--nodes", f"n[01-{self.count:02d}]", "--db", str(self.folder / "ledger.db")]
        return [*start, *nodes, "--ready-file", str(self.ready), "--confirm-poll-s", "0.02", *options]

    def start(self, *options: str) -> None:
        self.ready.unlink(missing_ok=True)
        self.launch(*options)
        self.wait_until_ready()

    def launch(self, *options: str) -> None:
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                self.command("--port", "0", *options),
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                text=True,
            )

    def share_batch_of(self, other: Service) -> None:
        """Talk to the same batch system."""
        self.environment = other.environment

    def wait_for_log(self, text: str) -> None:
        self._until(lambda: text in self.log.read_text(encoding="utf-8"), f"the service logs {text!r}")

    def wait_until_ready(self) -> None:
        self._until(self.ready.exists, "the service is ready")
        self.url = json.loads(self.ready.read_text(encoding="utf-8"))["url"]

    def _until(self, condition: Callable[[], bool], wanted: str) -> None:
        def is_so() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")[-4000:]
            return condition()

        until(is_so, wanted)

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def client(self) -> Balancer:
        return Balancer(self.url)

    def start_job(self, client: Balancer, job: str, node: str, *, remaining_s: float | None = None) -> None:
        """A job runs there, and its hook says so."""
        self._set_state(node, "job-exclusive", job)
        client.update_nodes({node: "busy"}, job=job, remaining_s=remaining_s)

    def end_job(self, client: Balancer, job: str, node: str) -> None:
        self._set_state(node, "free", "")
        client.update_nodes({node: "idle"}, job=job)

    def _set_state(self, node: str, state: str, job: str) -> None:
        with self.state.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            states = json.load(file)
            states[node] = [state, job]
            file.seek(0)
            file.truncate()
            json.dump(states, file)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A client command."""
        command = [sys.executable, "-c", "from balancer.cli import main; main()", *arguments]
        environment = self.environment | {"BALANCER_URL": self.url}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def service(tmp_path):
    """`service(count)`: not started yet; ended with the test."""
    made: list[Service] = []

    def make(count: int = 6) -> Service:
        made.append(Service(tmp_path, count))
        return made[-1]

    yield make
    _end(made)


@pytest.fixture
def service_in(tmp_path):
    """`service_in(name)`: one of several, each with a folder of this name."""
    made: list[Service] = []

    def make(name: str, count: int = 6) -> Service:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Service(folder, count))
        return made[-1]

    yield make
    _end(made)


def _end(made: list[Service]) -> None:
    for each in made:
        if each.process is not None and each.process.poll() is None:
            each.kill()
