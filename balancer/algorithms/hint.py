"""The hint algorithm (balancer-liu-2018, II-C.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.algorithms.basic import serve_then_keep

if TYPE_CHECKING:
    from balancer.algorithms.interface import Plan, View
    from balancer.policy_settings import Settings


class Hint:
    """Requests as in `Basic`; the reserve is what `add_reserve(H, N)` asked for, until H + I."""

    def check(self, settings: Settings) -> None:
        if settings.static_reserve:
            raise ValueError(
                f"hint keeps no static reserve, but static_reserve is {settings.static_reserve}:"
                " set it to 0, or use the algorithm basic"
            )

    def plan(self, view: View) -> Plan:
        return serve_then_keep(view, 0)
