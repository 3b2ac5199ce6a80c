"""How far the twin is from the real Slurm: the same jobs, as Slurm got them, in both (`docs/slurm-twin.md`)."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from balancer.clock import US, seconds
from emulator.cluster.slurm_scheduler import Slurm
from emulator.events.external_events import ExternalEvents
from emulator.live.slurm.core_record import count_nodes, in_nodes
from emulator.live.slurm.database import ACCOUNT, ASSOCIATIONS
from emulator.machine.machine import HasOutages
from emulator.plugins import named
from emulator.runs.scenario import from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.releases import followed
from emulator.simulation.loop import Loop
from emulator.simulation.run import make_cluster, simulate
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emulator.record.run_record import RunRecord
    from emulator.workload.table import JobTable

_NEVER_KILLED = 1 << 30
_EXTRA_SETTINGS = (
    "qos", "queue_qos", "user_qos", "cpus_per_node", "shares", "reservations", "select", "features",
    "constraint_names", "queue_constraint", "user_constraint",
)  # fmt: skip
"""What Slurm keeps in its database or state, and a scenario says under `scheduler: {slurm: ...}`."""
_LEAST_HANDOVERS = 5
_PHASES = 6
"""So many ways are tried how its cycles and its blocks of time may have lain to the run's clock."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A job that starts more than one `bf_interval` apart. `follows`: the job before it that does so and may be why."""

    job: int
    nodes: int
    submit_s: float
    real_s: float
    twin_s: float
    follows: int | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Real Slurm and twin on the same jobs; waits and differences in seconds, `mean_wait_off` a fraction.

    `twin_least_mean_wait_s`, `twin_most_mean_wait_s`: of the twin where its first backfill cycle after a pause comes
    some seconds later, and its minutes begin elsewhere. When Slurm's did no log tells, and a job that misses one by a
    second may wait for hours: what is within is chance.

    `release_s` and `release_s_per_node`: how long after its end a job's nodes were taken on Slurm still, by the
    `handovers` jobs that start in the twin as another ends: what its daemons need on this machine, times the speed. In
    the twin jobs keep their nodes for as long. `at_once_...`: the same where they do not.
    """

    jobs: int
    real_mean_wait_s: float
    twin_mean_wait_s: float
    twin_least_mean_wait_s: float
    twin_most_mean_wait_s: float
    mean_wait_off: float
    median_start_off_s: float
    bf_interval_s: int
    handovers: int
    release_s: float
    release_s_per_node: float
    at_once_mean_wait_off: float
    at_once_median_start_off_s: float
    differences: tuple[Difference, ...]


def settings_of(record: RunRecord) -> dict[str, Any]:
    """The twin's settings for a live run on Slurm, by its scenario. Raises ValueError."""
    slurm = _of_slurm(record)
    if record.scenario.get("mechanism") is not None:
        raise ValueError("a mechanism moved nodes or jobs in this run: leave it out to calibrate")
    if record.interrupted or np.any(record.start_us < 0):
        raise ValueError("some jobs of this run never started: let it run to its end")
    scheduler = record.scenario.get("scheduler")
    beside = (scheduler.get("slurm") or {}) if isinstance(scheduler, dict) else {}
    found: dict[str, Any] = {name: beside[name] for name in _EXTRA_SETTINGS if name in beside}
    found |= {"queues": slurm["partitions"]} if slurm.get("partitions") else {}
    if slurm.get("accounting") != "slurmdbd":  # then Slurm works a priority out once
        found |= {"priority_weight_age": 0, "priority_weight_fairshare": 0}
    return found | ({"conf": Path(slurm["conf"])} if slurm.get("conf") else {})


def _of_slurm(record: RunRecord) -> dict[str, Any]:
    """What the scenario of a live run says of Slurm. Raises ValueError."""
    live = record.scenario.get("live", {})
    slurm = named(live.get("batch") if isinstance(live, dict) else None, "slurm")
    if record.clock != "live" or slurm is None:
        raise ValueError("this is no run on the real Slurm: use --clock live and live.batch: slurm")
    return slurm


def version_of(folder: Path) -> str | None:
    """What slurmctld called itself in a live run with these results (`24.11.5`); None if no log has it."""
    log = folder / "logs" / "slurmctld-log.txt"
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    match = re.search(r"slurmctld version (\d+\.\d+\S*) started", text)
    return None if match is None else match[1]


def begun_s(folder: Path, record: RunRecord) -> int:
    """When slurmctld began in the time of a live run (before 0), by its log and what sacct printed; 0 if unknown.

    From then on it works out priorities.
    """
    log, told = folder / "logs" / "slurmctld-log.txt", folder / "logs" / "sacct.txt"
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    match = re.search(r"^\[(\S+)\] slurmctld version \S+ started", text, re.MULTILINE)
    if match is None or not told.is_file():
        return 0
    lines = csv.DictReader(told.read_text(encoding="utf-8").splitlines(), delimiter="|")
    submits = [datetime.fromisoformat(line["Submit"]) for line in lines]
    of_first = datetime.fromisoformat(match[1]) - min(submits)
    return round(of_first.total_seconds() + seconds(int(record.jobs.submit_us.min())))


def settings_in_logs(folder: Path) -> dict[str, Any]:
    """The twin's `release` and `message_timeout` for results of a live run; nothing if no log has them."""
    version, patience = version_of(folder), _in_conf(folder, "MessageTimeout")
    found: dict[str, Any] = {} if version is None else {"release": followed(version)}
    return found | ({"message_timeout": int(patience)} if patience else {})


def _in_conf(folder: Path, key: str) -> str:
    """What the slurm.conf of a live run says; '' if nothing."""
    conf = folder / "logs" / "slurm.conf"
    lines = conf.read_text(encoding="utf-8").splitlines() if conf.is_file() else []
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{key}=")), "")


def shares_in_logs(folder: Path, record: RunRecord) -> dict[str, Any]:
    """The twin's `associations`, and who is whose, for a live run whose priorities have fair shares; else nothing.

    A job's account is by its user.
    """
    path, me = folder / "logs" / ASSOCIATIONS, _in_conf(folder, "SlurmUser")
    twin = SchedulerConfig(decide={"slurm": settings_of(record)}).make_machine()
    assert isinstance(twin, Slurm)  # noqa: S101 - by its name
    if not path.is_file() or not twin.rules(count_nodes(record.node_names)).priority_weight_fairshare:
        return {}
    live = _of_slurm(record)
    users, accounts = (
        {int(number): name for number, name in live.get(key, {}).items()} for key in ("users", "accounts")
    )
    numbers = np.unique(record.jobs.user).tolist()
    return {
        "associations": path,
        "users": {number: users.get(number, me) for number in numbers},
        "accounts": {number: accounts.get(number, ACCOUNT) for number in numbers},
    }


def run_of(record: RunRecord, folder: Path) -> dict[str, Any]:
    """Which run this was: what figures of it are kept under."""
    return {
        "scenario": record.scenario.get("name"),
        "nodes": count_nodes(record.node_names),
        "speed": record.pace.get("speed"),
        "slurm": version_of(folder),
    }


def calibrate_results(folder: Path, record: RunRecord) -> Calibration:
    """As `calibrate`, with what the logs of the run say beside its scenario. Raises ValueError."""
    told = {**settings_in_logs(folder), **shares_in_logs(folder, record)}
    return calibrate(record, begun_s(folder, record), **told)


def calibrate(record: RunRecord, begun_s: int = 0, **changes: Any) -> Calibration:
    """Run the jobs of a live run in the twin: submitted when Slurm got them, as long as they had their nodes.

    So what processes cost on a fast clock is no difference: that they are gone later than a job ends is measured in the
    run itself (`release_s`). `begun_s`: when slurmctld began, in the run's time. `changes`: other settings of the twin.
    Raises ValueError.
    """
    slurm = {**settings_of(record), "over_time_limit": _NEVER_KILLED, **changes}
    batch = np.flatnonzero(record.jobs.kind == Kind.BATCH)
    jobs, real_us = in_nodes(record.jobs.take(batch)), record.start_us[batch]
    jobs = replace(jobs, group=jobs.user) if "accounts" in slurm else jobs
    submit_us = jobs.submit_us // US * US
    run_us = np.maximum(record.end_us[batch] - real_us, 1)
    node_count = count_nodes(record.node_names)
    twin = SchedulerConfig(decide={"slurm": slurm}).make_machine()
    assert isinstance(twin, Slurm)  # noqa: S101 - by its name
    rules = twin.rules(node_count)
    every_s = rules.bf_interval
    # Advance reservations and outages are told in the run's own time, which then cannot be moved.
    is_bound = bool(rules.reservations or has_outages(record))
    first_us = 0
    # The twin works priorities out at multiples of the period: all is as much later as slurmctld began before one.
    if rules.changes_priorities and not is_bound:
        first_us = -begun_s % rules.priority_calc_period * US
        is_bound = True

    def starts_us(
        run_us: NDArray[np.int64], later_us: int = 0, quiet_s: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends in the twin if everything happened so much later, told as if it had not.

        `quiet_s`: so long after a change the first cycle comes where there was none for a while.
        """
        later_us += first_us
        table = replace(jobs, submit_us=submit_us + later_us, run_us=run_us)
        table = table.take(np.lexsort((table.number, table.submit_us)))
        settings = {"bf_after_quiet": quiet_s, **slurm}
        twin = _run(table, node_count, SchedulerConfig(decide={"slurm": settings}), record)
        place = {int(number): row for row, number in enumerate(twin.jobs.number)}
        rows = [place[int(number)] for number in jobs.number]
        return twin.start_us[rows] - later_us, twin.end_us[rows] - later_us

    at_once_us, twin_end_us = starts_us(run_us)
    real_end_us = record.end_us[batch]
    release = _release(jobs.nodes, at_once_us, twin_end_us, real_us, real_end_us, every_s * US)
    run_us += ((release.fixed_s + release.per_node_s * jobs.nodes) * US).astype(np.int64)
    twin_us, twin_end_us = starts_us(run_us)
    phases = [twin_us]
    for number in range(1, _PHASES if rules.backfills else 1):
        later_s = 0 if is_bound else rules.bf_resolution * number // _PHASES
        phases.append(starts_us(run_us, later_s * US, every_s * number // _PHASES)[0])
    means_s = [seconds(int((each - submit_us).mean())) for each in phases]
    real_s = seconds(int((real_us - submit_us).mean()))
    apart = np.abs(twin_us - real_us) > max(every_s, 0) * US
    ends_us = np.maximum(real_end_us, twin_end_us)

    def off(twin_s: float) -> float:
        return twin_s / real_s - 1 if real_s else float(twin_s > 0)

    return Calibration(
        jobs=len(jobs),
        real_mean_wait_s=real_s,
        twin_mean_wait_s=means_s[0],
        twin_least_mean_wait_s=min(means_s),
        twin_most_mean_wait_s=max(means_s),
        mean_wait_off=off(means_s[0]),
        median_start_off_s=float(np.median(np.abs(twin_us - real_us))) / US,
        bf_interval_s=every_s,
        handovers=release.handovers,
        release_s=release.fixed_s,
        release_s_per_node=release.per_node_s,
        at_once_mean_wait_off=off(seconds(int((at_once_us - submit_us).mean()))),
        at_once_median_start_off_s=float(np.median(np.abs(at_once_us - real_us))) / US,
        differences=_differences(jobs, submit_us, real_us, twin_us, ends_us, apart),
    )


class _Release(NamedTuple):
    """How long after their end jobs kept their nodes, by so many starts."""

    handovers: int
    fixed_s: float = 0.0
    per_node_s: float = 0.0


def _release(  # noqa: PLR0917 - one column each
    nodes: NDArray[np.int32],
    twin_us: NDArray[np.int64],
    twin_end_us: NDArray[np.int64],
    real_us: NDArray[np.int64],
    real_end_us: NDArray[np.int64],
    most_us: int,
) -> _Release:
    """A line through how much later than the twin Slurm started those that the twin starts as another ends.

    The other is the last that ended in the twin, less than a second before; of those that follow the same one the first
    counts. Who is later than `most_us` waited for a cycle. The line is that of Theil and Sen: the median of all
    slopes, then of what is left. None of fewer than five.
    """
    order = np.argsort(twin_end_us, kind="stable")
    place = np.searchsorted(twin_end_us[order], twin_us, side="right") - 1
    before = order[np.maximum(place, 0)]
    twin_gap_us, real_gap_us = twin_us - twin_end_us[before], real_us - real_end_us[before]
    is_one = (place >= 0) & (twin_gap_us < US) & (real_gap_us >= 0) & (real_gap_us <= most_us)
    ended, all_late_s = before[is_one], (real_gap_us - twin_gap_us)[is_one] / US
    ends = np.unique(ended)
    width, late_s = nodes[ends], np.array([all_late_s[ended == each].min() for each in ends])
    if len(late_s) < _LEAST_HANDOVERS:
        return _Release(len(late_s))
    first, second = np.triu_indices(len(width), 1)
    wider = width[second] - width[first]
    slopes = (late_s[second] - late_s[first])[wider != 0] / wider[wider != 0]
    per_node_s = max(float(np.median(slopes)), 0.0) if len(slopes) else 0.0
    fixed_s = max(float(np.median(late_s - per_node_s * width)), 0.0)
    return _Release(len(late_s), fixed_s, per_node_s)


def has_outages(record: RunRecord) -> bool:
    """Whether nodes failed or were maintained as the run's scenario says."""
    return bool(record.scenario.get("failures") or record.scenario.get("maintenance"))


def _run(jobs: JobTable, nodes: int, scheduler: SchedulerConfig, record: RunRecord) -> RunRecord:
    """These jobs in the twin, on nodes that go and come back as those of the run did."""
    if not has_outages(record):
        return simulate(jobs, nodes, scheduler)
    from emulator.runs.scenario_events import outages_of  # noqa: PLC0415 - it imports all that can be run

    machine = make_cluster(nodes, scheduler, jobs)
    assert isinstance(machine.rules, HasOutages)  # noqa: S101 - the twin
    requeues = machine.rules.expect_outages()
    outages = outages_of(from_mapping(record.scenario), nodes, requeues=requeues)
    loop = Loop(machine, external_events=ExternalEvents(None, outages))
    loop.run()
    return loop.record()


def _differences(  # noqa: PLR0917 - one column each
    jobs: JobTable,
    submit_us: NDArray[np.int64],
    real_us: NDArray[np.int64],
    twin_us: NDArray[np.int64],
    ends_us: NDArray[np.int64],
    apart: NDArray[np.bool_],
) -> tuple[Difference, ...]:
    """Those that are apart, the earliest first, each with the last one before it that still waited or ran."""
    first_us = np.minimum(real_us, twin_us)
    order = [int(row) for row in np.argsort(first_us, kind="stable") if apart[row]]
    found: list[Difference] = []
    for place, row in enumerate(order):
        before = [other for other in order[:place] if ends_us[other] >= first_us[row]]
        found.append(
            Difference(
                job=int(jobs.number[row]),
                nodes=int(jobs.nodes[row]),
                submit_s=seconds(int(submit_us[row])),
                real_s=seconds(int(real_us[row])),
                twin_s=seconds(int(twin_us[row])),
                follows=int(jobs.number[before[-1]]) if before else None,
            )
        )
    return tuple(found)
