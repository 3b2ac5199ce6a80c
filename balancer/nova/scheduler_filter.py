"""The filter that Nova's scheduler loads: the only module here that imports Nova. What it does is in `asking`.

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = balancer.nova.scheduler_filter.BalancerFilter
    enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,BalancerFilter

Last, so that the hosts it asks for are those that all others let through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nova import conf, exception, objects
from nova.scheduler import filters, utils

from balancer.nova import options
from balancer.nova.asking import Asker, Create

if TYPE_CHECKING:
    from collections.abc import Iterable


class BalancerFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Passes hosts that are no nodes of the Balancer, and nodes that it grants. Asked once a create."""

    run_filter_once_per_request = True

    def __init__(self) -> None:
        self._asker = Asker(options.read(conf.CONF))

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> list[Any]:
        """A rebuild stays where it is. A move is one server, of however many its create was."""
        states = list(filter_obj_list)
        if utils.request_is_rebuild(spec_obj) or not states:
            return states
        is_new = _is_new(spec_obj)
        create = Create(
            request_id=spec_obj._context.request_id or spec_obj.instance_uuid,  # noqa: SLF001 - the only way to it
            count=spec_obj.num_instances if is_new else 1,
            hosts=tuple(state.host for state in states),
            attempt=_attempt(spec_obj, is_new=is_new),
        )
        # Of several servers of one create the first stands for all: it is deleted when nobody wants them.
        passing = self._asker.passing(create, (lambda: _is_new(spec_obj)) if is_new else lambda: True)
        return [state for state in states if state.host in passing]


def _is_new(spec_obj: Any) -> bool:
    """Whether the server is being created: until it is on a host it is a build request, which a delete takes away."""
    try:
        objects.BuildRequest.get_by_instance_uuid(spec_obj._context.elevated(), spec_obj.instance_uuid)  # noqa: SLF001
    except exception.BuildRequestNotFound:
        return False
    return True


def _attempt(spec_obj: Any, *, is_new: bool) -> str:
    retry = spec_obj.retry.num_attempts if spec_obj.retry else 0
    return f"{'new' if is_new else spec_obj.instance_uuid} {retry}"
