"""What the paper claims in its text, and when we say that it holds.

Criteria were set before the runs: a figure as it is printed, a direction by a margin in more weeks than chance
explains; where a claim is of cases, one counts if it differs by a hundredth, and "almost always" is four of five.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.experiments.claims import Claim, plain, times
from emulator.experiments.criteria import alike, bound, less, level, more, printed
from emulator.experiments.realtime.measures import (
    BJ_SLOWDOWN,
    BJ_TURNAROUND,
    CLASSES,
    CLEARLY,
    OVERALL,
    PRODUCTIVE,
    RT_SLOWDOWN,
    RT_TURNAROUND,
    best,
    fall,
    mean,
    ratio,
    share_lower,
    worst,
)
from emulator.experiments.realtime.runs import FEW, ONE, PREEMPTIVE, SHARES, WITH_CHECKPOINTS, percents
from emulator.text.number_text import percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.experiments.claims import World
    from emulator.experiments.criteria import Criterion
    from emulator.experiments.paper import Options

_WEEK = (
    "The paper's week is not published and Table 1 does not say how busy it was: its node-hours are the product of"
    " its means. Ours has its table, and a load that gives its baseline."
)
_CAP = (
    "At 4 GB a node a busy Mira writes half of the time through a cap of 216 GB/s that all share every 30 minutes; the"
    " equations do not say whether the cap is shared."
)
_BACKFILLED = "hpQ lets batch jobs backfill behind a waiting real-time job"
_BLOCKED = (
    "While a wide real-time job waits for running jobs to end, hpQ as described starts no batch job at all on the"
    " nodes that come free, for hours; the paper's batch jobs hardly suffer, as if they could be backfilled."
)
_WIDE = (
    "A real-time job of half the machine waits for all other real-time jobs there: preemption does not help."
)


_ALMOST, _MOST = 0.8, 0.75
"""Shares of the cases that are "almost always", and "definitely" or "significantly" so."""


def _share(least: float) -> Criterion:
    """At least this share of the cases differs, each by a hundredth; where nothing does, none."""
    return more(least, than=0)


def _claim(  # noqa: PLR0917 - a claim reads like a row of a table
    name: str,
    statement: str,
    where: str,
    paper: str,
    measure: Callable[[World], float],
    criterion: Criterion,
    show: Callable[[float], str] = plain,
    open_points: str = _WEEK,
    also: dict[str, Callable[[World], float]] | None = None,
) -> Claim:
    return Claim(
        id=name, statement=statement, where=where, paper=paper, measure=measure, criterion=criterion, show=show,
        open_points=open_points, also=also or {},
    )  # fmt: skip


def claims(options: Options) -> tuple[Claim, ...]:
    """The claims that the runs of these options can judge."""
    few = tuple(each for each in percents(options) if each in FEW)
    every = percents(options)
    return (
        *_figure_1(every, few),
        *_utilisation(),
        *_figure_2(few, every),
        *_figures_3_to_6(few, every),
        *_figures_7_and_8(every),
    )


def _figure_1(every: tuple[int, ...], few: tuple[int, ...]) -> tuple[Claim, ...]:
    many = tuple(each for each in every if each not in few)
    return (
        _claim(
            "F1-hpq-low", "The lowest slowdown of real-time jobs under hpQ", "7.3, Fig. 1(a)", "1.72",
            lambda world: best(world, ["hpq"], every, RT_SLOWDOWN), printed(1.72, 0.01),
        ),
        _claim(
            "F1-hpq-high", "The highest slowdown of real-time jobs under hpQ", "7.3, Fig. 1(a)", "3.0",
            lambda world: worst(world, ["hpq"], every, RT_SLOWDOWN), printed(3.0, 0.1),
        ),
        _claim(
            "F1-hpq-4x", "hpQ cuts the slowdown of real-time jobs 4 times or more", "7.6", "at least 4.0x",
            lambda world: min(ratio(world, "baseline", "hpq", each, RT_SLOWDOWN) for each in every),
            more(3.0), times,
            also={_BACKFILLED: lambda world: min(
                ratio(world, "baseline", "hpq-backfilled", each, RT_SLOWDOWN) for each in every)},
        ),
        _claim(
            "F1-rest-few", "PRE-REST keeps real-time jobs close to 1 up to 30 %", "7.3, Fig. 1(a)", "close to 1",
            lambda world: worst(world, ["pre_rest"], few, RT_SLOWDOWN), bound(high=1.25), open_points=_WIDE,
        ),
        _claim(
            "F1-rest-many", "PRE-REST at 40 and 50 %: some real-time jobs wait for others", "7.3, Fig. 1(a)", "~ 1.5",
            lambda world: worst(world, ["pre_rest"], many, RT_SLOWDOWN), printed(1.5, 0.1), open_points=_WIDE,
        ),
        _claim(
            "F1-rest-beats-hpq", "PRE-REST is always better than hpQ for real-time slowdown and turnaround",
            "7.3", "in all cases",
            lambda world: (share_lower(world, ["pre_rest"], "hpq", every, RT_SLOWDOWN)
                           + share_lower(world, ["pre_rest"], "hpq", every, RT_TURNAROUND)) / 2,
            _share(1.0), percent,
        ),
        _claim(
            "F1-batch-slowdown", "For batch jobs PRE-REST is almost always better than hpQ in slowdown",
            "7.3", "almost always",
            lambda world: share_lower(world, ["pre_rest"], "hpq", every, BJ_SLOWDOWN), _share(_ALMOST), percent,
            also={_BACKFILLED: lambda world: share_lower(
                world, ["pre_rest"], "hpq-backfilled", every, BJ_SLOWDOWN)},
        ),
        _claim(
            "F1-batch-turnaround", "For batch jobs hpQ is almost always better than PRE-REST in turnaround time",
            "7.3", "almost always",
            lambda world: share_lower(world, ["hpq"], "pre_rest", every, BJ_TURNAROUND), _share(_ALMOST), percent,
            open_points=_BLOCKED,
            also={_BACKFILLED: lambda world: share_lower(
                world, ["hpq-backfilled"], "pre_rest", every, BJ_TURNAROUND)},
        ),
    )  # fmt: skip


def _utilisation() -> tuple[Claim, ...]:
    def fell(scheme: str, share: int, paper: float) -> Claim:
        return _claim(
            f"F1-productive-{scheme}-{share}",
            f"Productive utilisation of {scheme} against the baseline at {share} % real-time jobs",
            "7.3, Fig. 1(c)", f"{percent(paper, 0)} less",
            lambda world: fall(world, scheme, share, PRODUCTIVE), printed(paper, 0.01), percent,
            open_points=(
                "Ours counts from the first submit to the last end. A week that is not full all the time delays work"
                " and makes it up: only what ends behind the last job's end is seen. " + _WEEK
            ),
        )  # fmt: skip

    return (
        fell("hpq", 20, 0.05),
        fell("hpq", 50, 0.10),
        fell("pre_rest", 20, 0.15),
        fell("pre_rest", 50, 0.20),
        _claim(
            "F1-overall", "The overall utilisation of PRE-REST is higher than that of hpQ (20 %)", "7.3, Fig. 1(c)",
            "higher", lambda world: ratio(world, "pre_rest", "hpq", 20, OVERALL), more(0.01),
        ),
        _claim(
            "F1-productive", "The productive utilisation of PRE-REST is lower than that of hpQ (20 %)",
            "7.3, Fig. 1(c)", "lower", lambda world: ratio(world, "pre_rest", "hpq", 20, PRODUCTIVE), less(0.01),
        ),
    )  # fmt: skip


def _figure_2(few: tuple[int, ...], every: tuple[int, ...]) -> tuple[Claim, ...]:
    return (
        _claim(
            "F2-realtime", "All preemptive schemes keep real-time slowdown within 1.0 to 1.4 up to 30 %",
            "7.4, Fig. 2(a)", "at most 1.4",
            lambda world: worst(world, PREEMPTIVE, few, RT_SLOWDOWN), bound(high=1.4), open_points=_WIDE,
            also={
                "any share of real-time jobs": lambda world: worst(world, PREEMPTIVE, every, RT_SLOWDOWN),
                "preempted jobs keep their place, 20 %": lambda world: max(
                    mean(world, f"place:{scheme}", 20, RT_SLOWDOWN) for scheme in PREEMPTIVE
                ),
                "any nodes will do (flat), 20 %": lambda world: max(
                    mean(world, f"flat:{scheme}", 20, RT_SLOWDOWN) for scheme in PREEMPTIVE
                ),
            },
        ),
        _claim(
            "F2-batch-baseline", "With checkpoints, batch slowdown is below the baseline's up to 30 %",
            "7.4, Fig. 2(b)", "significantly better",
            lambda world: share_lower(world, WITH_CHECKPOINTS, "baseline", few, BJ_SLOWDOWN), _share(_MOST),
            percent, _CAP,
            also={"PRE-CKPT alone": lambda world: share_lower(world, ["pre_ckpt"], "baseline", few, BJ_SLOWDOWN)},
        ),
        _claim(
            "F2-batch-hpq", "With checkpoints, batch slowdown is below that of hpQ up to 30 %", "7.4, Fig. 2(b)",
            "significantly better",
            lambda world: share_lower(world, WITH_CHECKPOINTS, "hpq", few, BJ_SLOWDOWN), _share(_MOST), percent,
            _CAP,
            also={"PRE-CKPT alone": lambda world: share_lower(world, ["pre_ckpt"], "hpq", few, BJ_SLOWDOWN)},
        ),
        _claim(
            "F2-helps", "Checkpoints right before preemption cost batch jobs less than starting again (all shares)",
            "7.6", "definitely helps",
            lambda world: share_lower(world, ["pre_ckpt"], "pre_rest", every, BJ_SLOWDOWN), _share(_MOST), percent,
        ),
    )  # fmt: skip


def _figures_3_to_6(few: tuple[int, ...], every: tuple[int, ...]) -> tuple[Claim, ...]:
    low = tuple(each for each in few if each <= ONE)
    many = tuple(each for each in every if each not in few)

    def against(name: str) -> Callable[[World], float]:
        def measure(world: World) -> float:
            ratios = [
                ratio(world, scheme, "baseline", each, BJ_SLOWDOWN + name)
                for scheme in PREEMPTIVE
                for each in few
            ]
            return sum(ratios) / len(ratios)

        return measure

    narrow_and_long = (CLASSES[0], CLASSES[1], CLASSES[3])
    return (
        _claim(
            "F3-narrow-short", "Narrow-short batch jobs do better than in the baseline (mean ratio, up to 30 %)",
            "7.4, Fig. 3(b)", "significantly better", against("_narrow_short"), less(0.05), times,
        ),
        _claim(
            "F4-narrow-long", "Narrow-long batch jobs do about as well as in the baseline (up to 30 %)",
            "7.4, Fig. 4(b)", "comparable", against("_narrow_long"), alike(0.8, 1.25), times,
        ),
        _claim(
            "F5-wide-short", "Wide-short batch jobs do worse than in the baseline (up to 30 %)", "7.4, Fig. 5(b)",
            "significantly worse", against("_wide_short"), more(0.05), times,
        ),
        _claim(
            "F6-wide-long", "Wide-long batch jobs do worse than in the baseline (up to 30 %)", "7.4, Fig. 6(b)",
            "significantly worse", against("_wide_long"), more(0.05), times,
        ),
        _claim(
            "F3-6-realtime", "Up to 20 %: real-time slowdown of all but wide-short jobs is very close to 1", "7.6",
            "very close to 1",
            lambda world: max(worst(world, PREEMPTIVE, low, RT_SLOWDOWN + name) for name in narrow_and_long),
            bound(high=1.2), open_points=_WIDE,
        ),
        _claim(
            "F5-realtime", "Up to 20 %: wide-short real-time slowdown is at most 1.5 for some preemptive schemes",
            "7.6", "at most 1.5",
            lambda world: min(worst(world, [scheme], low, RT_SLOWDOWN + "_wide_short") for scheme in PREEMPTIVE),
            bound(high=1.5), open_points=_WIDE,
        ),
        _claim(
            "I-at-most-20", "Up to 20 %: no category of batch jobs slows down by more than 20 % (some scheme)",
            "Abstract, 1", "at most 1.2x",
            lambda world: min(
                max(ratio(world, scheme, "baseline", each, BJ_SLOWDOWN + name) for name in CLASSES for each in low)
                for scheme in PREEMPTIVE
            ),
            alike(None, 1.2), times,
        ),
        _claim(
            "I-many", "With 40 % or more, one category of batch jobs slows down by around 90 %", "1", "1.9x",
            lambda world: max(
                sum(ratio(world, scheme, "baseline", each, BJ_SLOWDOWN + name) for scheme in PREEMPTIVE)
                / len(PREEMPTIVE) for name in CLASSES for each in many
            ),
            printed(1.9, 0.1), times,
        ),
    )  # fmt: skip


def _figures_7_and_8(every: tuple[int, ...]) -> tuple[Claim, ...]:
    def grows(variant: str) -> Callable[[World], float]:
        return lambda world: ratio(world, f"{variant}-16GB", f"{variant}-1GB", 10, BJ_SLOWDOWN)

    def by_interval(world: World) -> float:
        means = [
            mean(world, variant, 20, RT_SLOWDOWN)
            for variant in ("pre_ckpt_sys-15min", "pre_ckpt_sys", "pre_ckpt_sys-60min")
        ]
        return max(means) / min(means)

    def middle_best(world: World) -> float:
        groups = (
            ("pre_ckpt_sys-15min", "pre_ckpt_sys", "pre_ckpt_sys-60min"),
            tuple(f"pre_ckpt_app-{share}%" if share != SHARES[1] else "pre_ckpt_app" for share in SHARES),
        )
        cases = [
            mean(world, group[1], each, BJ_SLOWDOWN)
            < CLEARLY * min(mean(world, scheme, each, BJ_SLOWDOWN) for scheme in group if scheme != group[1])
            for group in groups
            for each in every
        ]
        return sum(cases) / len(cases)

    return (
        _claim(
            "F7-batch", "Batch slowdown rises with checkpoint data from 1 to 16 GB (PRE-CKPT-SYS, 10 %)",
            "7.5, Fig. 7(b)", "6.2 to 7.8 (1.26x)", grows("pre_ckpt_sys"), level(1.24, 1.28), times, _CAP,
            also={
                "PRE-CKPT, as the text says": grows("pre_ckpt"),
                "each job has the cap to itself": lambda world: ratio(
                    world, "pre_ckpt_sys-own-cap-16GB", "pre_ckpt_sys-own-cap-1GB", 10, BJ_SLOWDOWN
                ),
            },
        ),
        _claim(
            "F7-realtime", "Checkpoint data has no clear effect on real-time jobs (PRE-CKPT-SYS, 16 to 1 GB, 10 %)",
            "7.5, Fig. 7(a)", "no trend",
            lambda world: ratio(world, "pre_ckpt_sys-16GB", "pre_ckpt_sys-1GB", 10, RT_SLOWDOWN),
            alike(0.9, 1.1), times, _WIDE,
            also={"PRE-CKPT, as the text says": lambda world: ratio(
                world, "pre_ckpt-16GB", "pre_ckpt-1GB", 10, RT_SLOWDOWN)},
        ),
        _claim(
            "F8-realtime", "The interval has no effect on real-time jobs (PRE-CKPT-SYS, largest to smallest, 20 %)",
            "7.5, Fig. 8(a)", "no trend", by_interval, alike(None, 1.1), times, _WIDE,
        ),
        _claim(
            "F8-batch", "30 min and 30 % of the walltime are best for batch jobs in most cases", "7.5, Fig. 8(b)",
            "most cases", middle_best, _share(0.51), percent, _CAP,
        ),
    )  # fmt: skip
