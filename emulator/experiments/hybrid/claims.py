"""The paper's seventeen observations as claims, and when we say that they hold.

Criteria were set before the runs. A direction ("lower", "better") needs a hundredth of the figure, or a tenth of a
point; "noticeably" and "largely" are a fifth, "similar" is within a tenth. Each is a sign test over the traces.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from emulator.experiments.claims import Claim, World, count, points
from emulator.experiments.criteria import alike, bound, less, more, more_up_to, untested
from emulator.experiments.hybrid.runs import BASELINE, MIX, MTBFS_H, SETUPS, SHARES, STRATEGIES, mixes
from emulator.text.number_text import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.experiments.criteria import Criterion
    from emulator.experiments.paper import Options

    Measure = Callable[[World], float]

TURNAROUND, USED = "mechanism.turnaround_h", "mechanism.useful_utilization"
INSTANT = "mechanism.instant_start_ratio"
RIGID, MALLEABLE = "mechanism.preemption_ratio_rigid", "mechanism.preemption_ratio_malleable"
RIGID_TURNAROUND, MALLEABLE_TURNAROUND = (
    "mechanism.turnaround_rigid_h",
    "mechanism.turnaround_malleable_h",
)
OWN = "_without_guests"
"""Ends the names of preemption ratios that leave guests out."""
PAA = tuple(name for name in STRATEGIES if name.endswith("+paa"))
SPAA = tuple(name for name in STRATEGIES if name.endswith("+spaa"))
CUA = ("cua+paa", "cua+spaa")
CUP = ("cup+paa", "cup+spaa")

_MACHINE = (
    "The traces are made: the paper's Figure 3 is a picture, and its logs' users, run times and bursts are not"
    " published."
)
_CALIBRATED = "Load and bursts of the made traces were fitted to this table, with seeds 1 to 10."
_DEMAND = (
    "Where the machine finishes what is submitted, what is used is what was asked for, whatever the scheduler: a"
    " mechanism can only add waste. The paper's machine must have had more work waiting than it could do."
)
_STEPS = (
    "Differences of this size depend on what the paper leaves open: how nodes are given back, whether held nodes of"
    " one on-demand job may be taken by another, and what a warning of two minutes costs."
)


_SOME, _POINT, _LARGELY = 0.01, 0.001, 0.2
"""Margins: of a ratio, of a difference of shares, and of what is "noticeable"."""


def hours(value: float) -> str:
    return f"{value:.2f} h"


def times(value: float) -> str:
    """With two digits: what is claimed is often no more than which of two figures is the larger."""
    return f"{value:.2f}x"


def mean_of(figure: str, labels: Iterable[str]) -> Measure:
    names = tuple(labels)
    return lambda world: fmean(world(name, figure) for name in names)


def _ratio(first: Measure, second: Measure) -> Measure:
    return lambda world: first(world) / second(world)


def _difference(first: Measure, second: Measure) -> Measure:
    return lambda world: first(world) - second(world)


def claims(options: Options) -> tuple[Claim, ...]:
    """The claims that the runs of these options can judge."""
    over = partial(_labels, mixes(options))
    found = (
        *_table_3(),
        *_overall(over),
        *_accuracy(mixes(options)),
        *_checkpoints(),
        *_sizes_and_setups(),
    )
    return tuple(_with_own(claim) if claim.id.startswith(_OF_PREEMPTIONS) else claim for claim in found)


_OF_PREEMPTIONS = ("O2", "O3-preemption", "O4-preemption", "O8", "O11-preemption", "O14-preemption", "O15-rigid",
                   "O15-malleable", "O15-spaa", "O17")  # fmt: skip


def _with_own(claim: Claim) -> Claim:
    """The claim with another reading of what a preemption is beside it."""

    def measure(world: World) -> float:
        rows = {
            label: {**row, RIGID: row.get(RIGID + OWN), MALLEABLE: row.get(MALLEABLE + OWN)}
            for label, row in world.rows.items()
        }
        return claim.measure(World(world.seed, rows))

    return replace(claim, also={**claim.also, "a guest that leaves held nodes is not preempted": measure})


def _labels(
    every: tuple[str, ...], names: Iterable[str] = STRATEGIES, *, machine: str = "theta"
) -> list[str]:
    return [f"{machine}/{mix}/{name}" for mix in every for name in names]


def _table_3() -> list[Claim]:
    found = []
    rows = (
        ("theta", "Theta", 15.6, 0.8393, 0.2269),
        ("cori", "Cori", 1.97, 0.8027, 0.1894),
    )
    for machine, name, turnaround, used, instant in rows:
        where = f"Table III, {name}"
        label = f"{machine}/{BASELINE}"
        for what, figure, paper, show in (
            ("mean turnaround", TURNAROUND, f"{turnaround} h", hours),
            ("utilisation", USED, percent(used), percent),
            ("instant start ratio", INSTANT, percent(instant), percent),
        ):
            found.append(
                Claim(
                    id=f"T3-{machine}-{what.split()[0] if figure != TURNAROUND else 'turnaround'}",
                    statement=f"FCFS/EASY without a mechanism: {what}",
                    where=where,
                    paper=paper,
                    measure=mean_of(figure, [label]),
                    criterion=untested(_CALIBRATED),
                    show=show,
                )
            )
    return found


def _overall(over: Callable[..., list[str]]) -> list[Claim]:
    found = []
    for machine, paper_instant, paper_times in (
        ("theta", "22 % -> 98 %", "1.47x"),
        ("cori", "19 % -> 99 %", "1.25x"),
    ):
        base = f"{machine}/{BASELINE}"
        labels = over(machine=machine)
        gain = _difference(mean_of(USED, labels), mean_of(USED, [base]))
        found += [
            _claim("O1-utilisation", machine, "The mechanisms improve utilisation by more than 5 %", "> 5 %",
                   gain, more(0.045, than=0), points, _DEMAND),
            _claim("O1-instant", machine, "The instant start ratio rises from about 20 % to 98 %", paper_instant,
                   mean_of(INSTANT, labels), bound(low=0.975), percent, _MACHINE),
            _claim("O1-turnaround", machine, "The mean turnaround grows slightly", paper_times,
                   _ratio(mean_of(TURNAROUND, labels), mean_of(TURNAROUND, [base])), more_up_to(0.05, 1.7), times,
                   "A mean over all jobs: on-demand jobs, which hardly wait any more, take part of the growth back."),
        ]  # fmt: skip

    def worst(world: World) -> float:
        def of(figure: str, name: str) -> float:
            return mean_of(figure, over([name]))(world)

        rest = [name for name in STRATEGIES if name != "n+paa"]
        by_far = (
            of(TURNAROUND, "n+paa") >= (1 + _SOME) * max(of(TURNAROUND, name) for name in rest),
            of(USED, "n+paa") <= min(of(USED, name) for name in rest) - _POINT,
            of(MALLEABLE, "n+paa") >= (1 + _SOME) * max(of(MALLEABLE, name) for name in rest),
        )
        return float(sum(by_far))

    def over_rigid(names: Iterable[str]) -> Measure:
        labels = over(names)
        return _ratio(mean_of(MALLEABLE_TURNAROUND, labels), mean_of(RIGID_TURNAROUND, labels))

    def faster(world: World) -> float:
        """Malleable over rigid turnaround, and that over the same without a mechanism: the larger."""
        base = [f"theta/{BASELINE}"]
        found = over_rigid((*CUA, *CUP))(world)
        plain = mean_of(MALLEABLE_TURNAROUND, base)(world) / mean_of(RIGID_TURNAROUND, base)(world)
        return max(found, found / plain)

    def lowest_rigid(world: World) -> float:
        rest = [mean_of(RIGID_TURNAROUND, over([name]))(world) for name in STRATEGIES if name != "n+spaa"]
        return mean_of(RIGID_TURNAROUND, over(["n+spaa"]))(world) / min(rest)

    def by_method(world: World) -> list[float]:
        return [mean_of(INSTANT, over([name]))(world) for name in STRATEGIES]

    def harm(machine: str) -> Measure:
        base = mean_of(TURNAROUND, [f"{machine}/{BASELINE}"])
        return _ratio(mean_of(TURNAROUND, over(machine=machine)), base)

    early = ("cua+paa", "cup+paa")
    early_spaa = ("cua+spaa", "cup+spaa")
    return [
        *found,
        _claim("O2", "theta", "N&PAA is the worst in turnaround, utilisation and malleable preemptions", "3 of 3",
               worst, more(3, than=0), count, _STEPS),
        _claim("O3-preemption", "theta", "SPAA preempts fewer malleable jobs than PAA", "largely fewer",
               _ratio(mean_of(MALLEABLE, over(SPAA)), mean_of(MALLEABLE, over(PAA))), less(_LARGELY), times,
               _STEPS),
        _claim("O3-utilisation", "theta", "SPAA has a higher utilisation than PAA", "higher",
               _difference(mean_of(USED, over(SPAA)), mean_of(USED, over(PAA))), more(_POINT, than=0), points, _STEPS),
        _claim("O4-turnaround", "theta", "With a notice, PAA has a lower turnaround than SPAA", "lower",
               _ratio(mean_of(TURNAROUND, over(early)), mean_of(TURNAROUND, over(early_spaa))),
               less(_SOME), times, _STEPS),
        _claim("O4-preemption", "theta", "PAA preempts slightly fewer rigid jobs than SPAA", "slightly fewer",
               _ratio(mean_of(RIGID, over(PAA)), mean_of(RIGID, over(SPAA))), less(_SOME), times,
               "Every shrink that suffices spares rigid jobs; SPAA can only preempt more of them afterwards."),
        _claim("O5-turnaround", "theta", "CUA has a lower turnaround than CUP", "slightly lower",
               _ratio(mean_of(TURNAROUND, over(CUA)), mean_of(TURNAROUND, over(CUP))), less(_SOME), times,
               _STEPS),
        _claim("O5-utilisation", "theta", "CUA has a higher utilisation than CUP", "slightly higher",
               _difference(mean_of(USED, over(CUA)), mean_of(USED, over(CUP))), more(_POINT, than=0), points, _STEPS),
        _claim("O6", "theta", "With CUA and CUP malleable jobs' turnaround is lower than rigid jobs'",
               "noticeably lower",
               faster, less(_LARGELY), times,
               "Which projects are malleable is drawn: in our traces their jobs may be longer to begin with. A"
               " malleable job that starts from the queue starts at full width here."),
        _claim("O7-rigid", "theta", "N&SPAA has the lowest rigid turnaround of the six", "lowest",
               lowest_rigid, less(_SOME), times, _STEPS),
        _claim("O7-similar", "theta", "With N&SPAA rigid jobs' turnaround is like malleable jobs' or lower",
               "similar or lower", lambda world: 1 / over_rigid(["n+spaa"])(world), alike(None, 1.1), times, _STEPS),
        _claim("O8", "theta", "Malleable jobs are preempted noticeably more often than rigid ones", "noticeably",
               _ratio(mean_of(MALLEABLE, over()), mean_of(RIGID, over())), more(_LARGELY), times, _STEPS),
        _claim("O9-all", "theta", "Every method starts more than 98 % of the on-demand jobs instantly", "> 98 %",
               lambda world: min(by_method(world)), bound(low=0.98), percent,
               "Bursts of on-demand jobs that exceed the machine cannot start at once; a project with many wide jobs"
               " makes many of them, and held nodes are not taken from another on-demand job."),
        _claim("O9-alike", "theta", "The methods do not differ in it", "no significant difference",
               lambda world: max(by_method(world)) - min(by_method(world)), alike(None, 0.02), points, _STEPS),
        _claim("O10", "theta", "Preemption harms Theta's turnaround more than Cori's", "1.30x against 1.17x",
               _difference(harm("theta"), harm("cori")), more(0.05, than=0), times, _MACHINE),
    ]  # fmt: skip


def _accuracy(every: tuple[str, ...]) -> list[Claim]:
    def best(names: tuple[str, ...], mix: str, figure: str) -> Measure:
        def measure(world: World) -> float:
            of = {
                accuracy: mean_of(figure, [f"theta/{accuracy}/{name}" for name in names])(world)
                for accuracy in every
            }
            return of.pop(mix) / min(of.values())

        return measure

    return [
        _claim("O11-turnaround", "theta", "CUP has its lowest turnaround with accurate notices (W2)", "lowest",
               best(CUP, "W2", TURNAROUND), less(_SOME), times, _STEPS),
        _claim("O11-preemption", "theta", "CUP preempts fewest malleable jobs with accurate notices (W2)", "fewest",
               best(CUP, "W2", MALLEABLE), less(_SOME), times, _STEPS),
        _claim("O12", "theta", "CUA has its lowest turnaround with late arrivals (W4)", "lowest",
               best(CUA, "W4", TURNAROUND), less(_SOME), times,
               "Two of three late jobs come after their nodes were released, ten minutes after the predicted arrival."),
    ]  # fmt: skip


def _checkpoints() -> list[Claim]:
    def of(figure: str, mtbf_h: int, scale: str) -> Measure:
        return mean_of(figure, [f"mtbf{mtbf_h}/ck{scale}/{name}" for name in STRATEGIES])

    often, rare = MTBFS_H
    found = [
        _claim(f"O13-{name}-{mtbf_h}h", "theta", f"Checkpoints twice as often {text} (MTBF {mtbf_h} h)", paper,
               measure, criterion, show,
               "More checkpoints cost run time: 600 or 1 200 s each on top of the work.")
        for mtbf_h in MTBFS_H
        for name, text, paper, measure, criterion, show in (
            ("turnaround", "shorten rigid jobs' turnaround", "shorter",
             _ratio(of(RIGID_TURNAROUND, mtbf_h, "0.5"), of(RIGID_TURNAROUND, mtbf_h, "1")), less(_SOME), times),
            ("utilisation", "improve utilisation", "higher",
             _difference(of(USED, mtbf_h, "0.5"), of(USED, mtbf_h, "1")), more(_POINT, than=0), points),
        )
    ]  # fmt: skip
    for name, text, figure, change in (
        ("utilisation", "utilisation", USED, "lower"),
        ("instant", "the instant start ratio", INSTANT, "lower"),
        ("preemption", "rigid jobs' preemption ratio", RIGID, "raise"),
    ):
        criterion = less(_POINT, than=0) if change == "lower" else more(_POINT, than=0)
        found.append(
            _claim(f"O14-{name}", "theta", f"More failures (MTBF 5 h, not 50 h) {change} {text}", change,
                   _difference(of(figure, often, "1"), of(figure, rare, "1")), criterion, points,
                   "The optimum interval follows the failures: at 5 h rigid jobs write more checkpoints and lose less"
                   " when they are preempted.")
        )  # fmt: skip
    found.append(
        _claim("O14-turnaround", "theta", "More failures lengthen rigid jobs' turnaround", "longer",
               _ratio(of(RIGID_TURNAROUND, often, "1"), of(RIGID_TURNAROUND, rare, "1")), more(_SOME), times,
               _STEPS)
    )  # fmt: skip
    return found


def _sizes_and_setups() -> list[Claim]:
    def narrow(figure: str, names: Iterable[str]) -> tuple[Measure, Measure]:
        names = tuple(names)
        less = [f"min{SHARES[-1]}/{name}" for name in names]
        return mean_of(figure, less), mean_of(figure, [f"theta/{MIX}/{name}" for name in names])

    def change(figure: str, names: Iterable[str]) -> Measure:
        return _difference(*narrow(figure, names))

    def setup(figure: str, which: int, names: Iterable[str] = STRATEGIES) -> Measure:
        low, high = SETUPS[which]
        prefix = f"theta/{MIX}" if which == 1 else f"setup{low}-{high}"
        return mean_of(figure, [f"{prefix}/{name}" for name in names])

    return [
        _claim("O15-malleable", "theta", "Less flexible jobs (80 %, not 20 %): more malleable jobs are preempted",
               "more",
               change(MALLEABLE, STRATEGIES), more(_POINT, than=0), points, _STEPS),
        _claim("O15-rigid", "theta", "Less flexible jobs: more rigid jobs are preempted", "more",
               change(RIGID, STRATEGIES), more(_POINT, than=0), points, _STEPS),
        _claim("O15-utilisation", "theta", "Less flexible jobs: utilisation falls slightly", "slightly lower",
               change(USED, STRATEGIES), less(_POINT, than=0), points, _DEMAND),
        _claim("O15-spaa", "theta", "It hits SPAA more than PAA (malleable preemptions)", "more",
               _difference(change(MALLEABLE, SPAA), change(MALLEABLE, PAA)), more(_POINT, than=0), points, _STEPS),
        _claim("O16-turnaround", "theta", "The lower the setup overhead, the shorter the turnaround (0-5 to 15-20 %)",
               "shorter", _ratio(setup(TURNAROUND, 0), setup(TURNAROUND, 3)), less(_SOME), times, _STEPS),
        _claim("O16-utilisation", "theta", "The lower the setup overhead, the higher the utilisation", "higher",
               _difference(setup(USED, 0), setup(USED, 3)), more(_POINT, than=0), points, _DEMAND),
        _claim("O17-rigid", "theta", "Rigid setup like the malleable one (0-5 %): more rigid jobs are preempted (PAA)",
               "largely more", _ratio(setup(RIGID, 0, PAA), setup(RIGID, 1, PAA)), more(_LARGELY), times,
               "Only a rigid job that has just written a checkpoint is as cheap as a malleable one; few write any."),
        _claim("O17-malleable", "theta", "And fewer malleable ones (PAA)", "fewer",
               _ratio(setup(MALLEABLE, 0, PAA), setup(MALLEABLE, 1, PAA)), less(_SOME), times, _STEPS),
    ]  # fmt: skip


def _claim(  # noqa: PLR0917
    id_: str, machine: str, statement: str, paper: str, measure: Measure, criterion: Criterion,
    show: Callable[[float], str], open_points: str,
) -> Claim:  # fmt: skip
    observation = id_.split("-", maxsplit=1)[0].removeprefix("O")
    return Claim(
        id=id_ if machine == "theta" else f"{id_}-{machine}",
        statement=statement if machine == "theta" else f"{statement} ({machine.capitalize()})",
        where=f"Observation {observation}",
        paper=paper,
        measure=measure,
        criterion=criterion,
        show=show,
        open_points=open_points,
    )
