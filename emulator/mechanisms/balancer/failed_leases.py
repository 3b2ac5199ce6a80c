"""What the users of leases do when the service tells of failed nodes, in virtual time.

Live the on-demand manager does it (`emulator.live.ondemand.failed_hosts`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.kernel.job_states import JobState
from emulator.mechanisms.balancer.policy import Failed, Granted, Rejected
from emulator.mechanisms.lease_failures import OnFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.mechanisms.balancer.node_watch import NodeWatch
    from emulator.mechanisms.balancer.policy import BalancerPolicy, Outcome
    from emulator.mechanisms.lease_failures import LeaseAccount
    from emulator.simulation.mechanism import Actions


@dataclass(slots=True)
class FailedLeases:
    """`how`: what users do. Leases are job rows, nodes are indices."""

    how: OnFailure
    account: LeaseAccount
    watch: NodeWatch = field(init=False)
    """Since the run began."""
    _wanted: dict[int, dict[str, int]] = field(default_factory=dict)
    """Lease -> its requests for other nodes that wait, and how many nodes each is for."""
    _over: list[int] = field(default_factory=list)
    """Leases that their users will give up when they look next."""

    def failed(self, node: int, act: Actions) -> None:
        """A node has failed; batch jobs have left it."""
        if (lease := int(act.cluster.node_job[node])) >= 0:
            self.account.failed(lease, act.now_us)

    def works_again(self, node: int, act: Actions) -> None:
        """A lease that still has it may use it."""
        lease = int(act.cluster.node_job[node])
        if lease >= 0 and act.cluster.node_offline[node]:
            self.account.works_again(lease, act.now_us)

    def ended(self, lease: int, nodes: list[int], policy: BalancerPolicy, act: Actions) -> list[Outcome]:
        """A lease is over at its time: it wants nothing more. Its nodes are still to be released."""
        self.account.ended(lease, act.now_us)
        act.set_down(node for node in nodes if node in self.watch.down)
        return self._withdraw(lease, policy, act)

    def carry_out(self, outcomes: Iterable[Outcome], policy: BalancerPolicy, act: Actions) -> list[Outcome]:
        """Do what is to be done about failed nodes; returns the other outcomes, and those that come of it."""
        left: list[Outcome] = []
        more = list(outcomes)
        while more:
            more = self._one_round(more, left, policy, act)
        return left

    def _one_round(
        self, outcomes: list[Outcome], left: list[Outcome], policy: BalancerPolicy, act: Actions
    ) -> list[Outcome]:
        gone: dict[int, list[int]] = {}
        come: dict[int, list[int]] = {}
        # A replacement may be granted at once: what it is for comes first.
        for outcome in sorted(outcomes, key=lambda each: not isinstance(each, Failed)):
            match outcome:
                case Failed(lease_id=lease, nodes=nodes, replaced_by=key):
                    if self.how is OnFailure.END:
                        self._over.append(lease)
                    elif key:
                        self._wanted.setdefault(lease, {})[key] = len(nodes)
                        gone.setdefault(lease, []).extend(nodes)
                case Granted(lease_id=lease, nodes=nodes, replaces=key) if key:
                    self._wanted.get(lease, {}).pop(key, None)
                    come.setdefault(lease, []).extend(nodes)
                case Rejected(lease_id=lease, replaces=key) if key:
                    self.account.not_replaced += self._wanted.get(lease, {}).pop(key, 0)
                case _:
                    left.append(outcome)
        more: list[Outcome] = []
        for lease in {**gone, **come}:
            more += self._change(lease, gone.get(lease, []), come.get(lease, []), policy, act)
        return more

    def give_up(self, policy: BalancerPolicy, act: Actions) -> list[Outcome]:
        """Users look as often as the service reads, after it: those who end leases do so now."""
        over, self._over = dict.fromkeys(self._over), []
        outcomes: list[Outcome] = []
        for lease in over:
            if act.cluster.state[lease] == JobState.RUNNING:
                outcomes += self._cut(lease, policy, act)
        return outcomes

    def _change(
        self, lease: int, gone: list[int], come: list[int], policy: BalancerPolicy, act: Actions
    ) -> list[Outcome]:
        """Failed nodes have left the lease, others have come to it. One that has no node left is over."""
        self.watch.marked.update(gone)
        held = act.cluster.nodes_of(lease).tolist()
        stays = [node for node in held if node not in gone] + come
        self.account.replaced += len(come)
        if not stays:
            self.account.cut_off(lease, act)
            act.end_lease(lease)
            act.set_down(gone)
            return self._withdraw(lease, policy, act)
        act.reassign(lease, stays)
        act.set_down(gone)
        for _ in come:
            self.account.works_again(lease, act.now_us)
        return []

    def _cut(self, lease: int, policy: BalancerPolicy, act: Actions) -> list[Outcome]:
        nodes = act.cluster.nodes_of(lease).tolist()
        self.account.cut_off(lease, act)
        act.end_lease(lease)
        act.set_down(node for node in nodes if node in self.watch.down)
        return policy.release(act.now_us, nodes)

    def _withdraw(self, lease: int, policy: BalancerPolicy, act: Actions) -> list[Outcome]:
        """It gets no other nodes any more."""
        outcomes: list[Outcome] = []
        for key, count in self._wanted.pop(lease, {}).items():
            self.account.not_replaced += count
            outcomes += policy.withdraw_replacement(act.now_us, key)
        return outcomes
