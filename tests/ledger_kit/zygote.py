"""Starts the real service again and again without importing it again: a fork of a process that has it loaded.

    python zygote.py FOLDER NODES RESERVE     then a line on standard input for each start

What is forked runs `balancer.console.serve.serve`: the front end, the API, the engine, the ledger. Only the batch
system is a file of marks instead of Torque. Standard output gets the process id, which leads its process group.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.config import Config
from balancer.console.serve import serve
from balancer.drivers.base import NodeStatus

if TYPE_CHECKING:
    from collections.abc import Iterable


class MarksInAFile:
    """A batch system that outlives the service: the marked nodes are a file, replaced as a whole."""

    name = "marks"

    def __init__(self, file: Path, nodes: list[str]) -> None:
        self._file = file
        self._nodes = nodes

    def _marked(self) -> set[str]:
        return set(json.loads(self._file.read_text(encoding="utf-8"))) if self._file.exists() else set()

    def _mark(self, nodes: set[str]) -> None:
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(sorted(nodes)), encoding="utf-8")
        beside.replace(self._file)

    def reclaim_nodes(self, nodes: Iterable[str], *, why: str = "") -> None:
        self._mark(self._marked() | set(nodes))

    def restore_nodes(self, nodes: Iterable[str]) -> None:
        self._mark(self._marked() - set(nodes))

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        marked = self._marked()
        return {
            node: NodeStatus("offline", marked=True) if node in marked else NodeStatus("idle")
            for node in nodes
        }

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        return self.get_status_of_nodes(self._nodes)


def run(folder: Path, nodes: int, reserve: int) -> None:
    names = [f"n{number:03d}" for number in range(1, nodes + 1)]
    driver = MarksInAFile(folder / "marks.json", names)

    class MarksConfig(Config):
        def make_driver(self) -> MarksInAFile:
            return driver

    serve(
        MarksConfig(
            nodes=",".join(names),
            reserve=reserve,
            db=str(folder / "ledger.db"),
            port=0,
            ready_file=folder / "ready.json",
            confirm_poll_s=0.02,
            threads=12,
        )
    )


def main() -> None:
    folder, nodes, reserve = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            try:
                run(folder, nodes, reserve)
            finally:
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
