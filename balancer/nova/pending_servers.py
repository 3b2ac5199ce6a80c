"""Which servers of a question of Nova's scheduler are still wanted: asked of Nova's own records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nova import context as contexts
from nova import exception, objects

from balancer.nova.second_look import is_going


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The servers of one question. Of a create that is not on a host yet: all of it; of a move: one.

    `reservation`: what all servers of one create have in common; "" where the first was gone before it could be read.
    `may_shrink`: Nova can do with fewer nodes than the create had servers.
    """

    context: Any
    first: str
    count: int
    is_new: bool
    reservation: str
    may_shrink: bool

    @classmethod
    def of(cls, spec_obj: Any, *, may_shrink: bool) -> Group:
        context, first = spec_obj._context.elevated(), spec_obj.instance_uuid  # noqa: SLF001 - the only way to it
        is_new = _cell(context, first) is None
        request = _build_request(context, first) if is_new else None
        reservation = "" if request is None else request.instance.reservation_id or ""
        count = spec_obj.num_instances if is_new else 1
        return cls(
            context=context,
            first=first,
            count=count,
            is_new=is_new,
            reservation=reservation,
            may_shrink=may_shrink,
        )

    def required(self) -> int:
        """How many of them somebody still wants, as far as Nova can do with fewer."""
        if not self.is_new:
            return int(not self.is_gone(self.first))
        if self.count == 1:
            return int(_build_request(self.context, self.first) is not None)
        if not self.reservation:
            return self.count  # which its others are nobody knows: it waits for W at most
        left = sum(
            each.instance.reservation_id == self.reservation
            for each in objects.BuildRequestList.get_all(self.context)
        )
        return left if self.may_shrink or not left else self.count

    def is_gone(self, server: str) -> bool:
        """Whether nobody wants this one. A server that is built is a build request, which a delete takes away."""
        if self.is_new:
            return self.count > 1 and self.may_shrink and _build_request(self.context, server) is None
        cell = _cell(self.context, server)
        if cell is None:
            return True
        with contexts.target_cell(self.context, cell) as context:
            try:
                found = objects.Instance.get_by_uuid(context, server, expected_attrs=[])
            except exception.InstanceNotFound:
                return True
        return is_going(found)


def _build_request(context: Any, server: str) -> Any:
    """Of a server that is not on a host yet; None: it is, or it was deleted."""
    try:
        return objects.BuildRequest.get_by_instance_uuid(context, server)
    except exception.BuildRequestNotFound:
        return None


def _cell(context: Any, server: str) -> Any:
    """Where a server is kept once it has been on a host; None before, and of one that is gone."""
    try:
        return objects.InstanceMapping.get_by_instance_uuid(context, server).cell_mapping
    except exception.InstanceMappingNotFound:
        return None
