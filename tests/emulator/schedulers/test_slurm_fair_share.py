"""Fair share in Slurm's twin: accounts before users, ties, shares of the account above, and when it is worked out."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from balancer.clock import US
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.associations import Association, read_associations
from emulator.schedulers.slurm.conf import read_conf
from emulator.schedulers.slurm.fair_share import of_associations, rank_users, weigh_usage
from emulator.schedulers.slurm.unsupported_settings import not_followed
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from oracle.slurm_fair_share import Who, count_usage, fair_tree, tree_of, without_fair_tree
from testdata import RECORDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from emulator.kernel.rows import Rows
    from emulator.schedulers.slurm.tables import Share

PARENTS = None
"""The shares of the account above."""


def tree(*rows: tuple[str, str, float | None]) -> list[Association]:
    """Of `(account above, name, part of the shares)`; root first, users in lower case, accounts in upper case."""
    found = [Association("root")]
    places = {"root": 0}
    for above, name, share in rows:
        parent = places[above]
        level = found[parent].level if found[parent].share is None else parent
        account, user = (above, name) if name.islower() else (name, "")
        places[name] = len(found)
        found.append(Association(account, user, "", parent, level, share))
    return found


def ranked(
    found: Sequence[Association], used: Mapping[Who, float], *, is_fair_tree: bool = True
) -> Rows[Share]:
    """Once their own usage is this."""
    rows, order = of_associations(found)
    for place, each in reversed([*enumerate(found)]):
        rows[place].usage += used.get(each.name, 0.0)
        if each.parent >= 0:
            rows[each.parent].usage += rows[place].usage
    if is_fair_tree:
        rank_users(rows, order, np.zeros(len(rows), np.int64))
    else:
        weigh_usage(rows)
    return rows


def factors(
    found: Sequence[Association], used: Mapping[Who, float], *, is_fair_tree: bool = True
) -> dict[str, float]:
    rows = ranked(found, used, is_fair_tree=is_fair_tree)
    return {each.name: float(rows[place].factor) for place, each in enumerate(found) if each.user}


TWO_GROUPS = tree(
    ("root", "A", 0.5),
    ("root", "B", 0.5),
    ("A", "ann", 0.5),
    ("A", "bob", 0.5),
    ("B", "cyd", 0.5),
    ("B", "dan", 0.5),
)


def test_users_of_the_account_that_used_less_come_before_all_users_of_the_other():
    """Though bob has used nothing, and cyd something."""
    used = {"A/ann": 90.0, "B/cyd": 10.0}
    assert factors(TWO_GROUPS, used) == {"A/ann": 0.25, "A/bob": 0.5, "B/cyd": 0.75, "B/dan": 1.0}


def test_without_fair_tree_the_usage_of_an_account_counts_for_each_of_its_users_by_his_shares():
    used = {"A/ann": 90.0, "B/cyd": 10.0}
    found = factors(TWO_GROUPS, used, is_fair_tree=False)
    counted = {"A/ann": 0.9, "A/bob": 0.45, "B/cyd": 0.1, "B/dan": 0.05}
    assert found == pytest.approx({name: 2 ** -(part / 0.25) for name, part in counted.items()})


def test_who_is_tied_has_the_same_rank_and_who_follows_has_that_of_his_place():
    found = tree(("root", "A", 1.0), *(("A", name, 0.25) for name in ("ann", "bob", "cyd", "dan")))
    assert factors(found, {}) == {f"A/{name}": 1.0 for name in ("ann", "bob", "cyd", "dan")}
    used = {"A/ann": 5.0, "A/bob": 2.0, "A/cyd": 2.0, "A/dan": 1.0}
    assert factors(found, used) == {"A/ann": 0.25, "A/bob": 0.75, "A/cyd": 0.75, "A/dan": 1.0}


def test_the_best_of_an_account_is_tied_with_who_is_tied_with_the_account():
    found = tree(("root", "A", 0.5), ("root", "ann", 0.5), ("A", "bob", 0.5), ("A", "cyd", 0.5))
    used = {"root/ann": 5.0, "A/bob": 4.0, "A/cyd": 1.0}
    assert factors(found, used) == pytest.approx({"root/ann": 1.0, "A/bob": 1 / 3, "A/cyd": 1.0})


def test_who_has_no_shares_comes_last_and_who_has_those_of_his_account_first_in_it():
    found = tree(("root", "A", 1.0), ("A", "ann", 0.0), ("A", "bob", 1.0), ("A", "cyd", PARENTS))
    assert factors(found, {"A/bob": 1.0, "A/cyd": 9.0}) == pytest.approx(
        {"A/ann": 1 / 3, "A/bob": 2 / 3, "A/cyd": 1.0}
    )


def test_users_of_an_account_that_has_the_shares_above_it_stand_on_the_level_of_that():
    found = tree(("root", "A", PARENTS), ("root", "B", 0.5), ("A", "ann", 0.5), ("B", "bob", 1.0))
    used = {"A/ann": 1.0, "B/bob": 2.0}
    assert factors(found, used) == {"A/ann": 1.0, "B/bob": 0.5}
    assert factors(found, used, is_fair_tree=False) == pytest.approx(
        {"A/ann": 2 ** -(1 / 3 / 0.5), "B/bob": 2 ** -(2 / 3 / 0.5)}
    )


@pytest.mark.parametrize("seed", range(60))
def test_any_tree_has_the_shares_of_the_slow_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [Association("root")]
    accounts = int(rng.integers(2, 7))
    for place in range(1, accounts + int(rng.integers(1, 12))):
        is_user = place >= accounts
        parent = int(rng.integers(0, min(place, accounts)))
        above = found[parent]
        level = above.level if above.share is None else parent
        share = None if rng.random() < 0.15 else float(rng.choice((0, 0.1, 0.2, 0.4)))
        account, user = (above.account, f"u{place}") if is_user else (f"A{place}", "")
        found.append(Association(account, user, "", parent, level, share))
    used = {each.name: float(rng.integers(0, 4)) for each in found if each.user}
    root = tree_of(found, used)
    assert factors(found, used) == fair_tree(root)
    assert factors(found, used, is_fair_tree=False) == pytest.approx(without_fair_tree(root))


# -- a recording ------------------------------------------------------------------------

RECORDINGS = RECORDED / "slurm/26.05"
LOGGED = re.compile(r"\[(\S+)\.\d+\] _ft_debug: +=?(\S+) \((\S+)\): +(\S+)")


def unix_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_slurm_finds_who_has_most_of_what_is_his_as_the_twin_does() -> None:
    """Three accounts, a user with the shares of his account, limits not enforced: two hours of a run of 26.05.

    The log is written up to two seconds later.
    """
    found = read_associations(RECORDINGS / "fair-tree-assoc.txt", None, "", [])
    told = csv.DictReader((RECORDINGS / "fair-tree-sacct.txt").read_text().splitlines(), delimiter="|")
    runs: list[tuple[Who, float, float, float]] = [
        (f"{each['Account']}/{each['User']}", int(each["NNodes"]), unix_s(each["Start"]), unix_s(each["End"]))
        for each in told
    ]
    times: dict[float, dict[str, float]] = {}
    for line in (RECORDINGS / "fair-tree-log.txt").read_text().splitlines():
        at, name, account, value = LOGGED.findall(line)[0]
        values = times.setdefault(unix_s(at), {})
        who = name if name == account != "root" else f"{account}/{name}"
        values[who] = math.inf if value == "parent" else float(value)
    used: dict[Who, float] = defaultdict(float)
    for place, values in enumerate(times.values()):
        now_s = min(times) + place * 300
        count_usage(used, runs, now_s - 300, now_s, 1 - 0.693 / 3600, counts_ends=False)
        rows = ranked(found, used)
        named = {each.name: float(rows[place].fairness) for place, each in enumerate(found)}
        assert {who: named[who] for who in values} == pytest.approx(values, rel=1e-6)
    assert len(times) == 24


# -- runs -----------------------------------------------------------------------------


def starts(jobs: Sequence[tuple[int, int, int]], **said: object) -> list[float]:
    """Of jobs `(submit s, run s, user)` of all four nodes, where fair share alone counts."""
    submits, runs, users = (np.array(each) for each in zip(*jobs, strict=True))
    table = JobTable.build(
        submit_us=submits * US, run_us=runs * US, estimate_us=runs * US, nodes=[4] * len(jobs), user=users
    )
    fair = {"priority_type": "multifactor", "priority_weight_fairshare": 1000, "priority_calc_period": 100}
    record = simulate(table, 4, SchedulerConfig(decide={"slurm": {**fair, **said}}))
    assert_lawful(record)
    return [each / US for each in record.start_us.tolist()]


def test_who_waits_has_the_fair_share_that_was_worked_out_last():
    """User 1 has run from 10 to 60 s: at 90 s the two are still taken to be equal, at 150 s they are not."""
    before = [(10, 50, 1), (70, 20, 3), (71, 300, 1), (72, 300, 2)]
    assert starts(before)[2:] == [90, 390]
    after = [(10, 50, 1), (70, 80, 3), (71, 300, 1), (72, 300, 2)]
    assert starts(after)[2:] == [450, 150]


def test_usage_is_counted_up_to_the_time_of_the_calculation_though_nothing_happened_then():
    """At 100 s user 1 has run for 39 s, at 140 s, when the next job comes, for 69 s; user 2 for 60 s."""
    jobs = [(0, 60, 2), (61, 69, 1), (140, 50, 3), (141, 300, 1), (142, 300, 2)]
    assert starts(jobs, priority_decay_half_life=0)[3:] == [190, 490]


def test_usage_counts_as_often_as_the_qos_says():
    """User 2 has run for longer, and it counts half."""
    jobs = [(0, 50, 1), (0, 60, 2), (140, 60, 3), (141, 300, 1), (142, 300, 2)]
    assert starts(jobs, priority_decay_half_life=0)[3:] == [200, 500]
    half = {"qos": {"cheap": {"UsageFactor": 0.5}}, "user_qos": {2: "cheap"}}
    assert starts(jobs, priority_decay_half_life=0, **half)[3:] == [500, 200]


# -- slurm.conf -----------------------------------------------------------------------

LATE = (
    "PriorityFlags=NO_FAIR_TREE: Slurm would take the usage of accounts as it was a PriorityCalcPeriod before; the twin"
    " takes all as it is then"
)
OTHER = ": Slurm would work priorities out by it; the twin does not"


@pytest.mark.parametrize(
    ("line", "found", "told"),
    [
        ("", True, []),
        ("PriorityFlags=FAIR_TREE", True, []),
        ("PriorityFlags=NO_FAIR_TREE", False, [LATE]),
        ("PriorityFlags=no_fair_tree,MAX_TRES", False, [LATE, f"PriorityFlags=MAX_TRES{OTHER}"]),
        (
            "PriorityFlags=DEPTH_OBLIVIOUS,INCR_ONLY",
            True,
            [f"PriorityFlags=DEPTH_OBLIVIOUS{OTHER}", f"PriorityFlags=INCR_ONLY{OTHER}"],
        ),
    ],
)
def test_a_conf_says_which_and_its_other_flags_are_named(
    tmp_path: Path, line: str, found: bool, told: list[str]
) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"ClusterName=site\n{line}\n")
    assert read_conf(conf, 4).get("priority_fair_tree", True) is found
    assert [*not_followed(conf)] == [f"slurm.conf: {each}" for each in told]
