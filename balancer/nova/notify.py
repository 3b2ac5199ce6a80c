"""A notification driver for Nova (`oslo.messaging.notify.drivers`): tells the agent when to look.

    [oslo_messaging_notifications]
    driver = balancer

It knows nothing that the agent would not find by itself; notifications get lost, and nothing may depend on them.
"""

from __future__ import annotations

from typing import Any

from balancer.nova.hints import HintSender

_TELLING = (
    "instance.create.end",
    "instance.create.error",
    "instance.delete.end",
    "instance.soft_delete.end",
    "instance.shelve_offload.end",
    "instance.live_migration_post.end",
    "instance.evacuate",
    "compute_task.build_instances.error",
    "scheduler.select_destinations.end",
)


def is_telling(event_type: str) -> bool:
    """Whether servers or allocations may have changed; both of Nova's forms of names."""
    return event_type.removeprefix("compute.").startswith(_TELLING)


class HintDriver:
    """As oslo.messaging makes and calls it; duck-typed, so that nothing of it need be imported."""

    def __init__(self, conf: Any, topics: Any, transport: Any) -> None:  # noqa: ARG002 - the interface
        from balancer.nova.options import hint_address  # noqa: PLC0415 - oslo.config is Nova's

        address = hint_address(conf)
        self._sender = HintSender(address) if address else None

    def notify(self, ctxt: Any, msg: Any, priority: Any, retry: Any) -> None:  # noqa: ARG002 - the interface
        if self._sender is not None and is_telling(str(msg.get("event_type", ""))):
            self._sender.send()
