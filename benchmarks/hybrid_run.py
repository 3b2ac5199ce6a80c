"""What a run of the mechanism hybrid costs, to its end at once and by steps as live, in turns and in one process.

python benchmarks/hybrid_run.py [--machine theta_year|cori_months] [--days N] [--strategy S] [--repeat N]

Processor time from a job table to a run record, without making the jobs. Both must start every job at the same time.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from typing import Any

import numpy as np
from speed_rows import print_rows, row

from emulator.mechanisms.hybrid import HybridMechanism
from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.workload.hybrid_machines import CoriMonths, ThetaYear

MACHINES = {each.NAME: each for each in (ThetaYear(), CoriMonths())}


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(name: str, days: int, strategy: str, repeat: int) -> dict[str, float]:
    """Medians of both, and of their ratio."""
    machine = MACHINES[name]
    generated = {name: {"days": days, "jobs": round(machine.jobs * days / machine.days)}}
    workload = {"generate": [generated], "transforms": [{"hybrid_kinds": {"notices": "W5"}}]}
    jobs = prepare(from_mapping({"seed": 1001, "nodes": machine.NODES, "workload": workload})).jobs
    HybridMechanism.warm_up()
    found: dict[bool, list[float]] = {False: [], True: []}
    starts: dict[bool, Any] = {}
    for _ in range(repeat):
        for by_steps, used in found.items():
            mechanism = HybridMechanism(strategy)
            begin_s = cpu_s()
            loop = Loop(mechanism.make_machine(machine.NODES, SchedulerConfig(), jobs, 1001), mechanism)
            loop.run(by_steps=by_steps)
            starts[by_steps] = loop.record().runs.start_us
            used.append(cpu_s() - begin_s)
    if not np.array_equal(starts[False], starts[True]):
        raise AssertionError("by steps jobs start at other times")
    ratios = [one / other for one, other in zip(found[False], found[True], strict=True)]
    return {
        "jobs": len(jobs),
        "at_once_s": statistics.median(found[False]),
        "by_steps_s": statistics.median(found[True]),
        "ratio": statistics.median(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--machine", choices=sorted(MACHINES), default="theta_year", help="whose jobs")
    parser.add_argument("--days", type=int, default=0, help="so many days of them (default: all)")
    parser.add_argument("--strategy", default="cua+spaa", help="at the notice and at the arrival")
    parser.add_argument("--repeat", type=int, default=3, help="turns")
    parser.add_argument("--quick", action="store_true", help="ten days, one turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    days = 10 if chosen.quick else chosen.days or int(MACHINES[chosen.machine].days)
    found = measure(chosen.machine, days, chosen.strategy, 1 if chosen.quick else chosen.repeat)
    if chosen.json:
        print_rows([row(f"{chosen.machine}, {days} days, {chosen.strategy}", found)])
    else:
        print(
            f"{chosen.machine}, {days} days, {chosen.strategy}: "
            + ", ".join(f"{name} {value}" for name, value in found.items())
        )


if __name__ == "__main__":
    main()
