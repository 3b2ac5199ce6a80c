"""A batch system of live runs: the Torque-like server, to which jobs come by a submitter of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.live.torque.system import TorqueBatch, TorqueSystem

if TYPE_CHECKING:
    from emulator.live.batch_system import Site


class NotedTorque(TorqueSystem):
    """What was submitted is in `logs/submitted.txt` of the results. Needs the submitter `noted_qsub`."""

    def at(self, site: Site) -> TorqueBatch:
        return _NotedBatch(site)


class _NotedBatch(TorqueBatch):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._notes = site.logs / "submitted.txt"

    def replayer_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        settings, environ = super().replayer_settings()
        noted = {"notes": str(self._notes), "command": settings["qsub"]}
        return settings | {"submit": {"noted_qsub": noted}}, environ
