"""Which granted nodes have failed, and which are well again, by one reading after another: no input or output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.lifecycle.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from balancer.drivers.base import NodeStatus
    from balancer.drivers.cloud import CloudStatus
    from balancer.lifecycle.records import NodeRecord


class Failing:
    """`after_us`: how long readings must find a granted node down before it has failed; None: nothing ever fails."""

    def __init__(self, after_us: int | None) -> None:
        self._after_us = after_us
        self._down_us: dict[str, int] = {}
        """Granted node -> the reading that found it down first, of those without another answer in between."""

    def look(
        self,
        records: Iterable[NodeRecord],
        states: Mapping[str, NodeStatus],
        cloud: Mapping[str, CloudStatus] | None,
        at_us: int,
    ) -> tuple[dict[str, int], tuple[str, ...]]:
        """Of a reading at `at_us`: the nodes that have failed, since when, and those that are well again.

        Only news: what the record says already is left out. `cloud` None: there is none. A reading that a configured
        cloud has no part in must not come here: its host may be up although the batch system's daemon is not.
        """
        if self._after_us is None:
            return {}, ()
        failed: dict[str, int] = {}
        recovered: list[str] = []
        seen_down: dict[str, int] = {}
        for record in records:
            if record.state is not NodeState.OD_ALLOC:
                continue
            name = record.name
            is_down = _is_down(states.get(name), (cloud or {}).get(name))
            if is_down:
                since_us = seen_down[name] = self._down_us.get(name, at_us)
                if record.down_since_us is None and at_us - since_us >= self._after_us:
                    failed[name] = since_us
            elif is_down is None and name in self._down_us:
                seen_down[name] = self._down_us[name]
            elif is_down is False and record.down_since_us is not None:
                recovered.append(name)
        self._down_us = seen_down
        return failed, tuple(recovered)


def _is_down(batch: NodeStatus | None, cloud: CloudStatus | None) -> bool | None:
    """None: nobody can tell. Batch None: it answered and does not list the node."""
    if cloud is not None and cloud.is_up:
        return False
    if batch is None:
        return True
    if batch.state == "unknown" or batch.is_asleep:
        return None
    return batch.state == "down"
