"""What a run of the Balancer in virtual time costs, compiled and step by step, in turns and in one process.

python benchmarks/balancer_run.py [--runs N] [--repeat N] [--traces FOLDER]

Processor time from a job table to a run record, without making the jobs, of runs of `emulator reproduce balancer` that
are spread evenly. Both forms must leave the same runs, moves and answers.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.experiments.balancer import PAPER
from emulator.experiments.paper import Options
from emulator.mechanisms.balancer import BalancerMechanism
from emulator.runs.preparation import prepare
from emulator.runs.runner import make_machine, make_mechanism
from emulator.simulation.loop import Loop

if TYPE_CHECKING:
    from emulator.record.run_record import RunRecord
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(scenario: Scenario, prepared: Prepared, *, by_steps: bool) -> tuple[float, RunRecord]:
    mechanism = make_mechanism(scenario)
    machine = make_machine(scenario, prepared, mechanism)
    begin_s = cpu_s()
    loop = Loop(machine, mechanism)
    loop.run(by_steps=by_steps)
    record = loop.record()
    return cpu_s() - begin_s, record


def same(one: RunRecord, other: RunRecord) -> bool:
    runs = ("job", "start_us", "end_us", "node")
    return (
        all(np.array_equal(getattr(one.runs, name), getattr(other.runs, name)) for name in runs)
        and one.moves == other.moves
        and one.leases == other.leases
    )


def measure(scenario: Scenario, repeat: int) -> tuple[float, float]:
    """The least time of each form in several turns: a collection of garbage takes as long as a run."""
    prepared = prepare(scenario)
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(repeat):
        records = {}
        for by_steps, used in found.items():
            took_s, records[by_steps] = timed(scenario, prepared, by_steps=by_steps)
            used.append(took_s)
        if not same(records[False], records[True]):
            raise AssertionError(f"{scenario.name}: the two forms differ")
    return min(found[False]), min(found[True])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=60, help="so many of the paper's runs")
    parser.add_argument("--repeat", type=int, default=2, help="turns")
    parser.add_argument(
        "--traces", type=Path, help="folder with the paper's own logs (default: the stand-in)"
    )
    parser.add_argument("--quick", action="store_true", help="three runs, one turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    count, repeat = (3, 1) if chosen.quick else (chosen.runs, chosen.repeat)
    everything = PAPER.sweep(Options(traces=chosen.traces)).runs
    served = [run.scenario for run in everything if "balancer" in str(run.scenario.mechanism)]
    scenarios = [served[place * len(served) // count] for place in range(count)]
    BalancerMechanism.warm_up()
    timed(scenarios[0], prepare(scenarios[0]), by_steps=True)  # what it calls is compiled, too
    times_s = [measure(scenario, repeat) for scenario in scenarios]
    compiled_s, by_steps_s = (sum(each) for each in zip(*times_s, strict=True))
    found: dict[str, Any] = {
        "runs": len(scenarios),
        "compiled_ms": 1000 * statistics.median(one for one, _ in times_s),
        "by_steps_ms": 1000 * statistics.median(other for _, other in times_s),
        "ratio": statistics.median(one / other for one, other in times_s),
        "all_compiled_s": compiled_s,
        "all_by_steps_s": by_steps_s,
    }
    if chosen.json:
        print(json.dumps(found, indent=2))
    else:
        print(", ".join(f"{name} {value:.4g}" for name, value in found.items()))


if __name__ == "__main__":
    main()
