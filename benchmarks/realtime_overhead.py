"""What checkpoints and preemptions cost: as the equations of realtime-wang-2017 predict, and as processes meet it.

python benchmarks/realtime_overhead.py [--speed 60] [--seed 3]

Each scheme is run live at a free pace: nobody waits for anybody, a job computes until it really hears that it has to
stop, and its checkpoints are files that are flushed to the disk. How long a transfer takes is the model's. Predicted:
equations 1 to 20 of the preemptions that happened. Measured: the time between the first and the last word of each of a
job's runs, by its own output, less its run time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import RunOutcome
from emulator.live.fleet import run_live
from emulator.live.job.proof import prove
from emulator.mechanisms.realtime import equations as eq
from emulator.mechanisms.realtime.mechanism import Realtime
from emulator.runs.preparation import Prepared
from emulator.runs.scenario import from_mapping
from emulator.workload.table import JobTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.record.run_record import RunRecord

NODES, JOBS = 8, 14
HOUR_US = 3600 * US
PARAMETERS = {"percent": 30, "data_gb": 60, "node_gb_s": 1, "shared_cap": False, "interval_s": 300}
"""A checkpoint takes a minute, so that it is long beside what a message takes."""


class NeverMind:
    reason = ""

    def __bool__(self) -> bool:
        return False


def workload(seed: int) -> JobTable:
    draw = np.random.default_rng(seed)
    run_us = draw.integers(60 * US, 1200 * US, JOBS)
    return JobTable.build(
        submit_us=np.sort(draw.integers(0, 1500, JOBS) * US), run_us=run_us, estimate_us=run_us * 2,
        nodes=draw.choice([1, 2, 3, 4, 6], JOBS).astype(np.int32),
    )  # fmt: skip


def history(record: RunRecord, job: int) -> eq.History:
    """The preemptions that a job met."""
    runs, nodes = record.runs, int(record.jobs.nodes[job])
    saved = 0
    preemptions = []
    for row in np.flatnonzero((runs.job == job) & (runs.outcome == RunOutcome.PREEMPTED)):
        saved += int(runs.done_node_us[row] - runs.lost_node_us[row])
        preemptions.append(
            eq.Preemption(
                used=int(runs.end_us[row] - runs.start_us[row]),
                gap=int(runs.lost_node_us[row]) / nodes,
                data=float(saved > 0),
            )
        )
    return eq.History(int(record.jobs.run_us[job]), nodes, tuple(preemptions), data=1)


def on_nodes_us(output: Path) -> int:
    """How long a job's runs lasted, by what it wrote."""
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    begins = [place for place, line in enumerate(lines) if line["event"] == "begins"]
    return sum(
        lines[end - 1]["at_us"] - lines[begin]["at_us"] for begin, end in pairwise([*begins, len(lines)])
    )


def measure(scheme: str, speed: float, seed: int) -> dict[str, Any]:
    jobs = workload(seed)
    scenario = from_mapping(
        {
            "name": scheme, "nodes": NODES, "seed": seed, "workload": {"generate": [{"daily_batch": {}}]},
            "mechanism": {"realtime": {"scheme": scheme} | PARAMETERS},
            "live": {"pace": "free", "speed": speed, "jobs": "emulator-job"},
        }
    )  # fmt: skip
    parameters: dict[str, Any] = PARAMETERS
    mechanism = Realtime(scheme=scheme, **parameters)
    io = mechanism.io()
    with tempfile.TemporaryDirectory() as folder:
        record = run_live(scenario, Prepared(jobs, NODES), Path(folder), NeverMind(), quiet=True)
        batch = np.flatnonzero(~mechanism.chosen(jobs, seed))
        outputs = {job: next(Path(folder, "logs", "jobs").glob(f"j{jobs.number[job]}.o*")) for job in batch}
        for output in outputs.values():
            with output.open(encoding="utf-8") as file:
                assert prove(file).finished, output.read_text()
        measured = [on_nodes_us(outputs[job]) - int(jobs.run_us[job]) for job in batch]
    found = eq.overhead(
        scheme,
        [history(record, int(job)) for job in batch],
        lambda job: eq.Pfs(write=1 / io.write_us(job.nodes), read=1 / io.read_us(job.nodes)),
        lambda _: PARAMETERS["interval_s"] * US,
    )
    predicted = [ckpt + pre for ckpt, pre in zip(found.t_ckpt, found.t_pre, strict=True)]
    return {
        "scheme": scheme,
        "preemptions": int((record.runs.outcome == RunOutcome.PREEMPTED).sum()),
        "predicted_ckpt_node_h": (found.ch_ckpt_sys + found.ch_ckpt_jobs) / HOUR_US,
        "predicted_pre_node_h": found.ch_pre_sys / HOUR_US,
        "predicted_node_h": float(np.dot(predicted, jobs.nodes[batch])) / HOUR_US,
        "measured_node_h": float(np.dot(measured, jobs.nodes[batch])) / HOUR_US,
        "largest_difference_s": max(abs(a - b) for a, b in zip(predicted, measured, strict=True)) / US,
        "longest_lag_s": record.pace["longest_hold_us"] / US * speed,
    }


def rows(speed: float, seed: int) -> Iterator[dict[str, Any]]:
    for scheme in ("pre_rest", "pre_ckpt_sys", "pre_ckpt"):
        yield measure(scheme, speed, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--speed", type=float, default=60, help="cluster seconds a second (default 60)")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    print("| scheme | preemptions | t_ckpt, t_pre node-h | predicted | measured | largest of a job | lag |")
    print("|---|---|---|---|---|---|---|")
    for row in rows(options.speed, options.seed):
        print(
            f"| `{row['scheme']}` | {row['preemptions']} "
            f"| {row['predicted_ckpt_node_h']:.3f}, {row['predicted_pre_node_h']:.3f} "
            f"| {row['predicted_node_h']:.3f} | {row['measured_node_h']:.3f} "
            f"| {row['largest_difference_s']:.1f} s | {row['longest_lag_s']:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
