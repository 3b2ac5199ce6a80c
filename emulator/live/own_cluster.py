"""A log on a real cluster that is already there: jobs are submitted at their times, and read back from its accounting.

All times are divided by a factor: jobs that sleep 60 times shorter, 60 times as close together, show what the cluster's
own scheduler does with the log in a sixtieth of its time.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US, SystemClock, seconds
from emulator.live.clock_cost import with_cost
from emulator.live.collect import BatchSide, collect, replayed
from emulator.live.replay_log import ReplayLog
from emulator.live.replayer import Replayer
from emulator.live.replayer_config import ReplayerConfig
from emulator.live.slurm.accounting import SACCT_FIELDS, nodes_named, read_jobs, read_sacct
from emulator.live.torque import accounting as pbs
from emulator.record.run_record import Mark
from emulator.runs.preparation import Prepared
from emulator.runs.runner import describe
from emulator.runs.scenario import Scenario, from_mapping
from emulator.text.file_errors import refusal
from emulator.workload import store
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emulator.live.replay_log import ReplayResult
    from emulator.record.run_record import RunRecord

ALIASES = {"slurm": "sbatch", "pbs": "qsub"}
_ABOUT = "replay.json"
_CANCEL = {"sbatch": "scancel", "qsub": "qdel"}
_AT_ONCE = 100
"""So many jobs are cancelled by one command."""
_WAITS = {"PENDING", "QUEUED"}


class OwnClusterError(ValueError):
    """What was asked for is not possible; the text says why."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A log that is submitted to a cluster. `submit`: the submitter, a plug-in; everything is written to `folder`."""

    folder: Path
    submit: str | dict[str, Any]
    compress: float

    @property
    def log(self) -> Path:
        return self.folder / "replay.jsonl"

    @property
    def workload(self) -> Path:
        return self.folder / "workload.npz"

    def prepare(self, scenario: Scenario, prepared: Prepared) -> Replayer:
        """Ready to `run`. Raises OwnClusterError, SettingsError and PluginError for what cannot be submitted."""
        if self.log.exists() or (self.folder / _ABOUT).exists():
            raise OwnClusterError(f"{self.folder} has a replay already; choose another --out")
        if scenario.workload.overrun == "run_on":
            raise OwnClusterError(
                "workload.overrun: a real cluster ends jobs at their limit, so none runs on: extend or kill"
            )
        batch = prepared.jobs.kind == Kind.BATCH
        if not batch.any():
            raise OwnClusterError("the workload has no batch jobs to submit")
        clock = SystemClock()
        origin_us = clock.now_us()
        config = ReplayerConfig(
            workload=self.workload, result=self.log, submit=self.submit, origin_s=seconds(origin_us)
        )
        config.submitter()  # a wrong parameter is an error before there is a folder
        self.folder.mkdir(parents=True, exist_ok=True)
        store.save(prepared.jobs.take(batch), self.workload)
        about = {
            "compress": self.compress, "origin_us": origin_us, "submit": self.submit, "nodes": prepared.nodes,
            "left_out": prepared.left_out | {"on-demand lease": int((~batch).sum())},
            "scenario": scenario.as_json() | {"live": {"pace": "free", "speed": self.compress}},
        }  # fmt: skip
        (self.folder / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
        return Replayer(
            config, compressed(prepared.jobs.take(batch), self.compress), clock, ReplayLog(self.log)
        )

    def result(self) -> ReplayResult:
        """What was submitted so far."""
        return replayed(self.log)

    def cancel_command(self) -> list[str]:
        """The command, to which identifiers are added. Raises OwnClusterError for a submitter that is not ours."""
        name = self.submit if isinstance(self.submit, str) else next(iter(self.submit))
        if name not in _CANCEL:
            raise OwnClusterError(f"how jobs of {name} are cancelled is not known here")
        command = (
            self.submit[name].get("command") if isinstance(self.submit, dict) and self.submit[name] else None
        )
        return [str(Path(command[-1]).with_name(_CANCEL[name])) if command else _CANCEL[name]]

    def cancel(self) -> int:
        """Cancel all that were submitted; how many. Raises OwnClusterError with what the command says."""
        ids, command = list(self.result().job_ids.values()), self.cancel_command()
        for first in range(0, len(ids), _AT_ONCE):
            _output([*command, *ids[first : first + _AT_ONCE]])
        return len(ids)


def compressed(jobs: JobTable, factor: float) -> JobTable:
    """The jobs with all times divided; nothing gets shorter than a second, or than it runs."""

    def divided(times_us: Any, least_us: int) -> Any:
        return np.maximum(np.rint(times_us / factor).astype(np.int64), least_us)

    run_us = divided(jobs.run_us, US)
    estimate_us = np.maximum(divided(jobs.estimate_us, US), run_us)
    return replace(jobs, submit_us=divided(jobs.submit_us, 0), run_us=run_us, estimate_us=estimate_us)


@dataclass(frozen=True, slots=True)
class _ReadBack:
    """`collect.Source`."""

    prepared: Prepared
    names: tuple[str, ...]
    marks: list[Mark]
    now_us: int
    replay_log: Path
    ledger: None = None


def read_back(accounting: str, folder: Path) -> tuple[Scenario, RunRecord]:
    """What became of a replay, in the log's own time. Raises OwnClusterError, AccountingError.

    `accounting`: `sacct` (ask it), a file with what sacct printed, Slurm's job log (jobcomp/filetxt), or the folder of
    PBS's accounting. Times without a zone are this machine's.
    """
    replay, about = _replay_in(folder)
    scenario = from_mapping(about["scenario"], str(folder / _ABOUT))
    prepared = Prepared(
        store.load(replay.workload), about["nodes"], {why: n for why, n in about["left_out"].items() if n}
    )
    result = replayed(replay.log)
    ids = {int(text.split(".", 1)[0]) for text in result.job_ids.values()}
    origin_s = about["origin_us"] // US
    names, found = _accounting(accounting, ids, origin_s)
    names += [f"unused-{number}" for number in range(len(names) + 1, prepared.nodes + 1)]
    rest_us = about["origin_us"] % US
    jobs = [_stretched(job, replay.compress, rest_us) for job in found]
    jobs += [
        {"number": job_id, "state": "QUEUED", "runs": []} for job_id in ids - {job["number"] for job in jobs}
    ]
    last_us = max((run["end_us"] for job in jobs for run in job["runs"]), default=0)
    marks = []
    if waiting := sum(job["state"] in {"QUEUED", "RUNNING"} for job in jobs):
        marks.append(Mark(last_us, f"{waiting} jobs were not over when the accounting was read"))
    source = _ReadBack(prepared, tuple(names), marks, last_us, replay.log)
    record = collect(source, BatchSide(jobs, [], refused={}), result.interrupted)
    pace = {"speed": replay.compress, "holds": 0, "held_us": 0, "longest_hold_us": 0, "dropped_processes": 0}
    record, cost = with_cost(record, prepared.jobs, pace, scenario.live.max_lag_s)
    return scenario, describe(record, scenario, prepared, pace=cost)


def _replay_in(folder: Path) -> tuple[Replay, dict[str, Any]]:
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        return Replay(folder, about["submit"], about["compress"]), about
    except (OSError, ValueError, KeyError) as error:
        raise OwnClusterError(
            f"{folder} is not the folder of a replay (`emulator replay --out`): {error}"
        ) from error


def _accounting(source: str, ids: set[int], origin_s: int) -> tuple[list[str], list[dict[str, Any]]]:
    """(nodes, jobs as `BatchSide` has them) of the jobs with these identifiers."""
    path = Path(source)
    if source == "sacct":
        lines = _ask_sacct(ids)
    elif path.is_dir():
        names = pbs.nodes_named(path)
        return names, [
            job for job in pbs.read_accounting(path, names, origin_s, None) if job["number"] in ids
        ]
    else:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise OwnClusterError(f"{source}: cannot be read: {refusal(error)}") from error
    if lines and lines[0].startswith("JobId="):
        lines = [line for line in lines if int(line.split(" ", 1)[0].removeprefix("JobId=")) in ids]
        names = nodes_named(lines)
        return names, read_jobs(lines, [], names, origin_s, zone=None)
    heading, rows = lines[:1], [line for line in lines[1:] if _raw_id(lines[0], line) in ids]
    names = nodes_named([*heading, *rows])
    return names, read_sacct([*heading, *rows], names, origin_s, None)


def _raw_id(heading: str, line: str) -> int:
    row = dict(zip(heading.split("|"), line.split("|"), strict=False))
    text = row.get("JobIDRaw", "")
    return int(text) if text.isdecimal() else -1


def _ask_sacct(ids: set[int]) -> list[str]:
    command = ["sacct", "-X", "-D", "--parsable2", "--noconvert", f"--format={','.join(SACCT_FIELDS)}"]
    return _output([*command, f"--jobs={','.join(map(str, sorted(ids)))}"]).splitlines()


def _output(command: Sequence[str]) -> str:
    """What a command of the cluster prints. Raises OwnClusterError, with what it says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise OwnClusterError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise OwnClusterError(f"{command[0]}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def _stretched(job: Mapping[str, Any], factor: float, rest_us: int) -> dict[str, Any]:
    """In the log's own time. The replay began `rest_us` after the whole second from which the accounting counts."""

    def stretch(at_us: int) -> int:
        return at_us if at_us < 0 else round(max(0, at_us - rest_us) * factor)

    runs = [
        run | {"start_us": stretch(run["start_us"]), "end_us": stretch(run["end_us"])} for run in job["runs"]
    ]
    return {**job, "submit_us": stretch(job["submit_us"]), "runs": runs}
