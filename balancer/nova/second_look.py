"""What Nova says of hosts anew, once a create has waited: read as its scheduler reads it."""

from __future__ import annotations

import threading
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from nova import conf, exception, objects
from nova import context as contexts
from nova.compute import task_states, vm_states
from nova.scheduler import filters, request_filter, utils
from nova.scheduler.client import report

if TYPE_CHECKING:
    from collections.abc import Iterable

_OURS = "BalancerFilter"
_GOING = frozenset({task_states.DELETING, task_states.SOFT_DELETING})
_GONE = frozenset({vm_states.DELETED, vm_states.SOFT_DELETED})


def is_going(instance: Any) -> bool:
    """Whether this server is deleted, or is about to be."""
    return instance.task_state in _GOING or instance.vm_state in _GONE


def occupied(context: Any, states: Iterable[Any]) -> frozenset[str]:
    """Hosts on which a server is that nobody deletes.

    Asked of the records of each cell: what the scheduler keeps of each host lacks a server that was resized in place.
    """
    hosts: dict[str, set[str]] = {}
    for state in states:
        hosts.setdefault(state.cell_uuid, set()).add(state.host)
    found: set[str] = set()
    for uuid, names in hosts.items():
        with contexts.target_cell(context, objects.CellMapping.get_by_uuid(context, uuid)) as cell:
            servers = objects.InstanceList.get_by_filters(
                cell, {"host": sorted(names), "deleted": False}, expected_attrs=[]
            )
        found |= {each.host for each in servers if not is_going(each)}
    return frozenset(found)


class SecondLook:
    """For many threads. Its filters are those that the scheduler runs before ours, of their own making."""

    def __init__(self) -> None:
        self._filters: list[Any] | None = None
        self._lock = threading.Lock()

    def fitting(self, context: Any, spec_obj: Any, states: Iterable[Any]) -> frozenset[str]:
        """The hosts that Nova would still choose from. What is kept of each is renewed.

        So is what may be claimed there: the allocation that Nova asks Placement for is one of this look.
        """
        spec = deepcopy(spec_obj)
        try:
            request_filter.process_reqspec(context, spec)
        except exception.RequestFilterFailed:
            return frozenset()
        _renew_group(context, spec_obj)
        left = [each for each in states if _renewed(context, spec, each)]
        for each in self._before_ours():
            left = list(each.filter_all(left, spec_obj))
        return frozenset(state.host for state in left)

    def _before_ours(self) -> list[Any]:
        with self._lock:
            if self._filters is None:
                options = conf.CONF.filter_scheduler
                known = filters.HostFilterHandler().get_matching_classes(options.available_filters)
                by_name = {each.__name__: each for each in known}
                self._filters = [by_name[name]() for name in options.enabled_filters if name != _OURS]
            return self._filters


def _renew_group(context: Any, spec_obj: Any) -> None:
    """Where the others of its server group are by now."""
    group = spec_obj.instance_group
    if group is None or "uuid" not in group:
        return
    try:
        members = objects.InstanceGroup.get_by_uuid(context, group.uuid).members
    except exception.InstanceGroupNotFound:
        return
    hosts = set(group.hosts if "hosts" in group else ())
    for member in set(members) - {spec_obj.instance_uuid}:
        try:
            cell = objects.InstanceMapping.get_by_instance_uuid(context, member).cell_mapping
        except exception.InstanceMappingNotFound:
            continue
        if cell is not None:
            with contexts.target_cell(context, cell) as targeted:
                hosts |= _host_of(targeted, member)
    group.members, group.hosts = members, sorted(hosts)
    group.obj_reset_changes(["members", "hosts"])


def _host_of(context: Any, server: str) -> set[str]:
    try:
        found = objects.Instance.get_by_uuid(context, server, expected_attrs=[])
    except exception.InstanceNotFound:
        return set()
    return {found.host} if found.host and not is_going(found) else set()


def _renewed(context: Any, spec: Any, state: Any) -> bool:
    """False: Nova or Placement has nothing to offer there any more."""
    with contexts.target_cell(context, objects.CellMapping.get_by_uuid(context, state.cell_uuid)) as cell:
        try:
            service = objects.Service.get_by_compute_host(cell, state.host)
            node = objects.ComputeNode.get_by_uuid(cell, state.uuid)
        except exception.ComputeHostNotFound:
            return False
        servers = objects.InstanceList.get_uuids_by_host(cell, state.host)
        instances = {uuid: objects.Instance(cell, uuid=uuid) for uuid in servers}
    aggregates = list(objects.AggregateList.get_by_host(context, state.host))
    state.update(node, dict(service), aggregates, instances)
    if not hasattr(state, "allocation_candidates"):  # of a Nova before 2025.1, which looks at them no more
        return bool(_candidates(context, spec, state.uuid))
    state.allocation_candidates = _candidates(context, spec, state.uuid)
    return bool(state.allocation_candidates)


def _candidates(context: Any, spec: Any, provider: str) -> list[Any]:
    """What a server may be given of this host, as Placement has it now."""
    resources = utils.ResourceRequest.from_request_spec(spec)
    group = resources.get_request_group(None)
    group.in_tree = provider
    destination = spec.requested_destination if "requested_destination" in spec else None
    if destination and destination.aggregates:
        group.aggregates = [each.split(",") for each in destination.aggregates]
    if destination and destination.forbidden_aggregates:
        group.forbidden_aggregates |= destination.forbidden_aggregates
    found, _, _ = (
        report.report_client_singleton().get_allocation_candidates(context, resources) or (None,) * 3
    )
    return [each for each in found or [] if provider in each["allocations"]]
