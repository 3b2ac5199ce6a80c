"""What every driver keeps to, whatever its batch system does: the one suite that all of them go through (T9).

Two halves. `contract` walks a driver through lending and giving back on a batch system that works: fakes and real
ones alike. The faults are for batch systems whose programs can be made to fail: `Site.fault`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from balancer.drivers.base import DriverError, NodeStatus, RefusedError
from balancer.drivers.openpbs import OpenPbsDriver, OpenPbsSettings
from balancer.drivers.slurm import SlurmDriver, SlurmSettings
from balancer.drivers.torque import TorqueDriver, TorqueSettings
from polling import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from balancer.drivers.base import BatchDriver

READ_FAULTS = (
    "exit not 0", "killed", "no effect", "effect with lost reply", "hang", "hang after the effect", "banner",
    "truncated 10", "truncated 50", "truncated 90", "truncated 99", "stale", "unknown state", "short job id",
    "missing job", "restarted",
)  # fmt: skip
CHANGE_FAULTS = (
    "exit not 0", "killed", "no effect", "effect with lost reply", "hang", "hang after the effect", "banner",
    "restarted",
)  # fmt: skip
DRIVERS: Mapping[str, tuple[type[Any], type[Any], tuple[str, ...]]] = {
    "torque": (TorqueDriver, TorqueSettings, ("pbsnodes", "qstat", "qmgr")),
    "openpbs": (OpenPbsDriver, OpenPbsSettings, ("pbsnodes", "qstat", "qmgr")),
    "slurm": (SlurmDriver, SlurmSettings, ("scontrol", "squeue")),
}


class Working(Protocol):
    """A batch system that works, with at least two free nodes."""

    driver: BatchDriver

    def start_job(self, node: str) -> None: ...

    def end_job(self, node: str) -> None: ...


def contract(site: Working, free: str, other: str) -> None:
    """Lend an idle and a busy node and give both back; every command twice, and once with an unknown name."""
    driver = site.driver

    def status(node: str) -> NodeStatus:
        return driver.get_status_of_nodes([node])[node]

    until(lambda: status(free) == status(other) == NodeStatus("idle"))
    for _ in range(2):
        driver.reclaim_nodes([free])
        until(lambda: status(free).is_handed_over)
    assert status(free).marked
    site.start_job(other)
    until(lambda: status(other).state == "busy" and status(other).jobs)
    for _ in range(2):
        driver.reclaim_nodes([other])
        assert status(other).state == "offline"
        assert status(other).jobs
        assert status(other).marked
        assert not status(other).is_handed_over
    for _ in range(2):
        driver.restore_nodes([other])
        until(lambda: status(other).state == "busy" and not status(other).marked)
    driver.reclaim_nodes([other])
    site.end_job(other)
    until(lambda: status(other).is_handed_over)
    assert status("nowhere").state == "unknown"
    for change in (driver.restore_nodes, driver.reclaim_nodes, driver.restore_nodes):
        with suppress(RefusedError):  # one wrong name does not keep the others from changing
            change(["nowhere", free, other])
        wanted = "offline" if change == driver.reclaim_nodes else "idle"
        until(lambda wanted=wanted: {status(free).state, status(other).state} == {wanted})
    for _ in range(2):
        driver.restore_nodes([free, other])
        until(lambda: status(free) == status(other) == NodeStatus("idle"))


class Site:
    """A batch system in a file, its programs on PATH, and its driver. Node names say how they are at first."""

    def __init__(self, system: str, folder: Path, monkeypatch: Any) -> None:
        self.system = system
        self.path = folder / "state.json"
        kind, self._settings, programs = DRIVERS[system]
        self._kind = kind
        self.driver: BatchDriver = self.with_timeout(20.0)
        job, mark = (
            ("17", "balancer: lent to on-demand")
            if system == "slurm"
            else ("17.server", "lent to on-demand by the Balancer")
        )
        empty = {"marked": False, "jobs": [], "down": False, "reason": ""}
        nodes = {
            "free": empty,
            "other": empty,
            "busy": empty | {"jobs": [job]},
            "lent": empty | {"marked": True, "reason": mark},
            "draining": empty | {"marked": True, "reason": mark, "jobs": [job]},
            "down": empty | {"down": True},
        }
        self.state: dict[str, Any] = {"system": system, "nodes": nodes, "fault": {}, "snapshot": nodes}
        self._save()
        (folder / "bin").mkdir()
        fake = Path(__file__).with_name("batch_system.py")
        for program in programs:
            wrapper = folder / "bin" / program
            command = f'exec "{sys.executable}" -S -E "{fake}" "{self.path}" {program} "$@"'
            wrapper.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
            wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def with_timeout(self, timeout_s: float) -> BatchDriver:
        driver: BatchDriver = self._kind(self._settings(timeout_s=timeout_s))
        return driver

    def _save(self) -> None:
        self.path.write_text(json.dumps(self.state), encoding="utf-8")

    def nodes(self) -> dict[str, Any]:
        self.state = json.loads(self.path.read_text(encoding="utf-8"))
        return self.state["nodes"]

    def fault(self, kind: str, name: str) -> BatchDriver:
        """From now on this kind of program has this fault. A driver that has little patience where it needs some."""
        self.nodes()
        self.state["fault"] = {kind: name} if name else {}
        self._save()
        return self.with_timeout(0.5) if name.startswith("hang") else self.driver

    def change(self, node: str, **how: Any) -> None:
        """Somebody else does something to a node; what it was before is what a stale answer says."""
        self.state["snapshot"] = json.loads(json.dumps(self.nodes()))
        self.state["nodes"][node] |= how
        self._save()

    def start_job(self, node: str) -> None:
        self.change(node, jobs=["18" if self.system == "slurm" else "18.server"])

    def end_job(self, node: str) -> None:
        self.change(node, jobs=[])

    def truth(self, node: str, table: str = "nodes") -> str:
        self.nodes()
        found = self.state[table][node]
        if found["down"]:
            return "down"
        if found["marked"]:
            return "offline with a job" if found["jobs"] else "offline"
        return "busy" if found["jobs"] else "idle"


def name_of(status: NodeStatus) -> str:
    return "offline with a job" if status.state == "offline" and status.jobs else status.state


def check_reading(site: Site, reading: Mapping[str, NodeStatus], *, stale: bool) -> None:
    """Each node as it is (or was, where the batch system itself is behind), or unknown."""
    for node, status in reading.items():
        right = {site.truth(node)} | ({site.truth(node, "snapshot")} if stale else set())
        assert name_of(status) in right | {"unknown"}, f"{node} is {right}, not {status}"


def fails_well(action: Callable[[], Any]) -> Any:
    """What it returns, None for a DriverError; anything else it raises is a bug."""
    try:
        return action()
    except DriverError as error:
        problem = error
    assert problem.outcome in ("refused", "unreachable", "unclear")
    assert str(problem)
    return None
