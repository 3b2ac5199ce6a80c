"""The real service as a process on a wall clock, with a Torque in a file behind it whose jobs start and end by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from balancer.client import Balancer
from file_torque import FileTorque
from polling import until

if TYPE_CHECKING:
    from pathlib import Path


class Batch:
    """Jobs by node, and the service that is told of them."""

    def __init__(
        self,
        folder: Path,
        nodes: tuple[str, ...],
        environment: dict[str, str],
        cloud: str | None = "openstack",
    ) -> None:
        """`cloud`: whom the service asks whether a grant is in use; the small manager confirms its own."""
        self.nodes, self.folder = nodes, folder
        self._torque = FileTorque(folder, nodes)
        self._environment = os.environ | environment | self._torque.environment
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        settings: dict[str, Any] = {
            "nodes": ",".join(nodes), "driver": {"torque": {"ask_for_cycle": False}},
            "wait_s": 90, "db": str(folder / "ledger.db"),
            "idle_reserve_s": 0, "confirm_s": 30, "confirm_poll_s": 0.05, "reconcile_period_s": 5,
        }  # fmt: skip
        if cloud is not None:
            settings["cloud"] = cloud
        (folder / "balancer.yaml").write_text(json.dumps(settings), encoding="utf-8")

    def start(self) -> None:
        """At the address it had before, if any."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        port = self.url.rpartition(":")[2] or "0"
        command = [
            "serve",
            "--config",
            str(self.folder / "balancer.yaml"),
            "--port",
            port,
            "--ready-file",
            str(ready),
        ]
        with (self.folder / "balancer.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "balancer", *command],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(
            lambda: self._process is None or self._process.poll() is not None or ready.exists(),
            "the service is ready",
        )
        assert ready.exists(), (self.folder / "balancer.log").read_text()[-3000:]
        self.url = json.loads(ready.read_text())["url"]

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def free(self) -> list[str]:
        """Nodes on which a job could start."""
        with self._torque.nodes() as nodes:
            return sorted(name for name, node in nodes.items() if not node["offline"] and node["job"] is None)

    def with_jobs(self) -> list[str]:
        with self._torque.nodes() as nodes:
            return sorted(name for name, node in nodes.items() if node["job"])

    def start_job(self, *names: str) -> None:
        """On nodes that are free; the service is told, as a prologue does."""
        with self._torque.nodes() as nodes:
            for name in names:
                assert not nodes[name]["offline"], f"{name} is offline"
                nodes[name]["job"] = f"{name}.job"
        with Balancer(self.url) as client:
            for name in names:
                client.update_nodes({name: "busy"}, job=f"{name}.job")

    def end_job(self, *names: str) -> None:
        with self._torque.nodes() as nodes:
            for name in names:
                nodes[name]["job"] = None
        with Balancer(self.url) as client:
            for name in names:
                client.update_nodes({name: "idle"}, job=f"{name}.job")
