"""Fair shares as Slurm's documentation tells them (Fair Tree, Classic Fairshare), by walks over a tree of names."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import floor, frexp, inf, ldexp
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from emulator.schedulers.slurm.associations import Association

Who: TypeAlias = "int | str"


@dataclass
class Member:
    """A user if there are no `members`, else an account. `share`: of its level; None: it has those above it."""

    name: Who
    place: int
    share: float | None
    used: float = 0.0
    is_user: bool = True
    members: list[Member] = field(default_factory=list)

    def all_used(self) -> float:
        return self.used + sum(each.all_used() for each in self.members)

    def users(self) -> Iterator[Member]:
        if self.is_user:
            yield self
        for each in self.members:
            yield from each.users()

    def level(self) -> Iterator[Member]:
        """Who has a part of its shares."""
        for each in self.members:
            if each.share is None and not each.is_user:
                yield from each.level()
            else:
                yield each


def rounded(value: float) -> float:
    """To 24 bits: what is equal on paper is equal."""
    if value == inf:  # of usage that is as good as forgotten
        return inf
    mantissa, exponent = frexp(value)
    return ldexp(floor(mantissa * 2**24 + 0.5), exponent - 24)


def tree_of(found: Sequence[Association], used: Mapping[Who, float]) -> Member:
    members = [
        Member(each.name, place, each.share, used.get(each.name, 0.0), each.user != "")
        for place, each in enumerate(found)
    ]
    for member, each in zip(members[1:], found[1:], strict=True):
        members[each.parent].members.append(member)
    return members[0]


def flat_tree(shares: Mapping[int, float], used: Mapping[Who, float]) -> Member:
    """All users right below root."""
    total = sum(shares.values())
    users = [
        Member(user, place, share / total, used.get(user, 0.0))
        for place, (user, share) in enumerate(shares.items())
    ]
    return Member("root", -1, 1.0, is_user=False, members=users)


def count_usage(
    used: dict[Who, float],
    runs: Iterable[tuple[Who, float, float, float]],
    before_s: float,
    now_s: float,
    left_a_second: float,
    *,
    counts_ends: bool,
) -> None:
    """What has been used since the last time: what was used before that, and by who ended since, counts less.

    `runs`: whose, nodes, start and end in seconds. `counts_ends`: limits are enforced.
    """
    added: dict[Who, float] = defaultdict(float)
    for who, nodes, start_s, end_s in runs:
        ran_s = max(min(end_s, now_s) - max(start_s, before_s), 0.0)
        amount = nodes * ran_s * left_a_second**ran_s
        if end_s > now_s:
            added[who] += amount
        elif counts_ends:
            used[who] += amount
    for who in {*used, *added}:
        used[who] = used[who] * left_a_second ** (now_s - before_s) + added[who]


def fair_tree(root: Member) -> dict[Who, float]:
    users = len([*root.users()])
    found: dict[Who, float] = {}
    rank = users

    def visit(account: Member, is_tied: bool) -> None:
        nonlocal rank
        used = account.all_used()

        def fairness(each: Member) -> float:
            if each.share is None:
                return inf
            if not each.share or not each.all_used():
                return inf if each.share else 0.0
            return rounded(each.share * used / each.all_used())

        before = None
        for each in sorted(account.level(), key=lambda each: (-fairness(each), not each.is_user, each.place)):
            tied = is_tied if before is None else fairness(each) == before
            before = fairness(each)
            if not each.is_user:
                visit(each, tied)
                continue
            if not tied:
                rank = users - len(found)
            found[each.name] = rank / users

    visit(root, False)
    return found


def without_fair_tree(root: Member) -> dict[Who, float]:
    total = root.all_used()
    found: dict[Who, float] = {}

    def visit(account: Member, counted: float, owned: float) -> None:
        for each in account.level():
            used = each.all_used() / total if total else 0.0
            if each.share is None:
                its = counted, owned
            elif account is root:
                its = used, each.share
            else:
                its = used + (counted - used) * each.share, each.share * owned
            if each.is_user:
                found[each.name] = 0.5 ** (its[0] / its[1]) if its[1] else 0.0
            else:
                visit(each, *its)

    visit(root, 1.0 if total else 0.0, 1.0)
    return found
