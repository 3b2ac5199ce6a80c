"""Random sites and jobs for Slurm's twin and its reference."""

from __future__ import annotations

from dataclasses import replace
from operator import ge
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.cluster.slurm_scheduler import Slurm
from emulator.schedulers.slurm.associations import Association
from emulator.schedulers.slurm.qos import Qos
from emulator.schedulers.slurm.releases import RELEASES
from emulator.schedulers.slurm.reservations import Reserved
from emulator.schedulers.slurm.rules import Partition, Rules
from emulator.schedulers.slurm.select import NodeKind, Select
from oracle.workloads import random_workload

if TYPE_CHECKING:
    from emulator.schedulers.slurm.releases import Release
    from emulator.schedulers.slurm.select import Parameters
    from oracle.reference import Job

_CHOICES: dict[str, tuple[Any, ...]] = {
    "backfill": (True, False),
    "default_queue_depth": (1, 2, 5),
    "sched_interval": (-1, 7, 30, 60),
    "sched_min_interval": (0, 2, 3_000_000, 5_500_000),
    "defer": (True, False),
    "bf_interval": (1, 5, 30, 60),
    "bf_window": (1, 3, 10, 1440),
    "bf_resolution": (1, 7, 60, 300),
    "bf_max_job_test": (1, 2, 5, 10),
    "bf_max_job_user": (0, 1, 2),
    "partition_job_depth": (0, 0, 1, 3),
    "sched_max_job_start": (0, 0, 1, 2),
    "bf_max_job_part": (0, 0, 1, 3),
    "bf_max_job_user_part": (0, 0, 1, 2),
    "bf_max_job_assoc": (0, 0, 1, 2),
    "bf_max_job_start": (0, 0, 1, 2),
    "bf_job_part_count_reserve": (0, 0, 1, 2),
    "bf_min_age_reserve": (0, 5, 60),
    "bf_after_quiet": (0, 4, 25),
    "over_time_limit": (0, 1),
}
_PRIORITIES: dict[str, tuple[Any, ...]] = {
    "priority_weight_age": (0, 1000),
    "priority_weight_fairshare": (0, 1000, 5000),
    "priority_weight_job_size": (0, 500),
    "priority_weight_partition": (0, 300),
    "priority_max_age": (10, 100),
    "priority_favor_small": (True,),
    "priority_fair_tree": (True, False),
    "priority_decay_half_life": (0, 30, 1000),
    "priority_calc_period": (5, 60),
}


def some_of(rng: np.random.Generator, choices: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Every setting at its default half of the time."""
    return {name: each[rng.integers(len(each))] for name, each in choices.items() if rng.random() < 0.5}


def random_release(rng: np.random.Generator) -> Release:
    """22.05 half of the time: it has rules of its own."""
    return RELEASES[int(rng.choice((0, 0, 1, 2)))]


def stretched(rng: np.random.Generator, jobs: list[Job]) -> list[Job]:
    """Minutes instead of seconds, some of the time, and some of the time not whole seconds."""
    by = int(rng.choice((1, 20, 60, 300)))
    gap = max(1, by // 10)
    jobs = [
        job._replace(submit_us=job.submit_us * gap, run_us=job.run_us * by, estimate_us=job.estimate_us * by)
        for job in jobs
    ]
    if rng.random() < 0.8:
        return jobs
    odd = rng.integers(0, US, (len(jobs), 2)).tolist()
    return [
        job._replace(submit_us=job.submit_us + later, run_us=job.run_us + longer)
        for job, (later, longer) in zip(jobs, odd, strict=True)
    ]


Wants = tuple[int, int, int]
"""Cores, MiB and GPUs of a node."""


def random_node_sets(seed: int, nodes: int) -> tuple[int, ...]:
    """In a third of cases nodes are of up to three sets, else of one."""
    rng = np.random.default_rng([47, seed])
    return tuple(rng.integers(0, 3, nodes).tolist()) if rng.random() < 0.33 else ()


def with_random_constraints(  # noqa: PLR0917
    seed: int,
    said: Slurm,
    rules: Rules,
    jobs: list[Job],
    nodes: int,
    has: list[Wants] | None = None,
    wants: dict[int, Wants] | None = None,
    share: float = 0.33,
) -> tuple[Slurm, dict[int, frozenset[int]]]:
    """In this share of cases some users ask for one or two features, if all their jobs find nodes with these.

    The nodes that meet each user's constraint go with it. `has`, `wants`: where jobs share nodes.
    """
    rng = np.random.default_rng([43, seed])
    may_have: dict[int, frozenset[int]] = {}
    if rng.random() >= share:
        return said, may_have
    features = {name: frozenset(np.flatnonzero(rng.random(nodes) < 0.7).tolist()) for name in "ab"}
    if not all(features.values()):
        return said, may_have
    found = {
        "a": features["a"],
        "a&b": features["a"] & features["b"],
        "(a|b)": features["a"] | features["b"],
    }
    places = {each.name: each.nodes for each in rules.partitions}

    def fits(job: Job, text: str) -> bool:
        listed = places[said.queues.get(job.queue, rules.default_partition)]
        mine = found[text] if listed is None else found[text].intersection(listed)
        if has is not None and wants is not None:
            mine = frozenset(node for node in mine if all(map(ge, has[node], wants[job.number])))
        return job.nodes <= len(mine)

    asked: dict[int, str] = {}
    for user in range(3):
        text = list(found)[rng.integers(3)]
        if rng.random() < 0.8 and found[text] and all(fits(job, text) for job in jobs if job.user == user):
            asked[user], may_have[user] = text, found[text]
    names = {name: ",".join(f"n{node + 1:03}" for node in sorted(those)) for name, those in features.items()}
    return replace(said, features=names, user_constraint=asked), may_have


def random_case_of_preemption(
    rng: np.random.Generator, *, sharing: bool = False
) -> tuple[Slurm, Rules, list[Job], int]:
    """By tiers, or half of the time by QOS; no job wants more than half of the nodes."""
    said, rules, jobs, nodes = random_case(rng, sharing=sharing, plain=rng.random() < 0.6)
    rules, queues = with_random_preemption(rng, rules, nodes)
    said = replace(said, queues=queues)
    if rng.random() < 0.5:
        rules, user_qos = with_random_preempting_qos(rng, rules, jobs)
        said = replace(said, user_qos=user_qos)
    jobs = [job._replace(nodes=min(job.nodes, max(1, nodes // 2))) for job in jobs]
    return said, rules, jobs, nodes


def with_random_preemption(
    rng: np.random.Generator, rules: Rules, nodes: int
) -> tuple[Rules, dict[int, str]]:
    """Partitions of three tiers whose jobs keep their nodes, wait again or are lost; and which queue is whose."""
    whole = rules.partitions[0]
    parts = (None, tuple(range(max(1, nodes // 2))), tuple(range(nodes // 4, nodes)))
    modes = (None, None, None, "off", "requeue", "cancel")
    partitions = tuple(
        replace(
            whole,
            name=name,
            nodes=part,
            priority_tier=int(tier),
            preempt_mode=modes[rng.integers(len(modes))],
            grace_time=random_grace(rng),
        )
        for name, part, tier in zip((whole.name, "half", "most"), parts, rng.permutation(3) + 1, strict=True)
    )
    queues = {0: "half", 1: "most"}
    mode = ("requeue", "cancel")[rng.integers(2)]
    changes = {
        "job_requeue": bool(rng.random() < 0.9),
        "kill_wait": int(rng.choice((30, 600))),
        "message_timeout": (10, 35)[nodes % 2],
        "preempt_exempt_time": int(rng.choice((0, 0, 0, 20, 130))),
        "release": random_release(rng),
    }
    preempting = replace(
        rules, partitions=partitions, preempt_type="partition_prio", preempt_mode=mode, **changes
    )
    return preempting, queues


def random_grace(rng: np.random.Generator) -> int:
    """Seconds, none a third of the time."""
    return int(rng.choice((0, 0, 7, 60, 200, 1000)))


def with_random_preempting_qos(
    rng: np.random.Generator, rules: Rules, jobs: list[Job]
) -> tuple[Rules, dict[int, str]]:
    """QOS of which one may take the nodes of one or two others, or one after the other may; and whose each user is."""
    rules, user_qos = with_random_qos(rng, rules, jobs)
    preempts = ({"high": ("low",)}, {"high": ("low", "normal")}, {"high": ("normal",), "normal": ("low",)})
    said = preempts[rng.integers(len(preempts))]
    modes = (None, None, None, "off", "requeue", "cancel")
    table = tuple(
        replace(
            each,
            preempt=said.get(each.name, ()),
            preempt_mode=modes[rng.integers(len(modes))],
            grace_time=random_grace(rng),
            preempt_exempt_time=int(rng.choice((-1, -1, -1, 0, 45))),
        )
        for each in rules.qos
    )
    user_qos |= {user: ("high", "low", "normal")[rng.integers(3)] for user in user_qos}
    return replace(rules, preempt_type="qos", qos=table), user_qos


def random_case(
    rng: np.random.Generator, *, sharing: bool = False, plain: bool = False
) -> tuple[Slurm, Rules, list[Job], int]:
    """What the twin is told beside its rules, the rules, jobs and nodes.

    `plain`: no limits and no reservations.
    """
    estimates = str(rng.choice(("exact", "longer", "mixed", "shorter")))
    jobs, nodes = random_workload(rng, estimates=estimates, jobs=40)
    jobs = stretched(rng, jobs)
    settings = some_of(rng, _CHOICES)
    if rng.random() < 0.5:
        settings |= {"priority_type": "multifactor", **some_of(rng, _PRIORITIES)}
    rules, queues = Rules(**settings), {}
    if nodes > 3 and rng.random() < 0.5:
        half = nodes // 2
        tiers, factors = rng.integers(1, 3, 2).tolist(), rng.integers(0, 5, 2).tolist()
        parts = (
            Partition("all", None, tiers[0], factors[0]),
            Partition("half", tuple(range(half)), tiers[1], factors[1]),
        )
        rules, queues = replace(rules, partitions=parts, default_partition="all"), {0: "half", 1: "half"}
        jobs = [job._replace(nodes=min(job.nodes, half)) if job.queue in queues else job for job in jobs]
    shares, user_qos = {1: 3.0}, {}
    if not (sharing or plain) and rng.random() < 0.5:
        rules, user_qos = with_random_qos(rng, rules, jobs)
    if not plain and rng.random() < 0.5:
        rules = with_random_reservations(rng, rules, jobs, nodes)
    users: dict[int, str] = {}
    if not (sharing or plain) and rng.random() < 0.4:
        rules, users = with_random_associations(rng, rules, jobs)
    return Slurm(queues=queues, shares=shares, user_qos=user_qos, users=users), rules, jobs, nodes


def with_limits_in_cores(
    rng: np.random.Generator, said: Slurm, rules: Rules, jobs: list[Job], wants: dict[int, Wants]
) -> tuple[Slurm, Rules]:
    """Where jobs share nodes limits are of cores."""
    in_cores = [job._replace(nodes=job.nodes * wants[job.number][0]) for job in jobs]
    if rng.random() < 0.4:
        rules, user_qos = with_random_qos(rng, rules, in_cores)
        said = replace(said, user_qos=user_qos)
    if rng.random() < 0.3:
        rules, users = with_random_associations(rng, rules, in_cores)
        said = replace(said, users=users)
    return said, rules


def with_random_associations(
    rng: np.random.Generator, rules: Rules, jobs: list[Job]
) -> tuple[Rules, dict[int, str]]:
    """Accounts below each other, with limits that each job alone keeps; some users in them, and who each is."""
    widest = max(job.nodes for job in jobs)

    def limits(**kinds: int) -> dict[str, Any]:
        return {kind: least + int(rng.integers(0, 4)) for kind, least in kinds.items() if rng.random() < 0.4}

    def shares(parent: int) -> dict[str, Any]:
        above = found[parent]
        level = above.level if above.share is None else parent
        return {"level": level, "share": None if rng.random() < 0.2 else float(rng.choice((0, 0.2, 0.4)))}

    found = [Association("root")]
    for place in range(1, 4):
        parent = int(rng.integers(0, place))
        more = limits(grp_jobs=1, grp_nodes=widest)
        found.append(Association(f"a{place}", "", "", parent, **shares(parent), **more))
    for user in range(3):
        if rng.random() < 0.8:
            parent = int(rng.integers(1, 4))
            more = limits(grp_jobs=1, grp_nodes=widest, max_jobs=1)
            found.append(Association(f"a{parent}", f"u{user}", "", parent, **shares(parent), **more))
    return replace(rules, associations=tuple(found)), {user: f"u{user}" for user in range(3)}


def with_random_cores(
    rng: np.random.Generator, said: Slurm, rules: Rules, jobs: list[Job], nodes: int
) -> tuple[Select, list[Wants], dict[int, Wants]]:
    """What nodes have, and each job wants of its nodes: a few cores, or all of them; memory and GPUs count at times.

    Half of the time some nodes have something else. A job that could never start wants a core and no more.
    """
    has_memory = bool(rng.random() < 0.7)

    def size() -> Wants:
        memory = int(rng.choice((20, 100))) if has_memory else 0
        return int(rng.integers(1, 9)), memory, int(rng.choice((0, 1, 4)))

    first, second = size(), size()
    has = [second if rng.random() < 0.5 else first for _ in range(nodes)]
    parameters: Parameters = "CR_Core_Memory" if has_memory else "CR_Core"
    if rng.random() < 0.5 or len(set(has)) == 1:
        has = [first] * nodes
        select = Select(first[0], parameters, *first[1:])
    else:
        lists = {each: [f"n{node + 1:03}" for node in range(nodes) if has[node] == each] for each in has}
        kinds = {
            f"k{k}": NodeKind(",".join(names), *each, weight=int(rng.integers(0, 3)))
            for k, (each, names) in enumerate(lists.items())
        }
        select = Select(parameters=parameters, kinds=kinds)
    places = {each.name: each.nodes for each in rules.partitions}
    wants = {job.number: _random_wants(rng, max(has)) for job in jobs}
    for job in jobs:
        mine = places[said.queues.get(job.queue, rules.default_partition)]
        there = has if mine is None else [has[node] for node in mine]
        if sum(all(map(ge, each, wants[job.number])) for each in there) < job.nodes:
            wants[job.number] = (1, 0, 0)
    return select, has, wants


def _random_wants(rng: np.random.Generator, most: Wants) -> Wants:
    cores, memory, gpus = most
    few = max(1, cores // int(rng.integers(1, 5)))
    return (
        cores if rng.random() < 0.1 else int(rng.integers(1, few + 1)),
        int(rng.integers(0, memory // 2 + 1)),
        int(rng.integers(0, gpus + 1)) if rng.random() < 0.5 else 0,
    )


def with_random_reservations(rng: np.random.Generator, rules: Rules, jobs: list[Job], nodes: int) -> Rules:
    """Up to three, one after the other, the last of them for two users if their jobs fit and come before."""
    last_s = max(job.submit_us for job in jobs) // US + 1
    found, begin = [], 0
    for number in range(int(rng.integers(1, 4))):
        begin += int(rng.integers(0, last_s + 60))
        end = begin + int(rng.integers(1, 2 * last_s + 120))
        some = rng.permutation(nodes)[: int(rng.integers(1, nodes + 1))].tolist()
        found.append(Reserved(f"r{number}", begin, end, tuple(sorted(some))))
        begin = end
    users = {0, 1}
    mine = [job for job in jobs if job.user in users]
    longest_s = -(-max((job.estimate_us for job in mine), default=1) // (60 * US)) * 60
    last = Reserved("own", begin, begin + longest_s * len(jobs), tuple(range(nodes)), frozenset(users))
    return replace(rules, reservations=(*found, last))


def with_random_qos(rng: np.random.Generator, rules: Rules, jobs: list[Job]) -> tuple[Rules, dict[int, str]]:
    """Limits that each job alone keeps, on jobs' own QOS and on partitions'; whose each user is."""
    widest = max(job.nodes for job in jobs)
    table = tuple(
        Qos(
            name,
            priority=int(rng.integers(0, 3)),
            usage_factor=float(rng.choice((0, 1, 1, 2.5))),
            **{kind: int(rng.integers(1, 4)) for kind in ("grp_jobs", "user_jobs") if rng.random() < 0.4},
            **{
                kind: widest + int(rng.integers(0, 4))
                for kind in ("grp_nodes", "user_nodes")
                if rng.random() < 0.4
            },
        )
        for name in ("high", "low", "normal")
    )
    names = ["", "high", "low"]
    partitions = tuple(replace(each, qos=names[rng.integers(3)]) for each in rules.partitions)
    weight = int(rng.choice((0, 1000)))
    user_qos = {user: ("high", "low")[rng.integers(2)] for user in range(-1, 3)}
    enforced = bool(rng.random() < 0.9)
    rules = replace(
        rules, qos=table, partitions=partitions, priority_weight_qos=weight, enforce_limits=enforced
    )
    return rules, user_qos
