"""An on-demand manager of live runs: our own, which writes its servers down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.live.ondemand_system import Manager, ManagerSystem

if TYPE_CHECKING:
    from emulator.live.ondemand_system import OndemandSite
    from emulator.mechanisms.balancer import BalancerMechanism


class KeptServers(ManagerSystem):
    """What it remembers is in `logs/servers` of the results."""

    def at(self, site: OndemandSite) -> Manager:
        return _Kept(site)


class _Kept(Manager):
    def __init__(self, site: OndemandSite) -> None:
        super().__init__(site)
        self._servers = site.logs / "servers"

    def settings(self, mechanism: BalancerMechanism) -> dict[str, Any]:
        return super().settings(mechanism) | {"memory": self._servers}
