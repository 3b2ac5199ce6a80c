"""Which rule of scheduling explains another program's schedule: the same jobs again by each, start by start."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.report.files import ResultsError
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.like import PEERS
from emulator.simulation.run import simulate
from emulator.text.number_text import grouped, percent
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.table import Table

    from emulator.record.run_record import RunRecord
    from emulator.report.theirs import TheirJob
    from emulator.workload.table import JobTable

Change = dict[str, Any]

_SWITCHES: tuple[Change, ...] = (
    {"pass": "event"},
    {"pass": "event", "exact_ends_first": True},
    {"pass": "event", "submits_first": True},
    {"pass": "event", "ends_in_order_of": "start"},
    {"estimates": "actual_for_queued"},
    {"reservation": "kept"},
    {"spare_nodes": False},
    {"protect_head": False},
    {"end_at_shadow": False},
    {"reservation": "kept", "head_waits": True},
    {"choice": "best_fit"},
    {"choice": "shortest_first"},
    {"backfill": "none"},
    {"backfill": "conservative"},
    {"order": "sjf"},
    {"order": "ljf"},
    {"order": "smallest"},
    {"order": "largest"},
)
_NOT_PLAIN = (
    "mechanism", "limits", "qos", "reservations", "partitions", "features", "shared_nodes", "placement", "moldable",
    "failures", "maintenance", "energy",
)  # fmt: skip
_MOST_STEPS = 3


@dataclass(frozen=True, slots=True)
class Tried:
    """Rules, how many starts are theirs (less than a second apart), and how far apart starts are on average."""

    rules: str
    equal: int
    mean_apart_s: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """`ours`: the run as it was; `tried`: rules by how many of `compared` starts they bring to theirs, most first."""

    compared: int
    only_ours: int
    only_theirs: int
    ours: Tried
    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried:
        """What explains most; ours, if nothing explains more."""
        return max((self.ours, *self.tried), key=lambda trial: trial.equal)

    @property
    def is_same(self) -> bool:
        return self.ours.equal == self.compared and not self.only_ours and not self.only_theirs

    @property
    def sentence(self) -> str:
        best = self.best
        share = f"{grouped(best.equal)} of {grouped(self.compared)} starts"
        if best is self.ours:
            return f"no rule tried explains more than ours does: {share} equal"
        differ = self.compared - self.ours.equal
        part = (best.equal - self.ours.equal) / differ
        share_of = "all" if part == 1 else f"{percent(part)} of the"
        return f"{best.rules} explains {share_of} {grouped(differ)} differences: {share} equal"

    def to_json(self) -> dict[str, Any]:
        """In JSON's types."""
        return {"is_same": self.is_same, "best": self.best.rules, **dataclasses.asdict(self)}


def explain(record: RunRecord, their_jobs: dict[int, TheirJob]) -> Explanation:
    """Run the record's jobs by other rules and see which comes closest to theirs. Raises ResultsError.

    First each switch alone and each bundle of `like`, on top of the record's own scheduler and of the textbook; then
    switches are added to the best of them as long as that brings more starts to theirs.
    """
    jobs, config = _plain(record)
    ours = {int(number): row for row, number in enumerate(jobs.number)}
    says_starts = any(job.start_s is not None for job in their_jobs.values())
    both = [n for n, job in their_jobs.items() if n in ours and (job.start_s is not None or not says_starts)]
    if not both:
        raise ResultsError("none of their job numbers is one of ours; give both programs the same jobs")
    rows = np.array([ours[number] for number in both])
    starts_us = _their_starts_us(jobs, rows, [their_jobs[number] for number in both])

    def tried(rules: str, found_us: NDArray[np.int64]) -> Tried:
        apart_us = np.abs(found_us[rows] - starts_us)
        apart_us = apart_us[found_us[rows] >= 0]
        equal = int((apart_us < US).sum())
        return Tried(rules, equal, float(apart_us.mean()) / US if len(apart_us) else 0.0)

    run = _runner(jobs, len(record.node_names))
    found: dict[str, tuple[Tried, SchedulerConfig]] = {}
    for rules, other in _candidates(config):
        found[rules] = tried(rules, run(other)), other
    _add_switches(found, lambda rules, other: tried(rules, run(other)))
    return Explanation(
        compared=len(both),
        only_ours=len(jobs) - len(both),
        only_theirs=len(their_jobs) - len(both),
        ours=tried("ours", record.start_us[record.jobs.kind == Kind.BATCH]),
        tried=tuple(sorted((trial for trial, _ in found.values()), key=lambda trial: -trial.equal)),
    )


def _plain(record: RunRecord) -> tuple[JobTable, SchedulerConfig]:
    """The jobs and the scheduler of a run that rules alone decided. Raises ResultsError."""
    scenario = record.scenario
    used = [key for key in _NOT_PLAIN if scenario.get(key)]
    if any(name.startswith("after_") or name == "array" for name in record.jobs.extra):
        used.append("rules of jobs")
    if used:
        raise ResultsError(f"rules are tried on plain runs; this one has {', '.join(used)}")
    scheduler: Any = scenario.get("scheduler", "fcfs+easy")
    try:
        config = (
            SchedulerConfig.parse(scheduler)
            if isinstance(scheduler, str)
            else SchedulerConfig.from_mapping(scheduler)
        )
    except ValueError as error:
        raise ResultsError(f"its scheduler is not known here: {error}") from error
    return record.jobs.take(record.jobs.kind == Kind.BATCH), config


def _their_starts_us(jobs: JobTable, rows: NDArray[np.intp], their_jobs: list[TheirJob]) -> NDArray[np.int64]:
    """Their starts on our clock: by waits where they say no start, else shifted as their submits are from ours."""
    submit_us = jobs.submit_us[rows]
    if their_jobs[0].start_s is None:
        return np.asarray(
            submit_us
            + np.rint(np.array([job.wait_s for job in their_jobs], np.float64) * US).astype(np.int64)
        )
    starts_us = np.rint(np.array([job.start_s for job in their_jobs], np.float64) * US).astype(np.int64)
    known = [k for k, job in enumerate(their_jobs) if job.submit_s is not None]
    if known:
        their_submit_us = np.rint(np.array([their_jobs[k].submit_s for k in known], np.float64) * US).astype(
            np.int64
        )
        shifts, count = np.unique(their_submit_us - submit_us[known], return_counts=True)
        starts_us -= shifts[count.argmax()]
    return starts_us


def _runner(jobs: JobTable, nodes: int) -> Any:
    def run(config: SchedulerConfig) -> NDArray[np.int64]:
        return simulate(jobs, nodes, config).start_us

    return run


def _candidates(config: SchedulerConfig) -> Iterator[tuple[str, SchedulerConfig]]:
    order = {"order": config.order}
    yield "the textbook's rules", SchedulerConfig(order=config.order)
    for name in PEERS:
        yield f"like: {name}", SchedulerConfig.from_mapping({"like": name, **order})
    for change in _SWITCHES:
        other = _with(config, change)
        if other is not None and other != config:
            yield _name(change), other


def _with(config: SchedulerConfig, change: Change) -> SchedulerConfig | None:
    """The scheduler with a change; None where they do not go together."""
    fields = {("pass_" if key == "pass" else key): value for key, value in change.items()}
    try:
        return dataclasses.replace(config, **fields)
    except ValueError:
        return None


def _name(change: Change) -> str:
    return ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in change.items()
    )


def _add_switches(found: dict[str, tuple[Tried, SchedulerConfig]], try_it: Any) -> None:
    """Add switches to the best, one by one, as long as each brings more starts to theirs."""
    for _ in range(_MOST_STEPS):
        rules = max(found, key=lambda name: found[name][0].equal)
        best, config = found[rules]
        better: tuple[Tried, SchedulerConfig] | None = None
        for change in _SWITCHES:
            other = _with(config, change)
            if other is None or other == config:
                continue
            trial = try_it(f"{rules}, {_name(change)}", other)
            if trial.equal > (better[0] if better else best).equal:
                better = trial, other
        if better is None:
            return
        found[better[0].rules] = better


def render(found: Explanation, *, name: str = "theirs") -> Table:
    """For the console, best first."""
    from rich.table import Table  # noqa: PLC0415 - slow to load; most runs and pages need none

    table = Table(title=f"{name}: {found.sentence}", title_justify="left", box=None)
    table.add_column("rules")
    for column in ("starts equal", "of", "mean s apart"):
        table.add_column(column, justify="right")
    for trial in (found.ours, *found.tried):
        table.add_row(
            trial.rules, grouped(trial.equal), grouped(found.compared), grouped(trial.mean_apart_s, 1)
        )
    if found.only_ours or found.only_theirs:
        table.caption = (
            f"jobs in one of both only: {grouped(found.only_ours)} ours, {grouped(found.only_theirs)} theirs"
        )
    return table
