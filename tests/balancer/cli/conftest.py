"""The real service as a process, with a small fake Torque behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from balancer.client import Balancer
from file_torque import FileTorque
from polling import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Service:
    """`balancer serve` in a process; `kill` is kill -9 of everything it is made of."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        self._torque = FileTorque(folder, [f"n{number:02d}" for number in range(1, count + 1)])
        self.environment = os.environ | self._torque.environment
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
        self._torque, self.environment = other._torque, other.environment

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
        self._torque.set_job(node, job)
        client.update_nodes({node: "busy"}, job=job, remaining_s=remaining_s)

    def end_job(self, client: Balancer, job: str, node: str) -> None:
        self._torque.set_job(node, None)
        client.update_nodes({node: "idle"}, job=job)

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
