"""What the paper claims of its own runs, and when we say that it holds.

UniLu is a replay of a log without chance: what is printed has to be met, and a direction by its margin, once. KIT's log
is a stand-in, judged over seeds; what it was fitted to is not tested. Claims that only the log can show are left out
without it. The paper rounds hours up, and with them the share above S = 4.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from emulator.experiments.claims import Claim, MissingRunError, count, plain
from emulator.experiments.criteria import bound, exact, less, level, more, printed, untested
from emulator.text.number_text import grouped, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.experiments.claims import World
    from emulator.experiments.paper import Options

    Measure = Callable[[World], float]

_M = "mechanism."
_DETAILS = (
    "Which jobs wait, and how long, hangs on details of the scheduler that the paper leaves open: see the other"
    " readings. These are the rules of the authors' program: nodes that divide a job's cores, a pass after each event,"
    " the head held to the very nodes that it was planned for."
)
_FITTED = "The stand-in for the KIT log was fitted to it, with seeds 1 to 10."
_STAND_IN = "The KIT log is not here; the stand-in has its printed figures and not its jobs."


def figure(label: str, name: str) -> Measure:
    return lambda world: world(label, _M + name)


def above(label: str, level: int) -> Measure:
    """The share of jobs with a slowdown above this level."""
    return lambda world: 1 - world(label, f"{_M}slowdown_at_most_{level}")


def ratio(first: Measure, second: Measure) -> Measure:
    return lambda world: first(world) / second(world)


def seconds(value: float) -> str:
    return f"{grouped(value)} s"


def hours(value: float) -> str:
    return f"{grouped(value)} h"


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def claims(options: Options) -> tuple[Claim, ...]:
    """The claims that the runs of these options can judge."""
    replay = options.traces is not None
    found = [
        *_responsive(replay=replay),
        *_slowdown(options),
        *_efficiency(replay=replay),
        *_kit(options),
        *_beyond(),
    ]
    if options.traces is not None:
        found += [*_table_1(), *_log_only()]
    return tuple(found)


def _table_1() -> tuple[Claim, ...]:
    return (
        Claim(
            "T1-jobs", "Jobs of the log that are run", "Table 1", "51 871",
            lambda world: world("unilu/M4", "jobs_run"), exact(51_871, 51_871), count,
        ),
        Claim(
            "T1-hrr", "of them of the interactive queue (HRR)", "Table 1", "1 762 (3.4 %)",
            figure("unilu/M4", "jobs_responsive"), exact(1_762, 1_762), count,
        ),
    )  # fmt: skip


def _responsive(*, replay: bool) -> tuple[Claim, ...]:
    def waiting(label: str) -> Measure:
        return lambda world: world(label, _M + "waiting_responsive") + world(label, _M + "waiting_normal")

    return (
        Claim(
            "F4-M4", "UniLu: with M=4 all jobs, normal ones too, start at once; jobs that wait", "4.3.1, Fig. 4", "0",
            waiting("unilu/M4"), exact(high=0), count,
        ),
        Claim(
            "F4-R10", "UniLu: with R=10 % no HRR job waits; the longest wait", "4.3.1, Fig. 4", "0 s",
            figure("unilu/R10", "max_wait_s_responsive"), exact(high=0), seconds,
        ),
        Claim(
            "F4-M", "UniLu: the longest HRR wait falls with M; M=2 over M=1", "4.3.1, Fig. 4", "falls",
            ratio(figure("unilu/M2", "max_wait_s_responsive"), figure("unilu/M1", "max_wait_s_responsive")),
            less(0.1, replay=replay), plain,
        ),
    )  # fmt: skip


def _slowdown(options: Options) -> tuple[Claim, ...]:
    last, replay = "unilu/R10", options.traces is not None
    first = "unilu/R5" if options.quick else "unilu/R1"
    return (
        Claim(
            "F6-hrr", "UniLu: with R=10 % the slowdown of every HRR job is one; the largest", "4.3.2, Fig. 6", "1.00",
            figure(last, "max_slowdown_responsive"), exact(1, 1), plain,
        ),
        Claim(
            "F6-tradeoff", f"UniLu: normal jobs pay for R: mean slowdown at {last[6:]} over that at {first[6:]}",
            "4.3.2, Fig. 6", "gets worse",
            ratio(figure(last, "mean_slowdown_normal"), figure(first, "mean_slowdown_normal")),
            more(0.05, replay=replay), plain,
        ),
        Claim(
            "F6-both", "UniLu: M=4 is better than R=10 % for normal jobs: mean slowdown, M=4 over R=10 %",
            "4.3.2, Fig. 6", "better",
            ratio(figure("unilu/M4", "mean_slowdown_normal"), figure(last, "mean_slowdown_normal")),
            less(0.5, replay=replay), plain,
        ),
        Claim(
            id="F8-max",
            statement="UniLu: the largest slowdown of all jobs with M=4",
            where="4.3.3, Fig. 8",
            paper="4",
            measure=lambda world: max(
                world("unilu/M4", _M + "max_slowdown_normal"),
                world("unilu/M4", _M + "max_slowdown_responsive"),
            ),
            criterion=exact(3.995, 4.0),
            show=plain,
        ),
        Claim(
            "F10-short", "UniLu: jobs up to 10 min: mean slowdown with R=7 % over that with M=4", "4.3.3, Fig. 10",
            "drastically improved", _by_length(short=True), more(1.0, replay=replay), plain,
        ),
        Claim(
            "F10-long", "UniLu: jobs above a day: the same; below one they are degraded", "4.3.3, Fig. 10",
            "degraded", _by_length(short=False), less(0.01, replay=replay), plain,
        ),
    )  # fmt: skip


def _by_length(*, short: bool) -> Measure:
    """Mean slowdown of short (the first two columns of the heat map) or long jobs (the last two), as a ratio."""

    def mean(world: World, label: str) -> float:
        text = world.rows.get(label, {}).get(_M + "heat")
        if text is None:
            raise MissingRunError(f"run {label!r} has no heat map")
        cells = [cell for row in json.loads(text) for cell in (row[:2] if short else row[-2:])]
        return float(sum(jobs * slowdown for jobs, slowdown in cells) / sum(jobs for jobs, _ in cells))

    return lambda world: mean(world, "unilu/R7") / mean(world, "unilu/M4")


def _efficiency(*, replay: bool) -> tuple[Claim, ...]:
    def change(label: str) -> Measure:
        return lambda world: world(label, _M + "last_end_s") / world("unilu/M1", _M + "last_end_s") - 1

    return (
        Claim(
            "F12-M2", "UniLu: the makespan grows hardly; M=2 against M=1", "4.3.5, Fig. 12",
            "+2.5 %, the most of all", change("unilu/M2"), printed(0.025, 0.001, replay=replay), percent,
            also={"M=4": change("unilu/M4"), "a pass after each event": change("unilu-event/M2")},
            open_points="One job of 1.8 million seconds ends last; who shares its cores decides.",
        ),
    )  # fmt: skip


def _log_only() -> tuple[Claim, ...]:
    found = [
        Claim(
            f"T4-{share}-{label}", f"UniLu: {share} % of the jobs are over, {label}", "Table 4",
            f"{grouped(paper)} h", figure(f"unilu/{label}", f"completion_{share}_h"), exact(paper - 1, paper),
            lambda value: f"{grouped(value, 1)} h",
        )
        for share, paper in ((90, 2094), (95, 2105))
        for label in ("M4", "M2", "M1", "R10", "R7", "R5")
    ]  # fmt: skip
    wait, slow = "wait_s", "slowdown"
    rows = (
        ("job_2819_" + wait, "unilu/R5", "job 2819 (200 cores) waits", 29_289.0, seconds, 1),
        ("job_2819_" + slow, "unilu/R5", "slowdown of job 2819", 11.0, plain, 0.1),
        ("job_9087_" + slow, "unilu/R5", "slowdown of job 9087 (printed as 9121)", 7.07, _hundredths, 0.01),
        ("slowdown_100", "unilu/R5", "jobs with a slowdown of 100 or more", 650.0, count, 1),
        ("slowdown_100_share", "unilu/R5", "their share", 0.013, percent, 0.001),
    )
    for name, label, what, paper, show, unit in rows:
        text = label.replace("unilu", "unilu-text")
        other = label.replace("unilu", "unilu-event")
        without = label.replace("unilu", "unilu-fcfs")
        found.append(
            Claim(
                id=f"T3-{name}" if name.startswith("job") else f"F8-{name}",
                statement=f"UniLu, R=5 %: {what}",
                where="Table 3" if name.startswith("job") else "4.3.3, Fig. 8",
                paper=show(paper),
                measure=figure(label, name),
                criterion=exact(paper - unit / 2, paper + unit / 2),
                show=show,
                also={
                    "the rules of the text": figure(text, name),
                    "and a pass after each event": figure(other, name),
                    "FCFS": figure(without, name),
                },
                open_points=_DETAILS,
            )
        )
    alone = (
        ("job_2819_" + wait, "job 2819 starts at once; its wait", 0.0, seconds),
        ("job_2819_run_s", "its run time", 5_876.0, seconds),
        ("job_2819_" + slow, "its slowdown", 2.0, plain),
        ("job_918_" + slow, "slowdown of job 918 (119 s)", 1.0, plain),
        ("job_9087_" + wait, "wait of job 9087 (printed as 9121)", 0.0, seconds),
    )
    found += [
        Claim(
            f"T3-M4-{name}", f"UniLu, M=4: {what}", "Table 3", show(paper), figure("unilu/M4", name),
            exact(paper, paper), show,
        )
        for name, what, paper, show in alone
    ]  # fmt: skip
    found.append(
        Claim(
            id="F8-R5-above-4",
            statement="UniLu, R=5 %: share of the jobs with a slowdown above 4",
            where="4.3.3, Fig. 8",
            paper="3.8 %",
            measure=above("unilu/R5", 4),
            criterion=exact(0.037, 0.0385),
            show=percent,
            also={
                "the rules of the text": above("unilu-text/R5", 4),
                "and a pass after each event": above("unilu-event/R5", 4),
                "FCFS": above("unilu-fcfs/R5", 4),
            },
            open_points=_DETAILS,
        )
    )
    return tuple(found)


def _kit(options: Options) -> tuple[Claim, ...]:
    def change(label: str) -> Measure:
        return lambda world: world(label, _M + "last_end_s") / world("kit/M1", _M + "last_end_s") - 1

    def later(share: int) -> Measure:
        name = _M + f"completion_{share}_h"
        return lambda world: world("kit/M8", name) - world("kit/M1", name)

    short = " (a tenth of the time)" if options.quick else ""

    def claim(name: str, what: str, **more: Any) -> Claim:
        return Claim(id=name, statement=f"KIT{short}: {what}", open_points=_STAND_IN, **more)

    return (
        claim(
            "F5-M8", "the longest HRR wait with M=8 is tolerable", where="4.3.1, Fig. 5", paper="about 6 min",
            measure=figure("kit/M8", "max_wait_s_responsive"), criterion=level(330, 390), show=seconds,
        ),
        claim(
            "F5-R5", "with R=5 % no HRR job waits; the longest wait", where="4.3.2, Fig. 5", paper="0 s",
            measure=figure("kit/R5", "max_wait_s_responsive"), criterion=untested(_FITTED), show=seconds,
        ),
        claim(
            "F9-terrible", "jobs with a slowdown of 100 or more at R=3 %", where="4.3.3, Fig. 9", paper="3.2 %",
            measure=figure("kit/R3", "slowdown_100_share"), criterion=printed(0.032, 0.001), show=percent,
        ),
        claim(
            "F9-M8", "with M=8 nearly all slowdowns are at most 6", where="4.3.3, Fig. 9", paper="100 %",
            measure=figure("kit/M8", "slowdown_at_most_6"), criterion=bound(low=0.995), show=percent,
        ),
        claim(
            "F9-M1", "without sharing about a tenth of the jobs have a slowdown above 6",
            where="4.3.3, Fig. 9", paper="about 10 %",
            measure=above("kit/M1", 6), criterion=untested(_FITTED), show=percent,
        ),
        claim(
            "F13-M8", "the makespan with M=8 against M=1", where="4.3.5, Fig. 13", paper="+1.2 %",
            measure=change("kit/M8"), criterion=printed(0.012, 0.001), show=percent,
        ),
        *(
            claim(
                f"T5-{share}", f"{share} % of the jobs are over later by, M=8 against M=1",
                where="Table 5", paper=f"{paper} h",
                measure=later(share), criterion=untested(_FITTED), show=lambda value: f"{value:.1f} h",
            )
            for share, paper in ((90, 0), (95, 2))
        ),
    )  # fmt: skip


def _beyond() -> tuple[Claim, ...]:
    hrr = "mean_slowdown_responsive"
    return (
        Claim(
            id="S5-phases",
            statement="UniLu, M=4: with phases of thinking normal jobs pay less; mean excess slowdown, with / without",
            where="5.2 (expected by the paper)",
            paper="falls",
            measure=lambda world: (
                (world("unilu-thinking/M4", _M + "mean_slowdown_normal") - 1)
                / (world("unilu/M4", _M + "mean_slowdown_normal") - 1)
            ),
            criterion=less(0.01),
            show=plain,
            open_points="HRR jobs use 0.8 % of the core-time, so normal jobs hardly notice; they profit themselves.",
            also={
                "of HRR jobs": lambda world: (
                    (world("unilu-thinking/M4", _M + hrr) - 1) / (world("unilu/M4", _M + hrr) - 1)
                )
            },
        ),
        Claim(
            "S5-low-use",
            "UniLu, M=4: sharing only among HRR jobs lets normal jobs wait; their mean slowdown / plain M=4",
            "5.2 (our comparison)", "not said",
            ratio(figure("unilu-low-use/M4", "mean_slowdown_normal"), figure("unilu/M4", "mean_slowdown_normal")),
            untested("The paper says nothing of it."), plain,
            also={"of HRR jobs": ratio(figure("unilu-low-use/M4", hrr), figure("unilu/M4", hrr))},
        ),
    )  # fmt: skip
