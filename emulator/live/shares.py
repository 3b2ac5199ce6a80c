"""What jobs that compute on shared processors really got, beside what the model gave them.

Each worker of such a job says every now and then how far it has come (`emulator/live/job/spin.py`). From that follow,
over the time in which all its workers were there, and for its slowest worker:

* the measured slow-down: that time over the time which the same rounds take a bare loop that is alone;
* the slow-down by shares: the time that all jobs got of its processor over what it got itself. Strangers who
  use the machine as well change the first, not this one.

The model's is the job's life over its run time: the inverse of its mean speed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.kernel.job_states import JobState
from emulator.live.job.spin import PROCESSORS_VARIABLE
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.config.run_parts import LivePart
    from emulator.machine.machine import HasSlots
    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

_CALIBRATION_S = 0.1
_CALIBRATIONS = 3
"""Of each processor: the best counts. Another hardware thread of its core makes it slower, nothing makes it faster."""
_OUTPUT = re.compile(r"j(\d+)\.o\d+")


class CalibrationError(RuntimeError):
    """The bare loop could not be run."""


def check_possible(live: LivePart, jobs: JobTable, machine: HasSlots | None) -> None:
    """Raise ScenarioError unless jobs can share processors of this machine as they do in the model."""
    where = "live.jobs: cpu-bound jobs"
    if machine is None:
        raise ScenarioError(f"{where} need a mechanism under which jobs share cores, such as oversubscribe")
    if live.pace == "held":
        raise ScenarioError(f"{where} take real time, so the clock cannot wait; set live.pace to free")
    processors = len(os.sched_getaffinity(0))
    if machine.core_count > processors:
        raise ScenarioError(
            f"{where} need a processor for each core: this machine has {processors}, the scenario {machine.core_count}"
            " (nodes times cores); take fewer, or jobs that sleep"
        )
    has_gpus = machine.core_of(machine.slots_per_node - 1) < 0
    if has_gpus or (jobs.column("active_us") > 0).any():
        raise ScenarioError(f"{where} compute on cores all the time: leave out GPUs and interactive phases")


@dataclass(frozen=True, slots=True)
class Track:
    """How far one worker had come: wall time, processor time (us) and rounds, one entry a line that it wrote."""

    processor: int
    wall_us: NDArray[np.float64]
    cpu_us: NDArray[np.float64]
    rounds: NDArray[np.float64]

    def used_us(self, begin_us: float, end_us: float) -> float:
        """Processor time between two moments; none before its first line and after its last."""
        first, last = np.interp((begin_us, end_us), self.wall_us, self.cpu_us)
        return float(last - first)

    def did(self, begin_us: float, end_us: float) -> float:
        """Rounds between two moments."""
        first, last = np.interp((begin_us, end_us), self.wall_us, self.rounds)
        return float(last - first)


@dataclass(frozen=True, slots=True)
class JobShare:
    """A job that ran to its end: its cores, how long it was measured (wall seconds), and its three slow-downs."""

    job: int
    cores: int
    measured_s: float
    model_slowdown: float
    measured_slowdown: float
    slowdown_by_shares: float


def tracks(lines: Iterable[str]) -> list[Track]:
    """The workers of one job, by its output. A last line that was cut off is left out."""
    found: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for line in lines:
        if line.endswith("}\n"):
            row = json.loads(line)
            found[row["processor"]].append((row["wall_us"], row["cpu_us"], row["rounds"]))
    return [Track(processor, *np.array(rows, float).T) for processor, rows in found.items()]


def read_tracks(folder: Path) -> dict[int, list[Track]]:
    """Job number -> its workers, of all jobs that wrote into this folder."""
    found = {}
    for path in sorted(folder.iterdir()):
        match = _OUTPUT.fullmatch(path.name)
        if match is not None:
            with path.open(encoding="utf-8") as output:
                found[int(match[1])] = tracks(output)
    return found


def calibrate() -> dict[int, float]:
    """Rounds of the bare loop in a microsecond of each processor's time. Raises CalibrationError."""
    command = [sys.executable, "-m", "emulator.live.job.spin", "--cpu", str(_CALIBRATION_S)]
    rates = {}
    for processor in sorted(os.sched_getaffinity(0)):
        environ = os.environ | {PROCESSORS_VARIABLE: str(processor)}
        rates[processor] = max(_bare_rate(command, environ, processor) for _ in range(_CALIBRATIONS))
    return rates


def _bare_rate(command: Sequence[str], environ: Mapping[str, str], processor: int) -> float:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    alone = tracks(done.stdout.splitlines(keepends=True))
    if done.returncode or not alone:
        raise CalibrationError(f"the bare loop failed on processor {processor}: {done.stderr.strip()}")
    return float(alone[0].rounds[-1] / (alone[0].cpu_us[-1] - alone[0].cpu_us[0]))


def measure(
    record: RunRecord, workers: Mapping[int, Sequence[Track]], rates: Mapping[int, float]
) -> list[JobShare]:
    """All jobs that ran to their end and were long enough to say something, in order of their numbers."""
    on_processor: dict[int, list[Track]] = defaultdict(list)
    for own_tracks in workers.values():
        for track in own_tracks:
            on_processor[track.processor].append(track)
    shares = []
    for row in np.flatnonzero(record.state == JobState.ENDED):
        number = int(record.jobs.number[row])
        own_tracks = workers.get(number, ())
        begin_us = max((track.wall_us[0] for track in own_tracks), default=0.0)
        end_us = min((track.wall_us[-1] for track in own_tracks), default=0.0)
        if end_us <= begin_us or any(not track.did(begin_us, end_us) for track in own_tracks):
            continue
        alone = [track.did(begin_us, end_us) / rates[track.processor] for track in own_tracks]
        by_shares = [
            sum(each.used_us(begin_us, end_us) for each in on_processor[track.processor])
            / track.used_us(begin_us, end_us)
            for track in own_tracks
        ]
        shares.append(
            JobShare(
                job=number,
                cores=len(own_tracks),
                measured_s=float(end_us - begin_us) / US,
                model_slowdown=int(record.end_us[row] - record.start_us[row]) / int(record.jobs.run_us[row]),
                measured_slowdown=float(end_us - begin_us) / min(alone),
                slowdown_by_shares=max(by_shares),
            )
        )
    return sorted(shares, key=lambda share: share.job)


def figures(shares: Sequence[JobShare]) -> dict[str, Any]:
    """For the summary: the means, and all jobs as JSON in `processor_shares`."""
    names = ("model_slowdown", "measured_slowdown", "slowdown_by_shares")
    means: dict[str, Any] = {
        f"mean_{name}": float(np.mean([getattr(share, name) for share in shares])) if shares else None
        for name in names
    }
    return means | {"processor_shares": json.dumps([asdict(share) for share in shares])}
