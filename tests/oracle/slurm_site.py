"""What the rules of `docs/slurm-twin.md` say of a job: its order, limits and advance reservations, slowly."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from balancer.clock import US
from oracle.slurm_fair_share import Who, count_usage, fair_tree, flat_tree, tree_of, without_fair_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from emulator.schedulers.slurm.associations import Association
    from emulator.schedulers.slurm.reservations import Reserved
    from emulator.schedulers.slurm.rules import Rules
    from oracle.node_outages import Out
    from oracle.reference import Job

MINUTE_US = 60 * US
NEVER = float("inf")
OF_JOBS = "grp_jobs", "user_jobs"
"""Limits on how many jobs run: a cycle looks at them before it counts whom it tries, and at the others after that."""


@dataclass
class Running:
    start: int
    limit_end: int
    end: int
    nodes: frozenset[int]
    outcome: str = "finished"


@dataclass
class SlurmSite:
    """What the rules say of each job, and who waits, runs and has run. `outs`: what happens to nodes."""

    rules: Rules
    node_count: int
    jobs: list[Job]
    queues: dict[int, str] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    user_qos: dict[int, str] = field(default_factory=dict)
    association_of: dict[int, int] = field(default_factory=dict)
    """The place of each user's association among those of the rules."""
    outs: list[Out] = field(default_factory=list)
    may_have: dict[int, frozenset[int]] = field(default_factory=dict)
    """The nodes that meet the constraint of each user who has one."""
    node_sets: Sequence[int] = ()
    """The place of each whole node's set."""

    def __post_init__(self) -> None:
        self.future = sorted(self.jobs, key=lambda job: (job.submit_us, job.number))
        self.queue: list[Job] = []
        self.running: dict[Job, Running] = {}
        self.runs: list[tuple[Job, Running]] = []
        self.held: dict[Job, int] = {}
        """Jobs that were requeued, and when they may wait again."""
        self.used: dict[Who, float] = defaultdict(float)
        self.used_at = 0
        self.eligible = {job: job.submit_us for job in self.jobs}
        self.submitted = {job: job.submit_us for job in self.jobs}
        self.out: set[int] = set()
        self.priority: dict[Job, int] = {}
        self.qos = {each.name: each for each in self.rules.qos}
        self.partitions = {each.name: each for each in self.rules.partitions}
        self.pass_at: float = NEVER
        self.last_pass: float = -NEVER
        self.full_changed = False
        self.fill_at: float = NEVER
        self.last_fill: float = -NEVER
        self.fills_go_on = False
        """After the last cycle others follow though nothing happens: those until a change start nobody."""
        self.last_leave: float = -NEVER

    # -- the queue -----------------------------------------------------------------------------------------

    def partition(self, job: Job) -> str:
        return self.queues.get(job.queue, self.rules.default_partition)

    def nodes_of(self, job: Job) -> set[int]:
        nodes = self.partition_nodes(job)
        return nodes & self.may_have.get(job.user, nodes)

    def partition_nodes(self, job: Job) -> set[int]:
        listed = self.partitions[self.partition(job)].nodes
        return set(range(self.node_count)) if listed is None else set(listed)

    def order(self, job: Job) -> tuple[int, ...]:
        """Where a job stands. `priority/basic` tells each its priority once, by its first submit."""
        is_basic = self.rules.priority_type == "basic"
        first = job.submit_us if is_basic else self.submitted[job]
        return (*self.place(job), first, job.submit_us, job.number)

    def place(self, job: Job) -> tuple[int, int]:
        return -self.partitions[self.partition(job)].priority_tier, -self.priority[job]

    def priority_of(self, job: Job, now: int) -> int:
        rules = self.rules
        if rules.priority_type == "basic":
            return 0
        size = self.size(job)
        size = 1 - size if rules.priority_favor_small else size
        largest = max(each.priority_job_factor for each in rules.partitions)
        factor = self.partitions[self.partition(job)].priority_job_factor / (largest or 1)
        fixed = rules.priority_weight_job_size * size + rules.priority_weight_partition * factor
        if self.qos:
            best = max(each.priority for each in self.qos.values()) or 1
            fixed += rules.priority_weight_qos * (self.qos[self.qos_of(job)].priority / best)
        value = fixed + rules.priority_weight_age * min(
            (now - self.eligible[job]) / (rules.priority_max_age * US), 1
        )
        if rules.priority_weight_fairshare:
            at = now - now % (rules.priority_calc_period * US)
            value += rules.priority_weight_fairshare * self.fair_shares(at).get(self.who(job), 0.0)
        return int(value + 1e-6)

    def association(self, job: Job) -> Association | None:
        place = self.association_of.get(job.user)
        return None if place is None else self.rules.associations[place]

    def accounts_above(self, job: Job) -> list[Association]:
        """A job's association and the accounts that it is in."""
        found = [] if (own := self.association(job)) is None else [own]
        while found and found[-1].parent >= 0:
            found.append(self.rules.associations[found[-1].parent])
        return found

    def who(self, job: Job) -> Who:
        """Whose usage the job's is: its association's name, else the user's number."""
        if not self.rules.associations:
            return job.user
        return "" if (own := self.association(job)) is None else own.name

    def fair_shares(self, now: int) -> dict[Who, float]:
        """From 0 to 1, of each user, as they are worked out then, a multiple of the period."""
        rules, half_life = self.rules, self.rules.priority_decay_half_life
        left = 1 - 0.693 / half_life if half_life else 1.0
        while self.used_at < now:
            before, self.used_at = self.used_at, self.used_at + rules.priority_calc_period * US
            runs = [
                (self.who(job), self.width(job) * self.usage_factor(job), run.start / US, run.end / US)
                for job, run in self.runs
            ]
            count_usage(
                self.used, runs, before / US, self.used_at / US, left, counts_ends=rules.enforce_limits
            )
        if self.rules.associations:
            root = tree_of(self.rules.associations, self.used)
        else:
            users = sorted({each.user for each in self.jobs})
            root = flat_tree({user: self.shares.get(user, 1) for user in users}, self.used)
        return fair_tree(root) if self.rules.priority_fair_tree else without_fair_tree(root)

    def width(self, job: Job) -> int:
        """What limits and usage count: nodes."""
        return job.nodes

    def usage_factor(self, job: Job) -> float:
        return self.qos[self.qos_of(job)].usage_factor if self.qos else 1.0

    def size(self, job: Job) -> float:
        """What part of the machine the job is."""
        return job.nodes / self.node_count

    # -- limits --------------------------------------------------------------------------------------------

    def qos_of(self, job: Job) -> str:
        return self.user_qos.get(job.user, "normal")

    def all_qos(self, job: Job) -> list[str]:
        """The QOS whose limits count for a job, the partition's first."""
        named = [self.partitions[self.partition(job)].qos, self.qos_of(job)]
        return [name for name in named if name in self.qos]

    def is_over_limit(self, job: Job, kinds: Collection[str] = (*OF_JOBS, "grp_nodes", "user_nodes")) -> bool:
        if not self.rules.enforce_limits:
            return False
        for kind in kinds:
            for name in self.all_qos(job):
                most = getattr(self.qos[name], kind)
                if most < 0:
                    continue
                theirs = [each for each in self.running if name in self.all_qos(each)]
                if kind.startswith("user"):
                    theirs = [each for each in theirs if each.user == job.user]
                sizes = [self.width(each) if kind.endswith("nodes") else 1 for each in [*theirs, job]]
                if sum(sizes) > most:
                    return True
                break
            else:
                if self.is_over_association(job, kind):
                    return True
        return False

    def is_over_association(self, job: Job, kind: str) -> bool:
        """Whether the association or an account above it has a limit of this kind, and the job is beyond it."""
        above = self.accounts_above(job)
        if kind == "user_jobs":
            theirs = [each for each in self.running if above and self.association(each) == above[0]]
            return bool(above) and 0 <= above[0].max_jobs <= len(theirs)
        for account in above:
            theirs = [each for each in self.running if account in self.accounts_above(each)]
            if kind == "grp_jobs" and 0 <= account.grp_jobs <= len(theirs):
                return True
            if kind == "grp_nodes" and 0 <= account.grp_nodes < sum(map(self.width, [*theirs, job])):
                return True
        return False

    # -- advance reservations ------------------------------------------------------------------------------

    def boundaries(self) -> list[int]:
        return [time * US for each in self.rules.reservations for time in (each.start_s, each.end_s)]

    def own(self, job: Job) -> Reserved | None:
        """The reservation that a job asks for: one that names it, else one that names its user."""
        named = [each for each in self.rules.reservations if job.number in each.jobs]
        named += [each for each in self.rules.reservations if job.user in each.users]
        return named[0] if named else None

    def may_run(self, job: Job, begin: int) -> bool:
        own = self.own(job)
        return own is None or (own.start_s * US <= begin and begin + limit(job) <= own.end_s * US)

    def open_nodes(self, job: Job, begin: int) -> set[int]:
        """Nodes of the job's partition that reservations let it have from then until its limit has passed."""
        nodes, own = self.nodes_of(job), self.own(job)
        for each in self.rules.reservations:
            if each == own:
                nodes &= set(each.nodes)
            elif each.start_s * US < begin + limit(job) and begin < each.end_s * US:
                nodes -= set(each.nodes)
        return nodes

    def is_kept_out(self, job: Job, now: int, kept: set[int]) -> bool:
        """Reservations take nodes from it, and nobody runs on those that they leave, nor are they kept for others."""
        left = self.open_nodes(job, now)
        busy = {node for run in self.running.values() for node in run.nodes}
        are_up = len(self.nodes_of(job) - self.out) >= job.nodes
        return are_up and left < self.nodes_of(job) and not left & (busy | kept)


def limit(job: Job) -> int:
    return -(-job.estimate_us // MINUTE_US) * MINUTE_US
