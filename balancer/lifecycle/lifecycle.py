"""The life cycle: events in, instructions out (design, section 6; balancer-liu-2018, II-B and II-C).

No input or output, no clock, no chance: `handle` depends on the state and on the event alone, and time is
`event.at_us`. Whoever carries out the instructions reports each outcome as another event; instructions about
one node must be carried out, and their outcomes reported, in the order in which they were given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from balancer.algorithms.interface import Algorithm, ChecksSettings, Plan, View
from balancer.lifecycle.conflict import Doubts
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.lifecycle.events import (
    Event,
    Grant,
    GrantConfirmed,
    Instruction,
    LeaseRenewed,
    Look,
    NodesAdopted,
    NodesContested,
    NodesDoubted,
    NodesFailed,
    NodesObserved,
    NodesReclaimed,
    NodesRecovered,
    NodesReleased,
    NodesRequested,
    NodesRestored,
    NodesUpdated,
    PlanRefused,
    Reclaim,
    Reject,
    RequestWithdrawn,
    ReserveAdded,
    ReserveWithdrawn,
    Restore,
    ServersObserved,
    TimerFired,
    WakeAt,
)
from balancer.lifecycle.failures import Failures
from balancer.lifecycle.leases import LeaseBook
from balancer.lifecycle.looks import Looks
from balancer.lifecycle.nodes import Node, NodeTable
from balancer.lifecycle.records import Changes, NodeRecord, RequestRecord, RequestStatus, Snapshot
from balancer.lifecycle.referee import Referee
from balancer.lifecycle.reports import BatchReports
from balancer.lifecycle.requests import (
    HintBook,
    Request,
    RequestQueue,
    Wish,
    check_owner,
    is_due,
    reason_of,
)
from balancer.lifecycle.selfcheck import check
from balancer.lifecycle.states import Cause, NodeState
from balancer.lifecycle.wishes import request_of, reserve_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from balancer.lifecycle.story import StoryEntry
    from balancer.policy_settings import Settings


class Lifecycle:
    """All nodes, waiting requests and hints of one Balancer, and the algorithm that decides about them.

    Nodes start as `initial`: DOWN (not seen yet, so never given away) until `NodesObserved` tells more.
    Raises ValueError for a node that is listed twice, and for settings that nodes or algorithm do not allow.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        algorithm: Algorithm,
        settings: Settings,
        *,
        initial: NodeState = NodeState.DOWN,
        algorithm_name: str | None = None,
    ) -> None:
        records = tuple(NodeRecord(name=name, state=initial, since_us=0) for name in nodes)
        fresh = Snapshot(now_us=0, serial=0, nodes=records, requests=(), reserves=())
        self._set_up(fresh, algorithm, settings, algorithm_name)

    def _set_up(
        self, snapshot: Snapshot, algorithm: Algorithm, settings: Settings, algorithm_name: str | None
    ) -> None:
        if isinstance(algorithm, ChecksSettings):
            algorithm.check(settings)
        self.settings = settings
        self._nodes = NodeTable(snapshot.nodes, settings.pick)
        if settings.static_reserve > len(self._nodes):
            raise ValueError(
                f"a reserve of {settings.static_reserve} nodes cannot be made of {len(self._nodes)} nodes"
            )
        self._requests = RequestQueue(snapshot.requests, self._nodes)
        self._leases = LeaseBook(snapshot.requests, self._nodes, self._requests, settings)
        self._hints = HintBook(snapshot.reserves)
        self._reports = BatchReports(self._nodes, self._requests)
        self._looks = Looks(settings.fresh_us, self._nodes, self._requests, self._reports)
        self._doubts = Doubts(self._nodes, self._requests, self._leases)
        self._failures = Failures(self._nodes, self._requests, self._leases)
        self._referee = Referee(algorithm, algorithm_name or type(algorithm).__name__, self._nodes)
        self.now_us = snapshot.now_us
        """Time of the latest event."""
        self._serial = snapshot.serial
        self._event_id = ""
        self._plan_wake_us: int | None = None
        self._announced_wake_us: int | None = None
        self.next_wake_us = self._first_due_us()
        """When `TimerFired` is due; None: nothing waits for time to pass."""
        self._trouble = ""
        self._unmet = 0
        self._reclaim: list[str] = []
        self._restore: list[str] = []
        self._answers: list[Instruction] = []
        self._handlers: dict[type[Event], Callable[..., None]] = {
            NodesRequested: self._on_requested,
            RequestWithdrawn: self._on_withdrawn,
            NodesReleased: lambda event: self._leases.released(event, self.now_us),
            GrantConfirmed: lambda event: self._leases.confirmed(event, self.now_us),
            LeaseRenewed: lambda event: self._leases.renewed(event, self.now_us),
            ServersObserved: lambda event: self._leases.servers_seen(event, self.now_us),
            NodesContested: lambda event: self._reports.contest(event.nodes),
            NodesUpdated: lambda event: self._reports.updated(event, self.now_us),
            ReserveAdded: self._on_reserve_added,
            ReserveWithdrawn: self._hints.withdrawn,
            NodesReclaimed: lambda event: self._reports.reclaimed(event, self.now_us),
            NodesRestored: lambda event: self._reports.restored(event, self.now_us),
            NodesObserved: self._on_observed,
            NodesFailed: lambda event: self._failures.failed(event, self.now_us, self._next_order),
            NodesRecovered: self._failures.recovered,
            NodesDoubted: lambda event: self._doubts.raised(event, self.now_us),
            NodesAdopted: self._on_adopted,
            TimerFired: self._on_timer,
        }

    # What may be asked

    @property
    def wants_idle(self) -> bool:
        """True while it would take a node the moment it becomes idle."""
        return self._unmet > 0

    def wishes(self) -> tuple[Wish, ...]:
        return self._requests.wishes(self._unmet)

    def node(self, name: str) -> NodeRecord | None:
        node = self._nodes.get(name)
        return node.record() if node is not None else None

    def request(self, request_id: str) -> RequestRecord | None:
        """A waiting request."""
        request = self._requests.get(request_id)
        return request.record if request is not None else None

    @property
    def wants_look(self) -> bool:
        """True while somebody waits for a look at all nodes."""
        return self._looks.is_asked_for

    def cares_for(self, servers: Iterable[str], empty: Iterable[str]) -> bool:
        """Whether a report that there are servers on these OD_ALLOC nodes, and none on those, changes anything."""
        return self._leases.cares_for(servers, empty)

    def story(self, node_or_event: str) -> tuple[StoryEntry, ...]:
        """What happened to a node, or what an event did, oldest first (of the latest 50,000 changes)."""
        return self._nodes.story.about(node_or_event)

    # The durable state

    @property
    def pending(self) -> tuple[int, int]:
        """How many requests wait, and how many hints are active."""
        return len(self._requests), len(self._hints)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            now_us=self.now_us,
            serial=self._serial,
            nodes=tuple(node.record() for node in self._nodes),
            requests=tuple(
                sorted(
                    [each.record for each in (*self._requests, *self._leases)],
                    key=lambda record: record.order,
                )
            ),
            reserves=tuple(self._hints),
        )

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        algorithm: Algorithm,
        settings: Settings,
        *,
        algorithm_name: str | None = None,
    ) -> Self:
        """A life cycle in this state. Call `resume` next: commands may have been lost."""
        lifecycle = cls.__new__(cls)
        lifecycle._set_up(snapshot, algorithm, settings, algorithm_name)  # noqa: SLF001 - its own class
        lifecycle.validate()
        return lifecycle

    def resume(self) -> list[Instruction]:
        """All that is under way, to be asked for again after a restart (the commands are idempotent)."""
        reclaim = tuple(node.name for node in self._nodes if node.state is NodeState.RECLAIMING)
        restore = tuple(node.name for node in self._nodes if node.state is NodeState.RESTORING)
        instructions: list[Instruction] = []
        if reclaim:
            instructions.append(Reclaim(event_id="resume", nodes=reclaim))
        if restore:
            instructions.append(Restore(event_id="resume", nodes=restore))
        # The plan's own wake time is not stored: planning again finds it.
        instructions.append(WakeAt(event_id="resume", at_us=self.now_us))
        self._announced_wake_us = self.now_us
        return instructions

    def drain_changes(self) -> Changes:
        """The records that changed since the last call."""
        return Changes(
            nodes=self._nodes.drain(),
            requests=self._requests.changed.drain(),
            reserves=self._hints.changed.drain(),
            now_us=self.now_us,
            serial=self._serial,
        )

    def forget_changes(self) -> None:
        """As `drain_changes`, for who keeps no records of them."""
        self._nodes.forget()
        self._requests.changed.drain()
        self._hints.changed.drain()

    # Events

    def handle(self, event: Event) -> list[Instruction]:
        """What is to be done because of this event.

        Raises Refused (the event contradicts what is known) or BadPlan (the algorithm failed at a request or
        a hint): nothing has changed then. A failing algorithm cannot undo facts: at all other events the
        event stands, no move is made for it, and the instructions say `PlanRefused`.
        """
        before, granted = (self.now_us, self._serial), self._nodes.counts[NodeState.OD_ALLOC]
        self.now_us = max(self.now_us, event.at_us)
        self._serial += 1
        self._event_id = event.event_id or f"event-{self._serial}"
        self._nodes.begin(self.now_us, self._event_id)
        self._reclaim.clear()
        self._restore.clear()
        self._reports.given_up.clear()
        self._answers = []
        try:
            self._handlers[type(event)](event)
            if isinstance(event, NodesDoubted):
                # No move is made while it is being found out which nodes may be moved.
                self._hints.end(self.now_us)
            else:
                if not isinstance(event, (NodesRequested, ReserveAdded)):  # these can still be undone
                    self._expire(event)
                self._hints.freed(granted - self._nodes.counts[NodeState.OD_ALLOC], self.now_us)
                self._settle(event)
        except (Refused, BadPlan):
            self.now_us, self._serial = before
            raise
        self._nodes.end()
        return self._instructions()

    def _instructions(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        if self._reclaim:
            instructions.append(Reclaim(event_id=self._event_id, nodes=tuple(self._reclaim)))
        restore = (*self._reports.given_up, *self._restore)
        if restore:
            instructions.append(Restore(event_id=self._event_id, nodes=restore))
        instructions += self._answers
        if self._looks.ask() or self._leases.is_news:
            instructions.append(Look(event_id=self._event_id, cloud=self._leases.is_news))
            self._leases.is_news = False
        wake_us = self.next_wake_us = self._first_due_us()
        if wake_us is not None and wake_us != self._announced_wake_us:
            self._announced_wake_us = wake_us
            instructions.append(WakeAt(event_id=self._event_id, at_us=wake_us))
        return instructions

    def _first_due_us(self) -> int | None:
        ends = [self._plan_wake_us, self._hints.next_due_us(self.now_us), self._leases.next_due_us]
        ends += [request.end_us for request in self._requests]
        return min([end for end in ends if end is not None], default=None)

    def _on_requested(self, event: NodesRequested) -> None:
        wish = request_of(event, self.settings, now_us=self.now_us, order=self._serial)
        if event.request_id in self._requests:
            raise Refused(Refused.ID_IN_USE, f"request {event.request_id} waits already")
        request = self._requests.add(wish)
        possible = len(self._nodes) if request.among is None else len(request.among)
        if event.count > possible:
            which = "" if request.among is None else " among its candidates"
            self._reject(request, f"it wants {event.count} nodes, and there are {possible}{which}")

    def _on_withdrawn(self, event: RequestWithdrawn) -> None:
        # It may have been answered meanwhile; whoever withdraws then finds the answer and releases the nodes.
        request = self._requests.get(event.request_id)
        if request is not None:
            check_owner(request.record, event, f"request {event.request_id} is")
            self._requests.let_go_all(request)
            self._requests.decide(request, RequestStatus.WITHDRAWN, self.now_us, reason=event.reason)

    def _on_reserve_added(self, event: ReserveAdded) -> None:
        wish = reserve_of(
            event, self.settings, nodes=len(self._nodes), now_us=self.now_us, order=self._serial
        )
        if event.reserve_id in self._hints:
            raise Refused(Refused.ID_IN_USE, f"reserve {event.reserve_id} exists already")
        self._hints.add(wish)

    def _on_observed(self, event: NodesObserved) -> None:
        self._reports.observed(event, self.now_us)
        self._looks.came(event)

    def _on_adopted(self, event: NodesAdopted) -> None:
        self._reports.given_up += self._doubts.settled(event, self.now_us)

    def _next_order(self) -> int:
        """Of a request that an event makes besides itself."""
        self._serial += 1
        return self._serial

    def _on_timer(self, event: TimerFired) -> None:
        self._announced_wake_us = None
        self._trouble = event.trouble

    # Decisions

    def _expire(self, event: Event) -> None:
        """End what may not last any longer: grants, and requests that time has run out for (W bounds each wait).

        At the very moment of its deadline a request that is short still gets what that moment brings.
        """
        self._leases.expire(self.now_us)
        is_timer = isinstance(event, TimerFired)
        for request in list(self._requests):
            if request.is_over(self.now_us) or (
                is_timer and self.now_us == request.end_us and not request.short
            ):
                self._reject(request, self._reason(request))

    def _settle(self, event: Event) -> None:
        """Plan and carry out, again after each rejection, because that frees nodes for others."""
        is_timer = isinstance(event, TimerFired)
        plan: Plan | None = None
        refused: BadPlan | None = None
        while True:
            try:
                plan = self._referee.plan(self._view(is_due_now=is_timer))
            except BadPlan as error:
                if plan is None and self._undo(event):
                    raise
                refused, plan = error, Plan()
            unmet = self._first_unmet(plan, is_timer)
            if unmet is None:
                break
            self._reject(unmet, self._reason(unmet))
        if refused is not None:
            self._answers.append(
                PlanRefused(event_id=self._event_id, algorithm=refused.algorithm, detail=refused.detail)
            )
        self._carry_out(plan)
        self._hints.end(self.now_us)

    def _undo(self, event: Event) -> bool:
        """Whether the event was a wish, which is undone; facts stand."""
        if isinstance(event, NodesRequested) and event.request_id in self._requests:
            self._requests.undo_add(event.request_id)
            return True
        if isinstance(event, ReserveAdded):
            self._hints.undo_add(event.reserve_id)
            return True
        return False

    def _view(self, *, is_due_now: bool) -> View:
        nodes = self._nodes
        return View(
            now_us=self.now_us,
            settings=self.settings,
            requests=self._requests.view(self.now_us, is_due_now=is_due_now),
            hints=self._hints.view(self.now_us),
            free=nodes.free,
            coming=nodes.coming,
            idle=nodes.idle,
            busy=nodes.counts[NodeState.OA_BUSY],
            contested=nodes.contested,
            granted=nodes.counts[NodeState.OD_ALLOC],
        )

    def _first_unmet(self, plan: Plan, is_timer: bool) -> Request | None:
        """The earliest request that is due and would still be short."""
        for request in self._requests:
            if (
                request.short > len(plan.hold.get(request.record.request_id, ()))
                and is_due(request.record, self.now_us, is_due_now=is_timer)
                and not self._looks.could_help(request, self.now_us)
            ):
                return request
        return None

    def _carry_out(self, plan: Plan) -> None:
        nodes = self._nodes
        for request_id, names in plan.hold.items():
            for name in names:
                node = nodes[name]
                if node.state is NodeState.OA_IDLE:
                    self._take(node, request_id)
                else:
                    nodes.reserve(node, request_id)
                self._requests.keep(request_id, node)
        for name in plan.collect:
            self._take(nodes[name], None)
        for name in plan.restore:
            nodes.move(nodes[name], NodeState.RESTORING, Cause.RESTORE, since_us=self.now_us)
            self._restore.append(name)
        for request in [request for request in self._requests if request.ready == request.record.count]:
            if not request.is_over(self.now_us) and self._looks.is_fresh(request, self.now_us):
                self._grant(request)
        self._plan_wake_us = plan.wake_us
        self._unmet = max(plan.unmet, sum(request.short for request in self._requests))

    def _take(self, node: Node, request_id: str | None) -> None:
        self._nodes.move(
            node, NodeState.RECLAIMING, Cause.RECLAIM, since_us=self.now_us, reserved_for=request_id
        )
        self._reclaim.append(node.name)

    def _grant(self, request: Request) -> None:
        request_id = request.record.request_id
        names = tuple(request.reserved)
        for name in names:
            self._nodes.move(
                self._nodes[name],
                NodeState.OD_ALLOC,
                Cause.GRANTED,
                since_us=self.now_us,
                reserved_for=request_id,
            )
        self._hints.use(len(names), self.now_us)
        self._leases.grant(request, names, self.now_us)
        self._answers.append(Grant(event_id=self._event_id, request_id=request_id, nodes=names))

    def _reject(self, request: Request, reason: str) -> None:
        self._requests.let_go_all(request)
        self._requests.decide(request, RequestStatus.REJECTED, self.now_us, reason=reason)
        self._answers.append(
            Reject(event_id=self._event_id, request_id=request.record.request_id, reason=reason)
        )

    def _reason(self, request: Request) -> str:
        is_late = self._looks.ran_out_for(request, self.now_us)
        return reason_of(request, trouble=self._trouble, is_late=is_late)

    # Self-check

    def validate(self) -> None:
        """Compare every index with every other. Raises AssertionError: a bug of ours."""
        check(
            self._nodes,
            self._requests,
            self._leases,
            self._hints,
            settings=self.settings,
            now_us=self.now_us,
        )
