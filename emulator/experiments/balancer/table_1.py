"""What the paper claims of the challenging week: section III-A, Table I."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.experiments.balancer.measures import (
    COUNTED,
    LEASES,
    RATE,
    REJECTED,
    SCHEDULER,
    USED,
    WAIT,
    all_jobs,
)
from emulator.experiments.balancer.runs import RESERVES, WAITS_MIN, readings
from emulator.experiments.claims import Claim, count, minutes, points, times
from emulator.experiments.criteria import alike, bound, level, more, printed
from emulator.text.number_text import percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.experiments.claims import World
    from emulator.experiments.paper import Options


_PLAIN = "FCFS without backfilling"


def table_1(options: Options) -> tuple[Claim, ...]:
    """The claims on it."""
    return (*_apart(options), *_rejections(options), *_merged(options))


def _ratio(prefix: str) -> Callable[[World], float]:
    return lambda world: world(f"{prefix}/static", WAIT) / world(f"{prefix}/R12W0", WAIT)


def _above_bound(prefix: str) -> Callable[[World], float]:
    return lambda world: world(f"{prefix}/R12W0", WAIT) / world(f"{prefix}/batch", WAIT)


def _wait(label: str) -> Callable[[World], float]:
    return lambda world: world(label, WAIT) / 60


def _otherwise(
    options: Options, measure: Callable[[str], Callable[[World], float]]
) -> dict[str, Callable[[World], float]]:
    """A measure of Table I under every reading, by what the reading is."""
    by_reading = {text: measure(prefix) for prefix, text in readings(options).items()}
    return {_PLAIN: measure("t1-fcfs"), **by_reading}


def _waits(
    options: Options, measure: Callable[[str], Callable[[World], float]]
) -> dict[str, Callable[[World], float]]:
    return {**_otherwise(options, measure), COUNTED: all_jobs(measure("t1"))}


def _apart(options: Options) -> tuple[Claim, ...]:
    """The mean waits on the whole cluster, and beside a cluster for on-demand jobs alone."""
    return (
        Claim(
            "T1-bound", "All 372 nodes for batch: the lower bound of the mean batch wait", "III-A, Table I",
            "122.5 min", _wait("t1/batch"), printed(122.5, 0.1, replay=options.traces is not None), minutes,
            also=_waits(options, lambda prefix: _wait(f"{prefix}/batch")), open_points=SCHEDULER,
        ),
        Claim(
            "T1-split", "304 batch and 68 on-demand nodes apart: the mean batch wait", "III-A, Table I", "1002.8 min",
            _wait("t1/static"), printed(1002.8, 0.1, replay=options.traces is not None), minutes,
            also=_waits(options, lambda prefix: _wait(f"{prefix}/static")), open_points=SCHEDULER,
        ),
    )  # fmt: skip


def _rejections(options: Options) -> tuple[Claim, ...]:
    return (
        Claim(
            "T1-static-serves-all", "68 dedicated nodes reject nothing", "III-A, Table I", "0",
            lambda world: world("t1/static", REJECTED), bound(high=0), count,
        ),
        Claim(
            "T1-rejections-R0W0", "With R=0 and W=0 about 30 of 141 on-demand requests are rejected",
            "III-A, Table I", "30 of 141 (21.3 %)", lambda world: world("t1/R0W0", RATE), printed(30 / 141, 1 / 141),
            percent, also=_otherwise(options, lambda prefix: lambda world: world(f"{prefix}/R0W0", RATE)),
            open_points=LEASES,
        ),
        Claim(
            "T1-rejections-R12", "R=12 and W=0 reject nothing: 82 % less dedicated hardware", "III-A, Table I", "0",
            lambda world: world("t1/R12W0", REJECTED), bound(high=0), count,
            also=_otherwise(options, lambda prefix: lambda world: world(f"{prefix}/R12W0", REJECTED)),
            open_points=LEASES,
        ),
        Claim(
            "T1-wait-instead", "Waiting 5 minutes instead removes most of the rejections of R=0", "III-A, Table I",
            "30 -> 3 (-90 %)", lambda world: 1 - world("t1/R0W5", REJECTED) / world("t1/R0W0", REJECTED),
            more(0.5, than=0), percent,
            also={_PLAIN: lambda world: 1 - world("t1-fcfs/R0W5", REJECTED) / world("t1-fcfs/R0W0", REJECTED)},
            open_points=LEASES,
        ),
        Claim(
            "T1-rejections-R6W10", "R=6 and W=10 min reject nothing", "III-A, Table I", "0",
            lambda world: world("t1/R6W10", REJECTED), bound(high=0), count,
            also={_PLAIN: lambda world: world("t1-fcfs/R6W10", REJECTED)}, open_points=LEASES,
        ),
    )  # fmt: skip


def _merged(options: Options) -> tuple[Claim, ...]:
    """What merging the two gains: waits and utilisation."""
    dynamic = [
        f"R{reserve}W{wait}"
        for reserve in RESERVES
        for wait in WAITS_MIN
        if not options.quick or (reserve, wait) in {(0, 0), (12, 0), (0, 5), (6, 10)}
    ]

    def gain(world: World) -> float:
        gains = [world(f"t1/{name}", USED) - world("t1/static", USED) for name in dynamic]
        return sum(gains) / len(gains)

    return (
        Claim(
            "T1-wait-8x", "The mean batch wait falls by about 8x against the split clusters (R=12, W=0)", "III-A, V",
            "7.7x (85 to 88 % less)", _ratio("t1"), level(7.5, 8.5), times, also=_waits(options, _ratio),
            open_points=SCHEDULER,
        ),
        Claim(
            id="T1-near-bound",
            statement="The mean batch wait at R=12, W=0 is almost the lower bound",
            where="III-A",
            paper="1.06x",
            measure=_above_bound("t1"),
            criterion=alike(None, 1.1),
            show=times,
            also={
                **_waits(options, _above_bound),
                "R=0": lambda world: world("t1/R0W0", WAIT) / world("t1/batch", WAIT),
            },
            open_points=(
                "Near its capacity the queue's wait is steep in the nodes it has: 12 nodes kept for good are 3 % of"
                " the cluster. The paper's own waits are not in the order of the nodes they leave to batch (R=0, W=5"
                " waits longer than R=12, W=0), which shows how much single runs scatter."
            ),
        ),
        Claim(
            id="T1-utilisation",
            statement="Combined utilisation rises by 4.8 to 5.6 points against the split clusters",
            where="III-A",
            paper="4.8 to 5.6 points",
            measure=gain,
            criterion=level(0.0475, 0.0565),
            show=points,
            also=_otherwise(
                options,
                lambda prefix: lambda world: world(f"{prefix}/R12W0", USED) - world(f"{prefix}/static", USED),
            ),
            open_points="It depends on how long the split cluster's queue still is when the week ends.",
        ),
    )  # fmt: skip
