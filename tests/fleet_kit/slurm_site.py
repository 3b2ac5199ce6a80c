"""The service for the nodes of a real Slurm, as a process that may be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from balancer.client import Balancer
from polling import until

HOME_S = 120.0
"""Within this time of the last release nothing is lent any more: mostly commands that Slurm takes its time for."""


class Service:
    """`balancer serve` for the nodes of a real Slurm; a restart has the same port."""

    def __init__(self, folder, nodes, **settings):
        self.folder, self.port, self.process, self.token = folder, 0, None, None
        self.config = folder / "balancer.json"
        self.ready = folder / "ready.json"
        usual = {
            "nodes": nodes,
            "db": str(folder / "ledger.db"),
            "ready_file": str(self.ready),
            "reconcile_period_s": 2,
            "confirm_poll_s": 0.3,
            "confirm_s": 4,
            "idle_reserve_s": 0,
            "wait_s": 120,
        }
        self.config.write_text(json.dumps(usual | settings), encoding="utf-8")

    def run(self, *arguments, **more):
        command = [sys.executable, "-c", "from balancer.cli import main; main()", *arguments]
        more = {"check": True} | more
        return subprocess.run(command, capture_output=True, text=True, **more).stdout.strip()  # noqa: PLW1510

    def start(self):
        self.ready.unlink(missing_ok=True)
        with (self.folder / "log").open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from balancer.cli import main; main()", "serve"),
                    *("--config", str(self.config), "--port", str(self.port)),
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        until(lambda: self.ready.exists() or self.process.poll() is not None)
        url = json.loads(self.ready.read_text(encoding="utf-8"))["url"]
        (self.folder / "url").write_text(url, encoding="utf-8")
        self.port = int(url.rpartition(":")[2])

    def end(self, number=signal.SIGTERM):
        os.killpg(self.process.pid, number)
        self.process.wait(60)

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def client(self, name):
        return Balancer(f"http://127.0.0.1:{self.port}", name=name, token=self.token)


def states(slurm):
    return {status.state for status in slurm.driver.get_status_of_all_nodes().values()}


def granted(client):
    return {node.name for node in client.nodes() if node.state == "OD_ALLOC"}
