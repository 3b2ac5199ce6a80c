"""Associations of users with accounts, as `sacctmgr show assoc` prints them: shares, limits and default QOS.

What each column means: sacctmgr's manual page; which limit counts: Resource Limits (slurm.schedmd.com). The rules:
`docs/slurm-twin.md`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.nodelist import some
from emulator.schedulers.slurm.qos import UNDEFINED, LeftOut, LimitReader
from emulator.schedulers.slurm.sacctmgr import Table, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.schedulers.slurm.sacctmgr import Row
    from emulator.workload.table import JobTable

ROOT = "root"
_PARENT = {"parent", "2147483647"}
"""Shares of who has those of the account above (`SLURMDB_FS_USE_PARENT` in JSON)."""
_LIMITS = {
    "grpjobs": "grp_jobs",
    "grptres": "grp_nodes",
    "maxjobs": "max_jobs",
    "maxtres": "max_nodes",
    "maxtresperjob": "max_nodes",
    "maxwall": "max_wall",
    "maxwalldurationperjob": "max_wall",
}
_INHERITED = ("max_jobs", "max_nodes", "max_wall")
"""Where an association has none of its own, the account's count, for each of its users by itself."""
_NO_LIMITS = frozenset({
    "cluster", "account", "user", "partition", "parentname", "share", "fairshare", "qos", "def qos", "id", "lft", "rgt",
    "comment", "flags", "lineage", "accounting", "is_default", "deleted", "qosraw", "parentid", "id/id",
})  # fmt: skip
_TABLE = Table(
    what="assoc",
    shown="assoc tree",
    column="Account",
    listed="associations",
    columns={
        "account": "Account",
        "cluster": "Cluster",
        "user": "User",
        "partition": "Partition",
        "parent_account": "ParentName",
        "shares_raw": "Share",
        "priority": "Priority",
        "qos": "QOS",
        "default/qos": "Def QOS",
        "max/jobs/per/count": "GrpJobs",
        "max/jobs/per/accruing": "GrpJobsAccrue",
        "max/jobs/per/submitted": "GrpSubmit",
        "max/jobs/per/wall_clock": "MaxWall",
        "max/jobs/active": "MaxJobs",
        "max/jobs/accruing": "MaxJobsAccrue",
        "max/jobs/total": "MaxSubmit",
        "max/tres/total": "GrpTRES",
        "max/tres/group/minutes": "GrpTRESMins",
        "max/tres/group/active": "GrpTRESRunMins",
        "max/tres/minutes/total": "MaxTRESRunMins",
        "max/tres/minutes/per/job": "MaxTRESMins",
        "max/tres/per/job": "MaxTRES",
        "max/tres/per/node": "MaxTRESPerNode",
        "max/per/account/wall_clock": "GrpWall",
        "min/priority_threshold": "MinPrioThreshold",
    },
    harmless=frozenset({"qos", "comment", "lineage"}),
)
_FLAT = (
    "it does not say which accounts are below which, so each is taken to be right below root; `sacctmgr show assoc"
    " tree --parsable2` says it"
)


@dataclass(frozen=True, slots=True)
class Association:
    """An account (`user` is empty), or a user's use of one, in one partition or all of them.

    `parent`: the row of the account above, -1 for none. `share`: its part of the shares of the account in row `level`;
    None: it has those of the account above, and who is in it has a part of those. Limits: `grp_` of what runs in it and
    below, `max_jobs` of what runs in it; the others are of one job, `max_wall` in minutes. UNDEFINED: none.
    """

    account: str
    user: str = ""
    partition: str = ""
    parent: int = -1
    level: int = -1
    share: float | None = 1.0
    grp_jobs: int = UNDEFINED
    grp_nodes: int = UNDEFINED
    max_jobs: int = UNDEFINED
    max_nodes: int = UNDEFINED
    max_wall: int = UNDEFINED
    qos: str = ""
    is_default: bool = False

    @property
    def name(self) -> str:
        of_user = f"{self.account}/{self.user}" if self.user else self.account
        return f"{of_user} in {self.partition}" if self.partition else of_user


def read_associations(
    path: Path, cpus_per_node: int | None, cluster: str, left_out: list[str], *, in_cores: bool = False
) -> tuple[Association, ...]:
    """All of one cluster, each below its account, root first; what is not followed is told. Raises ValueError.

    `in_cores`: jobs share nodes, and limits of nodes are of cores.
    """
    rows = _of_cluster(read_rows(path, _TABLE), cluster, path)
    not_done: list[LeftOut] = []
    reader = LimitReader("the twin", _LIMITS, cpus_per_node, not_done, in_cores=in_cores)
    accounts, users = _parts(rows)
    if not accounts:
        raise ValueError(f"assoc: {path}: there is no row of an account (without a user); {_TABLE.remedy}")
    parents = _parents(accounts, path)
    notes = []
    if parents is None:
        parents = {name: ROOT for name in accounts if name != ROOT}
        if empty := sorted(set(accounts) - {ROOT} - {each[0] for each in users}):
            notes.append(f"{_listed(empty, 'account')} without users: {_FLAT}")
    if unlisted := sorted({each[0] for each in users} - set(accounts)):
        notes.append(f"{_listed(unlisted, 'account')} without a row of its own, so without shares and limits")
    found: list[tuple[Association, str, Row | None]] = []
    places: dict[str, int] = {}
    for name in _from_the_root(parents, unlisted):
        places[name] = len(found)
        row = accounts.get(name)
        above = places[parents.get(name, ROOT)] if name != ROOT else -1
        found.append((_association(name, "", "", above, row, reader), _share(row), row))
    for (account, user, partition), row in users.items():
        found.append((_association(account, user, partition, places[account], row, reader), _share(row), row))
    left_out += [f"{path.name}: {each}" for each in (*notes, *_not_done(not_done))]
    return tuple(_with_shares(_inheriting([each[0] for each in found]), [each[1] for each in found]))


def _of_cluster(rows: Sequence[Row], cluster: str, path: Path) -> list[Row]:
    """The rows that count: of the cluster of this name if there are several."""
    kept = [row for row in rows if "DELETED" not in row.said.get("flags", "")]
    clusters = sorted({row.said.get("Cluster", "").strip() for row in kept})
    if len(clusters) < 2:  # noqa: PLR2004 - several
        return kept
    if cluster not in clusters:
        raise ValueError(
            f"assoc: {path}: associations of the clusters {', '.join(clusters)}; write those of one"
            f" (`sacctmgr show assoc cluster={clusters[0]} --parsable2`), or a slurm.conf with its ClusterName"
        )
    return [row for row in kept if row.said.get("Cluster", "").strip() == cluster]


def _parts(rows: Sequence[Row]) -> tuple[dict[str, Row], dict[tuple[str, str, str], Row]]:
    """Rows of accounts, by name, and of users, by account, user and partition."""
    accounts: dict[str, Row] = {}
    users: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        account, user, partition = (
            row.said.get(name, "").strip() for name in ("Account", "User", "Partition")
        )
        if not account:
            raise ValueError(f"assoc: {row.place}: this association has no account")
        if user:
            users[account, user, partition] = row
        else:
            accounts[account] = row
    return accounts, users


def _parents(accounts: Mapping[str, Row], path: Path) -> dict[str, str] | None:
    """The account above each but root, by ParentName or the depth of a tree; None if nothing says it."""
    found: dict[str, str] = {}
    above: list[str] = []
    for name, row in accounts.items():
        text = row.said["Account"]
        depth = len(text) - len(text.lstrip())
        del above[depth:]
        found[name] = row.said.get("ParentName", "").strip() or (above[-1] if above else "")
        above.append(name)
    found.pop(ROOT, None)
    if not all(found.values()):
        return None
    for name in sorted(set(found) - set(_from_the_root(found, ()))):
        raise ValueError(
            f"assoc: {path}: account {name} is below {found[name]}, which is not below root; {_TABLE.remedy}"
        )
    return found


def _from_the_root(parents: Mapping[str, str], more: Iterable[str]) -> list[str]:
    """Each account behind the one above it."""
    found = [ROOT]
    for each in found:
        found += [name for name, parent in parents.items() if parent == each]
    return [*found, *(name for name in more if name != ROOT)]


def _association(  # noqa: PLR0917 - all of one row
    account: str, user: str, partition: str, parent: int, row: Row | None, reader: LimitReader
) -> Association:
    said = {} if row is None else {name: text.strip() for name, text in row.said.items()}
    found = Association(
        account,
        user,
        partition,
        parent,
        qos=said.get("Def QOS", ""),
        is_default=said.get("is_default") == "True",
    )
    if row is None:
        return found
    limits: dict[str, Any] = {**reader.values(f"assoc: {row.place}: ", found.name, said, _NO_LIMITS)}
    return replace(found, **limits)


def _share(row: Row | None) -> str:
    """Shares as they are written; 1 (sacctmgr's default) where they are not."""
    if row is None:
        return "1"
    said = row.said.get("Share", row.said.get("Fairshare", "1")).strip()
    if not said.isdecimal() and said not in _PARENT:
        raise ValueError(f"assoc: {row.place}: Share={said}: expected a whole number, or parent")
    return said


def _inheriting(found: list[Association]) -> list[Association]:
    """With the limits of single users that the accounts above have; those come first."""
    for place, each in enumerate(found):
        if each.parent >= 0:
            above = found[each.parent]
            missing = {name: getattr(above, name) for name in _INHERITED if getattr(each, name) == UNDEFINED}
            found[place] = replace(each, **missing, qos=each.qos or above.qos)
    return found


def _with_shares(found: list[Association], raw: Sequence[str]) -> list[Association]:
    """With the part that each has of the shares of its level."""
    levels = [-1] * len(found)
    sums: Counter[int] = Counter()
    for place, each in enumerate(found):
        above = each.parent
        levels[place] = above if above < 0 or raw[above] not in _PARENT else levels[above]
        if raw[place] not in _PARENT:
            sums[levels[place]] += int(raw[place])
    return [
        replace(each, level=level, share=None if text in _PARENT else int(text) / (sums[level] or 1))
        for each, level, text in zip(found, levels, raw, strict=True)
    ]


def _not_done(found: Sequence[LeftOut]) -> list[str]:
    """A sentence for each column and what it would have done, without names: results may be for others to see."""
    said: dict[tuple[str, str], list[str]] = {}
    for each in found:
        said.setdefault((each.column, each.why), []).append(each.text)
    return [
        f"{column}{f'={texts[0]}' if len(set(texts)) == 1 else ''} of {len(texts)} association"
        f"{'s' * (len(texts) > 1)}: {why}"
        for (column, why), texts in said.items()
    ]


def _listed(names: Sequence[str], what: str) -> str:
    return f"{what}{'s' * (len(names) > 1)} {some(names, 5)}"


@dataclass(frozen=True, slots=True)
class JobAssociations:
    """`row`: of each job its association, -1 for none. Numbers of users: `unknown` have none, `several` have more."""

    row: NDArray[np.int64]
    unknown: tuple[int, ...]
    several: tuple[int, ...]

    def not_followed(self) -> list[str]:
        found = []
        if self.unknown:
            found.append(
                f"{_listed(list(map(str, self.unknown)), 'user')} of the log without an association: Slurm would refuse"
                " their jobs (AccountingStorageEnforce=associations), or give them no share and no limits, as the twin"
                " does"
            )
        if self.several:
            found.append(
                f"{_listed(list(map(str, self.several)), 'user')} of the log with several accounts, of which it names"
                " none (sacct's column Account without Group): their jobs are taken to be of the default one, or the"
                " first"
            )
        return found


def associations_of(
    jobs: JobTable,
    found: Sequence[Association],
    *,
    users: Mapping[int, str],
    accounts: Mapping[int, str],
    partitions: Mapping[int, str],
    default_partition: str,
) -> JobAssociations:
    """Whose association each job has, by the names of its user, account (group) and partition (queue)."""
    of_user: dict[str, list[int]] = {}
    for place, each in enumerate(found):
        if each.user:
            of_user.setdefault(each.user, []).append(place)
    unknown: dict[int, None] = {}
    several: dict[int, None] = {}
    triples, which = np.unique(
        np.stack([jobs.user, jobs.group, jobs.queue], axis=1).astype(np.int64), axis=0, return_inverse=True
    )
    rows = []
    for number, group, queue in triples.tolist():
        partition = partitions.get(queue, default_partition)
        mine = of_user.get(users.get(number, ""), [])
        mine = [each for each in mine if found[each].account == accounts.get(group)] or mine
        mine = [each for each in mine if found[each].partition == partition] or [
            each for each in mine if not found[each].partition
        ]
        if not mine:
            unknown[number] = None
        elif len({found[each].account for each in mine}) > 1:
            several[number] = None
        rows.append(next((each for each in mine if found[each].is_default), mine[0]) if mine else -1)
    row = np.array(rows, np.int64)[which.reshape(-1)] if rows else np.zeros(0, np.int64)
    return JobAssociations(row, tuple(unknown), tuple(several))
