"""The kinds of plug-ins of the testbed; how they are found and made is `balancer/plugins.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer import plugins
from balancer.plugins import PluginError, check_number, find_plugin, make_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FUNCTION", "KINDS", "PluginError", "check_number", "find_plugin", "make_plugin", "plugin_names"]

FUNCTION = "__code__"
"""What functions have and classes have not."""

KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "emulator.mechanisms": (("on_arrival",), ("make_machine",)),
    "emulator.hybrid_notices": (("prepare",),),
    "emulator.hybrid_arrivals": (("make_room",),),
    "emulator.topologies": (("layout",),),
    "emulator.contention": (("speed",),),
    "emulator.speedups": (("of",),),
    "emulator.queue_orders": ((FUNCTION,), ("priority",), ("score",)),
    "emulator.trace_formats": (("can_read", "read"),),
    "emulator.generators": (("generate",),),
    "emulator.transforms": (("apply",), ("apply_random",)),
    "emulator.batch_systems": (("check", "at"),),
    "emulator.submitters": (("submit", "find"),),
    "emulator.papers": (("about", "sweep", "claims", "tables"),),
    **plugins.KINDS,
}
"""What a plug-in of each kind must have: all of one of the tuples."""
