"""The filter that Nova's scheduler loads. What it asks the Balancer is in `asking`.

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = balancer.nova.scheduler_filter.BalancerFilter
    enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,
        ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,BalancerFilter

Last, so that the hosts it asks for are those that all others let through.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nova import conf
from nova.scheduler import filters, utils

from balancer.nova import options
from balancer.nova.balancer_calls import Asker
from balancer.nova.pending_servers import Group
from balancer.nova.question import Create
from balancer.nova.second_look import SecondLook, occupied

if TYPE_CHECKING:
    from collections.abc import Iterable


class BalancerFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Passes hosts that are no nodes of the Balancer, and nodes that it grants. Asked once a create.

    Nova runs it for each server of a create: the first run asks, the others give the same answer.
    """

    run_filter_once_per_request = False

    def __init__(self) -> None:
        self._asker = Asker(options.read(conf.CONF))
        self._second = SecondLook()

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> list[Any]:
        """A rebuild stays where it is. A move is one server, of however many its create was."""
        states = [getattr(state, _WITHOUT_CLAIM, state) for state in filter_obj_list]
        if utils.request_is_rebuild(spec_obj) or not states:
            return states
        answer = getattr(spec_obj, _ANSWER, None)
        if answer is None:
            answer = self._ask(states, spec_obj)
            setattr(spec_obj, _ANSWER, answer)
        answer.runs += 1
        passing = [state for state in states if state.host in answer.hosts]
        # After a run for each server there is one more, for alternates: those are hosts to claim.
        if answer.runs <= answer.count and answer.group.is_gone(spec_obj.instance_uuid):
            return [_without_claim(state) for state in passing]
        return passing

    def _ask(self, states: list[Any], spec_obj: Any) -> _Answer:
        group = Group.of(spec_obj, may_shrink=_may_shrink(spec_obj, states))
        context = group.context
        create = Create(
            request_id=context.request_id or spec_obj.instance_uuid,
            count=1 if _is_on_one_host(spec_obj) else group.count,
            hosts=tuple(state.host for state in states),
            attempt=_attempt(spec_obj, is_new=group.is_new),
        )
        hosts = self._asker.passing(
            create,
            group.required,
            fitting=lambda names: self._second.fitting(context, spec_obj, _of(states, names)),
            occupied=lambda names: occupied(context, _of(states, names)),
        )
        return _Answer(hosts, group.count, group)


@dataclass
class _Answer:
    hosts: frozenset[str]
    count: int
    group: Group
    runs: int = 0


_ANSWER = "_balancer_answer"
_WITHOUT_CLAIM = "_balancer_claimed_by_nobody"


def _without_claim(state: Any) -> Any:
    """The host for a server that was deleted while it waited: Nova claims for it, too, and drops it afterwards.

    It claims nothing there, or the others of its create would lack the node that nobody asked for.
    """
    found = copy(state)
    found.instances = dict(state.instances)
    found.allocation_candidates = [each | {"allocations": {}} for each in state.allocation_candidates]
    setattr(found, _WITHOUT_CLAIM, state)
    return found


def _of(states: list[Any], hosts: frozenset[str]) -> list[Any]:
    return [state for state in states if state.host in hosts]


def _is_on_one_host(spec_obj: Any) -> bool:
    """Whether all servers of the create must be on one host, where Nova puts them one beside the other."""
    return spec_obj.instance_group is not None and spec_obj.instance_group.policy == "affinity"


def _may_shrink(spec_obj: Any, states: list[Any]) -> bool:
    """Whether a deleted server passes all other filters on hosts that its create has filled."""
    return (
        spec_obj.instance_group is None
        and spec_obj.numa_topology is None
        and not (spec_obj.pci_requests and spec_obj.pci_requests.requests)
        and all(hasattr(state, "allocation_candidates") for state in states)
    )


def _attempt(spec_obj: Any, *, is_new: bool) -> str:
    retry = spec_obj.retry.num_attempts if spec_obj.retry else 0
    return f"{'new' if is_new else spec_obj.instance_uuid} {retry}"
