"""What a scenario says of Slurm, and the rules that follow. The docs: `docs/slurm-twin.md`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from balancer.nodelist import some
from emulator.config.node_names import default_node_names, named_nodes
from emulator.plugins import check_number
from emulator.schedulers.slurm.associations import associations_of, read_associations
from emulator.schedulers.slurm.conf import cluster_name, read_conf, release_in
from emulator.schedulers.slurm.conf_lines import read_lines, site_nodes
from emulator.schedulers.slurm.constraints import (
    Constraint,
    constraints_in,
    constraints_not_followed,
    features_asked,
    features_in,
    nodes_with,
)
from emulator.schedulers.slurm.node_sizes import (
    fewest_cores_in,
    node_sets_in,
    parameters_in,
    says_select_type,
    sizes_in,
    weights_in,
)
from emulator.schedulers.slurm.preemption_settings import PreemptMode, PreemptType  # noqa: TC001 - as Path
from emulator.schedulers.slurm.qos import NORMAL, read_qos
from emulator.schedulers.slurm.releases import NEWEST, AsWritten, Release
from emulator.schedulers.slurm.reservations import Reservation, reserved_on
from emulator.schedulers.slurm.rules import Partition, PriorityType, Rules
from emulator.schedulers.slurm.select import CORES, Select, SharedNodes
from emulator.schedulers.slurm.unsupported_settings import WHOLE_NODES, not_followed
from emulator.workload.job_columns import CONSTRAINT_OF_LOG, QOS_OF_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from emulator.schedulers.slurm.associations import Association, JobAssociations
    from emulator.schedulers.slurm.qos import LeftOut
    from emulator.schedulers.slurm.select import Parameters
    from emulator.workload.table import JobTable

UNLIMITED_PARTITION = "nodes that are held"
_NAMES = (
    "queues", "qos_names", "queue_qos", "user_qos", "users", "accounts", "constraint_names", "queue_constraint",
    "user_constraint",
)  # fmt: skip
"""Settings that have a text for a number of the trace."""
_WHAT_NODES_HAVE = (
    "slurm: select: say what nodes have: `cores`, if all have as many, `kinds`, or a `conf` with NodeName lines of all"
    " nodes"
)


def _by_number(name: str, said: Mapping[Any, Any]) -> Iterator[tuple[int, Any]]:
    """What is said of users, groups or queues of the trace, by their numbers. Raises ValueError."""
    for number, each in said.items():
        if not str(number).removeprefix("-").isdecimal():
            raise ValueError(f"slurm: {name}: expected numbers of the trace, not {number!r}")
        yield int(number), each


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """What Slurm would do: a pass on each event, backfill every `bf_interval`, priorities and partitions.

    `conf`: a slurm.conf. What is set beside it stands above it; what nobody sets is Slurm's default. `queues`:
    partition of a queue of the trace, by number. `shares`: of a user, by number; 1 for others. `ignores_term`: jobs
    do not end at the signal that tells them of their limit, only `kill_wait` later. `nodes_lent`: so many nodes,
    the last ones, are lent for the whole run. `nodes_added`: so many, the last ones, are none of the conf's.
    `unlimited_queue`: jobs of this queue of the trace are in a partition beside the conf's, of its nodes and
    without limits. `qos`: a table of QOS, or a file of what `sacctmgr show qos` printed; `queue_qos`, `user_qos`:
    that of a queue's and a user's jobs, by number, else the log's, whose names `qos_names` are, else `normal`;
    `cpus_per_node`: for limits in `cpu`. `associations`: a file of what `sacctmgr show assoc` printed; `users`,
    `accounts`: the names of users and groups of the trace, by number. `features`: nodes with each (a list of names),
    beside those of `conf`; `queue_constraint`, `user_constraint`: what a queue's and a user's jobs ask for, by number,
    else the log's, whose texts `constraint_names` are. `reservations`: advance ones, by name. `select`: jobs share
    nodes. `release`: whose rules, else `conf`'s if it is what Slurm printed, else
    the newest's. The
    rest: `rules.py`.
    """

    conf: Path | None = None
    queues: dict[int, str] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    ignores_term: bool = False
    nodes_lent: int = 0
    nodes_added: int = 0
    unlimited_queue: int | None = None
    qos: Path | dict[str, dict[str, int | float | str]] | None = None
    associations: Path | None = None
    users: dict[int, str] = field(default_factory=dict)
    accounts: dict[int, str] = field(default_factory=dict)
    qos_names: dict[int, str] = field(default_factory=dict)
    queue_qos: dict[int, str] = field(default_factory=dict)
    user_qos: dict[int, str] = field(default_factory=dict)
    cpus_per_node: int | None = None
    enforce_limits: bool | None = None
    features: dict[str, str] = field(default_factory=dict)
    constraint_names: dict[int, str] = field(default_factory=dict)
    queue_constraint: dict[int, str] = field(default_factory=dict)
    user_constraint: dict[int, str] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    select: Select | None = None
    release: AsWritten | None = None
    backfill: bool | None = None
    default_queue_depth: int | None = None
    partition_job_depth: int | None = None
    sched_max_job_start: int | None = None
    sched_interval: int | None = None
    sched_min_interval: int | None = None
    defer: bool | None = None
    bf_interval: int | None = None
    bf_window: int | None = None
    bf_resolution: int | None = None
    bf_max_job_test: int | None = None
    bf_max_job_user: int | None = None
    bf_max_job_part: int | None = None
    bf_max_job_user_part: int | None = None
    bf_max_job_assoc: int | None = None
    bf_max_job_start: int | None = None
    bf_job_part_count_reserve: int | None = None
    bf_continue: bool | None = None
    bf_min_age_reserve: int | None = None
    bf_after_quiet: int | None = None
    over_time_limit: int | None = None
    kill_wait: int | None = None
    message_timeout: int | None = None
    job_requeue: bool | None = None
    preempt_type: PreemptType | None = None
    preempt_mode: PreemptMode | None = None
    preempt_exempt_time: int | None = None
    priority_type: PriorityType | None = None
    priority_weight_age: int | None = None
    priority_weight_fairshare: int | None = None
    priority_weight_job_size: int | None = None
    priority_weight_partition: int | None = None
    priority_weight_qos: int | None = None
    priority_max_age: int | None = None
    priority_favor_small: bool | None = None
    priority_fair_tree: bool | None = None
    priority_decay_half_life: int | None = None
    priority_calc_period: int | None = None

    def __post_init__(self) -> None:
        Rules(**self._said())
        for name in ("nodes_lent", "nodes_added"):
            check_number("slurm", name, getattr(self, name), at_least=0, whole=True)
        for number, share in self.shares.items():
            check_number("slurm", f"shares of {number}", share, above=0)
        object.__setattr__(self, "shares", {n: float(each) for n, each in _by_number("shares", self.shares)})
        if self.cpus_per_node is not None:
            check_number("slurm", "cpus_per_node", self.cpus_per_node, at_least=1, whole=True)
        if self.associations is not None and self.shares:
            raise ValueError("slurm: shares are those of the associations; leave one of the two out")
        for name in _NAMES:
            said = _by_number(name, getattr(self, name))
            object.__setattr__(self, name, {number: str(each) for number, each in said})
        for name in ("queue_constraint", "user_constraint"):
            for text in getattr(self, name).values():
                features_asked(text)

    def _said(self) -> dict[str, Any]:
        known = {each.name for each in fields(Rules)}
        names = [
            each.name
            for each in fields(self)
            if each.name in known and each.name not in {"qos", "reservations", "associations"}
        ]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def rules(self, node_count: int) -> Rules:
        """All settings for a machine of so many nodes. Raises ValueError."""
        if self.nodes_added and (self.conf is None or self.nodes_added >= node_count):
            raise ValueError(
                f"slurm: nodes_added: {self.nodes_added} of {node_count} nodes, beside those of a conf"
            )
        read = {} if self.conf is None else read_conf(self.conf, node_count, self.nodes_added)
        said = read | self._said()
        if said.get("release", NEWEST) != "22.05":
            said = {"priority_type": "multifactor", **said}  # the default since 23.11
        rules = self._with_qos(Rules(**said, associations=self._associations([])))
        rules = replace(rules, reservations=reserved_on(self.reservations, node_count))
        if self.unlimited_queue is not None:
            rules = replace(rules, partitions=(*rules.partitions, self._unlimited(rules, node_count)))
        if self.select is not None and self.cpus_per_node is not None:
            raise ValueError("slurm: select: limits in cpu are of the jobs' cores; leave cpus_per_node out")
        self._check_constraints(node_count)
        known = {each.name for each in rules.partitions}
        for number, name in self.queues.items():
            if name not in known:
                there = ", ".join(sorted(known))
                raise ValueError(f"slurm: queue {number} goes to partition {name!r}; there are: {there}")
        return self._without_lent(rules, node_count) if self.nodes_lent else rules

    def _unlimited(self, rules: Rules, node_count: int) -> Partition:
        default = next(each for each in rules.partitions if each.name == rules.default_partition)
        nodes = tuple(range(node_count - self.nodes_added))
        return Partition(UNLIMITED_PARTITION, nodes, priority_tier=default.priority_tier, preempt_mode="off")

    @property
    def _in_cores(self) -> bool:
        """Whether limits are of cores."""
        return self.select is not None

    def said_release(self) -> Release | None:
        """Whose rules these settings name, None if they name none. Raises ConfError."""
        return self.release or (None if self.conf is None else release_in(self.conf))

    def shared_nodes(self, node_count: int) -> SharedNodes | None:
        """What each node of so many has, None unless jobs share them. Raises ValueError."""
        select = self.select
        if select is None:
            return None
        if select.kinds or (select.cores is not None and self.conf is None):
            return select.on(node_count)
        if select.cores is not None and self.conf is not None:
            weights = weights_in(self.conf, node_count - self.nodes_added) + (1,) * self.nodes_added
            return replace(select.on(node_count), weights=weights)
        if self.conf is None or self.nodes_added:
            raise ValueError(_WHAT_NODES_HAVE)
        sizes = sizes_in(self.conf, node_count, self.select_parameters)
        return SharedNodes(self.select_parameters, sizes, weights_in(self.conf, node_count))

    def node_sets(self, node_count: int) -> tuple[int, ...]:
        """The place of each node's set among those that whole nodes are taken from, in order. Raises ConfError."""
        of_site = node_count - self.nodes_added
        if self.select is not None or self.conf is None:
            return (0,) * node_count
        sets = node_sets_in(self.conf, of_site, self.said_release() or NEWEST)
        return sets + (max(sets, default=0) + 1,) * self.nodes_added

    @property
    def select_parameters(self) -> Parameters:
        """What of nodes jobs share: cores and memory, or cores alone. Raises ConfError."""
        select = self.select or Select(1)
        of_conf = select.cores is None and not select.kinds and self.conf is not None
        by_conf = parameters_in(cast("Path", self.conf), self.said_release() or NEWEST) if of_conf else None
        return select.parameters or by_conf or CORES

    @property
    def fewest_cores(self) -> int:
        """Of a node, 1 where jobs have whole ones. Raises ValueError."""
        select = self.select or Select(1)
        if select.kinds:
            return min(each.cores for each in select.kinds.values())
        if select.cores is None and self.conf is None:
            raise ValueError(_WHAT_NODES_HAVE)
        return select.cores or fewest_cores_in(cast("Path", self.conf))

    @property
    def site_nodes(self) -> int | None:
        """How many nodes there are by the NodeName lines of `conf`, None without one. Raises ConfError."""
        found = 0 if self.conf is None else len(site_nodes(read_lines(self.conf)))
        return found + self.nodes_added if found else None

    def not_followed(self, jobs: JobTable, node_count: int) -> tuple[str, ...]:
        """What `conf` and the tables say that the twin does not do with these jobs, as sentences. Raises ValueError."""
        found = [] if self.conf is None else list(not_followed(self.conf, self._of_site(node_count)))
        found += self._nodes_by_default()
        if isinstance(self.qos, Path):
            left_out: list[LeftOut] = []
            read_qos(self.qos, self.cpus_per_node, left_out=left_out, in_cores=self._in_cores)
            found += [f"{self.qos.name}: {each}" for each in left_out]
        rules = self.rules(node_count)
        found += self._without_qos(jobs, rules)
        found += self._constraints_not_followed(jobs, node_count)
        where = "" if self.conf is None else f"{self.conf.name}: "
        if rules.bf_max_job_assoc and self.associations is None:
            found.append(
                f"{where}bf_max_job_assoc: no table says whose associations there are (associations)"
            )
        has_fair_share = rules.priority_type == "multifactor" and rules.priority_weight_fairshare
        if has_fair_share and self.conf is not None and self.associations is None and not self.shares:
            found.append(
                f"{where}PriorityWeightFairshare: no table says what accounts and shares there are (associations), so"
                " each user has an equal share"
            )
        if rules.preempt_type == "qos" and self.qos is None:
            found.append(f"{where}PreemptType=preempt/qos: no table says which QOS preempt others (qos)")
        if self.associations is not None:
            said = self.associations_of(jobs, rules).not_followed()
            defaults = sorted({each.qos for each in self._associations(found)} - {"", NORMAL})
            if self.qos is None and defaults:
                said.append(f"Def QOS={','.join(defaults)}: no table says what these QOS are (qos)")
            found += [f"{self.associations.name}: {each}" for each in said]
        return tuple(found)

    def _nodes_by_default(self) -> Iterator[str]:
        """A sentence on a `conf` without SelectType, whose default is another one than whole nodes."""
        if self.conf is None or self.select is not None:
            return
        if not says_select_type(self.conf) and parameters_in(self.conf, self.said_release() or NEWEST):
            yield f"{self.conf.name}: no SelectType, which means select/cons_tres since Slurm 23.11: {WHOLE_NODES}"

    def _of_site(self, node_count: int) -> SharedNodes | None:
        """The same of the nodes that `conf` knows."""
        shared = self.shared_nodes(node_count)
        if shared is None:
            return None
        known = slice(node_count - self.nodes_added)
        return replace(shared, sizes=shared.sizes[known], weights=shared.weights[known])

    def qos_of_jobs(self, jobs: JobTable, rules: Rules, associations: NDArray[np.int64]) -> list[str]:
        """The QOS of each job: of its queue or user if that is set, else the log's, its association's, normal."""
        defaults = [*(each.qos or NORMAL for each in rules.associations), NORMAL]
        known = {each.name for each in rules.qos}
        names = {number: name for number, name in self.qos_names.items() if name in known}
        said = jobs.column(QOS_OF_LOG, -1).tolist()
        return [
            self.queue_qos.get(queue) or self.user_qos.get(user) or names.get(number) or defaults[row]
            for queue, user, number, row in zip(
                jobs.queue.tolist(), jobs.user.tolist(), said, associations.tolist(), strict=True
            )
        ]

    def _without_qos(self, jobs: JobTable, rules: Rules) -> list[str]:
        """Sentences on QOS of the log that no table has."""
        numbers = np.unique(jobs.column(QOS_OF_LOG, -1)).tolist()
        known = {each.name for each in rules.qos}
        found = {self.qos_names[each] for each in numbers if each in self.qos_names}
        missing = sorted(found - known)
        if self.qos is None and len(found) > 1:
            return [f"QOS of the log ({some(missing, 5)}): no table says what they are (qos; whatif --qos)"]
        if self.qos is None or not missing:
            return []
        return [f"QOS of the log that no table has, taken for the user's default: {some(missing, 5)}"]

    def features_on(self, node_count: int) -> dict[str, frozenset[int]]:
        """The nodes with each feature. Raises ValueError."""
        names = default_node_names(node_count)
        here = names[: node_count - self.nodes_added]
        found = {} if self.conf is None else features_in(self.conf, here)
        said = {
            name: named_nodes(f"slurm: features.{name}", nodes, names)
            for name, nodes in self.features.items()
        }
        return {
            name: found.get(name, frozenset()) | said.get(name, frozenset()) for name in {**found, **said}
        }

    def constraints_of(
        self, jobs: JobTable, node_count: int
    ) -> tuple[NDArray[np.int64], tuple[Constraint, ...]]:
        """Which constraint each job has, -1 for none, and the constraints. Raises ValueError."""
        numbers = jobs.column(CONSTRAINT_OF_LOG).tolist()
        texts = [
            self.queue_constraint.get(queue)
            or self.user_constraint.get(user)
            or self.constraint_names.get(number, "")
            for queue, user, number in zip(jobs.queue.tolist(), jobs.user.tolist(), numbers, strict=True)
        ]
        return constraints_in(texts, self.features_on(node_count) if any(texts) else {})

    def _constraints_not_followed(self, jobs: JobTable, node_count: int) -> Iterator[str]:
        """Sentences on what the log's jobs asked for."""
        features = self.features_on(node_count)
        numbers = np.unique(jobs.column(CONSTRAINT_OF_LOG)).tolist()
        asked = {self.constraint_names[each] for each in numbers if each in self.constraint_names}
        yield from constraints_not_followed(sorted(asked), features)
        differ = sorted(name for name, nodes in features.items() if len(nodes) < node_count)
        if differ and not (asked or self.queue_constraint or self.user_constraint):
            yield (
                f"features of nodes ({some(differ, 5)}): the log does not say which jobs ask for them (sacct:"
                " Constraints, ReqTRES)"
            )

    def _check_constraints(self, node_count: int) -> None:
        """Those that are none of the log's have nodes."""
        if not (self.queue_constraint or self.user_constraint):
            return
        features = self.features_on(node_count)
        for name in ("queue_constraint", "user_constraint"):
            for number, text in getattr(self, name).items():
                unknown = sorted(features_asked(text) - {*features})
                there = ", ".join(sorted(features)) or "none"
                if unknown:
                    raise ValueError(
                        f"slurm: {name} {number}: no node has feature {unknown[0]!r}; there are: {there}"
                    )
                if not nodes_with(text, features):
                    raise ValueError(f"slurm: {name} {number}: no node has all of {text!r}")

    def associations_of(self, jobs: JobTable, rules: Rules) -> JobAssociations:
        """Whose association each job has. Raises ValueError if nobody says who the users are."""
        if rules.associations and not self.users and len(jobs):
            raise ValueError(
                "slurm: associations are of users by name, and the log has numbers; say which is who: `users: {1: ann}`"
            )
        return associations_of(
            jobs,
            rules.associations,
            users=self.users,
            accounts=self.accounts,
            partitions=self.queues,
            default_partition=rules.default_partition,
        )

    def _associations(self, left_out: list[str]) -> tuple[Association, ...]:
        if self.associations is None:
            return ()
        cluster = "" if self.conf is None else cluster_name(self.conf)
        return read_associations(
            self.associations, self.cpus_per_node, cluster, left_out, in_cores=self._in_cores
        )

    def _with_qos(self, rules: Rules) -> Rules:
        """With the table; where there is none, QOS that partitions name have no limits."""
        if self.qos is None:
            if self.queue_qos or self.user_qos:
                raise ValueError(
                    "slurm: queue_qos and user_qos name QOS, and there is no table of them: set qos"
                )
            return rules
        left_out: list[LeftOut] | None = [] if isinstance(self.qos, Path) else None
        table = read_qos(self.qos, self.cpus_per_node, left_out=left_out, in_cores=self._in_cores)
        known = {each.name for each in table}
        named = [(f"queue_qos {number}", name) for number, name in self.queue_qos.items()]
        named += [(f"user_qos {number}", name) for number, name in self.user_qos.items()]
        named += [(f"partition {each.name}", each.qos) for each in rules.partitions if each.qos]
        named += [(f"association {each.name}", each.qos) for each in rules.associations if each.qos]
        for who, name in named:
            if name not in known:
                raise ValueError(f"slurm: {who} has QOS {name!r}; there are: {', '.join(sorted(known))}")
        return replace(rules, qos=table)

    def _without_lent(self, rules: Rules, node_count: int) -> Rules:
        left = range(node_count - self.nodes_lent)
        partitions = tuple(
            replace(
                each,
                nodes=tuple(left if each.nodes is None else (node for node in each.nodes if node in left)),
            )
            for each in rules.partitions
        )
        empty = [
            each.name
            for each, before in zip(partitions, rules.partitions, strict=True)
            if not each.nodes and before.nodes != ()
        ]
        if empty:
            raise ValueError(f"slurm: with {self.nodes_lent} nodes lent partition {empty[0]} has none left")
        return replace(rules, partitions=partitions)
