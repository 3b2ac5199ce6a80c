"""Each mechanism live and in virtual time: whether the runs are the same, and how fast the live one was.

python benchmarks/live_equals_virtual.py [--json] [--only NAME] [--speed X]

Each case runs twice by `emulator run`, once with `--clock live`; `emulator compare --same` says what differs. Jobs
sleep, and the clock waits for every process (`live.pace: held`). The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
EMULATOR = (sys.executable, "-c", "from emulator.cli import main; main(prog_name='emulator')")
_LIVE = ("--clock", "live", "--set", "live.pace=held", "--set", "live.jobs=sleep")
_DEFAULT, _DAY, _CORES = "scenarios/default.yaml", "traces/day-64.swf", "scenarios/shared-cores.yaml"
_DAY_OF_CORES = "workload.generate=[{core_jobs: {trace: ../traces/day-64.swf, cores: 4}}]"


@dataclass(frozen=True, slots=True)
class Case:
    """What `emulator run` is given; `about`: what happens in it, for people."""

    mechanism: str
    about: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        return shlex.join(["emulator", "run", *self.arguments])


def _case(mechanism: str, about: str, source: str, *changes: str, nodes: int | None = None) -> Case:
    of_nodes = () if nodes is None else ("--nodes", str(nodes))
    sets = (each for change in changes for each in ("--set", change))
    return Case(mechanism, about, (source, *of_nodes, *sets))


CASES = (
    _case("none", "a day of batch jobs under FCFS with EASY", _DAY),
    _case("balancer", "the same day with requests for nodes at once", _DEFAULT),
    _case(
        "balancer, nodes fail",
        "nodes that fail are replaced",
        _DEFAULT,
        "failures={model: {exponential: {mtbf_s: 800000, repair_s: 7200}}}",
        "mechanism.balancer.on_failure=replace",
    ),
    _case(
        "static_partition",
        "eight nodes for on-demand jobs",
        _DEFAULT,
        "mechanism={static_partition: {ondemand_nodes: 8}}",
    ),
    _case(
        "hybrid",
        "on-demand jobs with notices; others shrink or are preempted",
        _DAY,
        "workload.transforms=[{hybrid_kinds: {notices: W5}}]",
        "mechanism={hybrid: {strategy: cua+spaa}}",
    ),
    _case(
        "malleable",
        "half of the jobs shrink and expand",
        _DAY,
        "workload.transforms=[{flexible_jobs: {malleable: 0.5}}]",
        "scheduler=fcfs+conservative",
        "mechanism={malleable: {reconfiguration_s: 5}}",
    ),
    _case(
        "realtime",
        "a fifth of the jobs preempts others, which write checkpoints",
        _DAY,
        "mechanism={realtime: {scheme: pre_ckpt, percent: 20}}",
    ),
    _case(
        "oversubscribe",
        "two jobs on a core",
        _CORES,
        _DAY_OF_CORES,
        "mechanism={oversubscribe: {cores: 4, multiplicity: 2}}",
        nodes=16,
    ),
    _case(
        "dedicated_nodes",
        "half of the nodes for jobs that share",
        _CORES,
        _DAY_OF_CORES,
        "mechanism={dedicated_nodes: {cores: 4, percent: 50}}",
        nodes=16,
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A case in both clocks. `live_wall_s`: while the clock ran; `live_speed`: cluster time by wall time then."""

    mechanism: str
    about: str
    command: str
    nodes: int
    jobs: int
    decisions: int
    starts_that_differ: int
    states_that_differ: int
    same_decisions: bool
    is_same: bool
    live_wall_s: float
    live_speed: float


def measure(case: Case, speed: float, folder: Path) -> Row:
    """Both runs, and what `emulator compare` says of them. Raises RuntimeError if one cannot be made."""
    virtual, live = str(folder / "virtual"), str(folder / "live")
    answer("run", *case.arguments, "--out", virtual, "--no-baseline", "--json", "--quiet")
    live_options = (*_LIVE, "--set", f"live.speed={speed:g}", "--out", live, "--no-baseline")
    summary = answer("run", *case.arguments, *live_options, "--json", "--quiet")
    found = answer("compare", virtual, live, "--same", "--json", good=(0, 1))
    return Row(
        mechanism=case.mechanism,
        about=case.about,
        command=case.command,
        nodes=summary["scenario"].get("nodes") or summary["nodes"],  # where jobs share nodes, these are cores
        jobs=found["jobs_in_both"],
        decisions=found["decisions_a"],
        starts_that_differ=found["starts_that_differ"],
        states_that_differ=found["states_that_differ"],
        same_decisions=found["same_decisions"],
        is_same=found["is_same"],
        live_wall_s=round(summary["pace"]["paced_s"], 1),
        live_speed=round(summary["pace"]["reached_speed"]),
    )


def answer(*arguments: str, good: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """What `emulator` printed as JSON. Raises RuntimeError at another status than these."""
    done = subprocess.run([*EMULATOR, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in good:
        shown = shlex.join(["emulator", *arguments])
        raise RuntimeError(f"{shown} ended with status {done.returncode}:\n{done.stderr}")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def told(row: Row) -> str:
    differs = "the same" if row.is_same else f"NOT THE SAME ({row.starts_that_differ} starts)"
    return (
        f"{row.mechanism:<22} {row.jobs:>4} jobs, {row.decisions:>3} decisions: {differs}; "
        f"{row.live_wall_s:.1f} s live, {row.live_speed:,.0f}x"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", choices=[case.mechanism for case in CASES], help="one of them")
    parser.add_argument("--speed", type=float, default=60_000.0, help="asked for (default: %(default)g)")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for case in CASES:
        if options.only in (None, case.mechanism):
            with tempfile.TemporaryDirectory(prefix="live-equals-virtual-") as folder:
                rows.append(measure(case, options.speed, Path(folder)))
            if not options.json:
                print(told(rows[-1]), flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    return int(not all(row.is_same for row in rows))


if __name__ == "__main__":
    sys.exit(main())
