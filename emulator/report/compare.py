"""Two runs of one workload side by side, job by job: live against virtual, or mechanism against mechanism."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.metrics import jobs as job_figures
from emulator.metrics.energy import energy_of
from emulator.metrics.intervals import MeanChange, mean_change
from emulator.metrics.runs import last_run_of_job
from emulator.record.lease_table import LeaseTable
from emulator.report import changes
from emulator.report.changes import RunFigures
from emulator.report.pairs import Pairs
from emulator.text.number_text import duration, number

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Group
    from rich.table import Table

    from emulator.record.run_record import RunRecord

_MOST_LISTED = 10
_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class StartDifference:
    """A job that started at another time; None: it did not start in that run."""

    job: int
    start_a_s: float | None
    start_b_s: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two runs differ. Jobs are matched by number; differences are b - a, figures in seconds.

    `started_in_both` is what the start differences are over; `started_in_one` counts jobs that started in one
    run only. `decision_difference` says in words where the sequence of grants and rejections parts, empty if
    it does not. `largest` lists the jobs whose starts differ most, those that started in one run only first.
    """

    jobs_in_both: int
    jobs_only_in_a: int
    jobs_only_in_b: int
    started_in_both: int
    started_in_one: int
    starts_that_differ: int
    max_start_difference_s: float
    mean_start_difference_s: float
    max_end_difference_s: float
    states_that_differ: int
    decisions_a: int
    decisions_b: int
    same_decisions: bool
    decision_difference: str
    mean_wait_a_s: float | None
    mean_wait_b_s: float | None
    mean_wait_difference_percent: float | None
    largest: tuple[StartDifference, ...]
    mean_wait_change_s: MeanChange | None = None
    """Of the batch jobs that ran in both, job by job, with an interval."""
    energy_a_kwh: float | None = None
    """Of the whole machine, where the scenario has powers."""
    energy_b_kwh: float | None = None
    figures_a: RunFigures | None = None
    figures_b: RunFigures | None = None
    workload_difference: str = ""
    """How the workloads differ, in words; empty if both runs had the same jobs and requests."""

    @property
    def headline(self) -> list[str]:
        """What changed from a to b, each in a few words."""
        if self.figures_a is None or self.figures_b is None:
            return []
        return changes.headline(self.figures_a, self.figures_b)

    @property
    def is_same(self) -> bool:
        """Same jobs, states, starts, ends and decisions, to the microsecond."""
        return self.same_decisions and not (
            self.jobs_only_in_a
            or self.jobs_only_in_b
            or self.started_in_one
            or self.starts_that_differ
            or self.states_that_differ
            or self.max_end_difference_s
        )

    def to_json(self) -> dict[str, Any]:
        """The comparison in JSON's types."""
        found = asdict(self)
        if self.energy_a_kwh is None and self.energy_b_kwh is None:
            del found["energy_a_kwh"], found["energy_b_kwh"]
        same_workload = not self.workload_difference
        return {"is_same": self.is_same, "same_workload": same_workload, "changes": self.headline, **found}

    def _repr_html_(self) -> str:
        from emulator.report.summary_text import html_table  # noqa: PLC0415 - for notebooks only

        return html_table("; ".join(title_lines(self)), [("", "a", "b", "change"), *table_rows(self)])


def compare(a: RunRecord, b: RunRecord) -> Comparison:
    """Compare two records job by job and decision by decision.

    A job's start is that of its last run. "The same decisions" are the same grants and rejections of the same
    requests in the same order, whatever their times. A mean wait of 0 in `a` has no difference in percent.
    """
    both, rows_a, rows_b = np.intersect1d(a.jobs.number, b.jobs.number, return_indices=True)
    start_a, end_a = (times[rows_a] for times in _last_run(a))
    start_b, end_b = (times[rows_b] for times in _last_run(b))
    started = (start_a >= 0) & (start_b >= 0)
    in_one = (start_a >= 0) != (start_b >= 0)
    ended = (end_a >= 0) & (end_b >= 0)
    start_apart = np.abs(start_b - start_a)[started]
    end_apart = np.abs(end_b - end_a)[ended]
    wait_a, wait_b = _mean_wait_s(a), _mean_wait_s(b)
    difference = _decision_difference(a, b)
    return Comparison(
        jobs_in_both=len(both),
        jobs_only_in_a=len(a.jobs) - len(both),
        jobs_only_in_b=len(b.jobs) - len(both),
        started_in_both=int(started.sum()),
        started_in_one=int(in_one.sum()),
        starts_that_differ=int((start_apart > 0).sum()),
        max_start_difference_s=int(start_apart.max(initial=0)) / US,
        mean_start_difference_s=float(start_apart.mean()) / US if len(start_apart) else 0.0,
        max_end_difference_s=int(end_apart.max(initial=0)) / US,
        states_that_differ=int((a.state[rows_a] != b.state[rows_b]).sum()),
        decisions_a=len(a.leases),
        decisions_b=len(b.leases),
        same_decisions=not difference,
        decision_difference=difference,
        mean_wait_a_s=wait_a,
        mean_wait_b_s=wait_b,
        mean_wait_difference_percent=100 * (wait_b - wait_a) / wait_a
        if wait_a and wait_b is not None
        else None,
        largest=_largest(both, start_a, start_b),
        mean_wait_change_s=_wait_change(a, b),
        energy_a_kwh=_energy_kwh(a),
        energy_b_kwh=_energy_kwh(b),
        figures_a=RunFigures.of(a),
        figures_b=RunFigures.of(b),
        workload_difference=changes.workload_difference(a, b),
    )


def _last_run(record: RunRecord) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of each job's last run, -1 where there is none."""
    last = last_run_of_job(record)
    start_us, end_us = record.start_us.copy(), record.end_us.copy()
    ran = last >= 0
    start_us[ran], end_us[ran] = record.runs.start_us[last[ran]], record.runs.end_us[last[ran]]
    return start_us, end_us


def _mean_wait_s(record: RunRecord) -> float | None:
    rows = job_figures.batch_jobs_run(record)
    return job_figures.mean_s(job_figures.wait_us(record.jobs.submit_us[rows], record.start_us[rows]))


def _energy_kwh(record: RunRecord) -> float | None:
    energy = energy_of(record)
    return None if energy is None else energy.total_j / _J_PER_KWH


def _wait_change(a: RunRecord, b: RunRecord) -> MeanChange | None:
    pairs = Pairs.of(a, b)
    waits = [job_figures.wait_us(pairs.submit_us[run], pairs.start_us[run]) / US for run in (0, 1)]
    return mean_change(waits[1] - waits[0], pairs.submit_us[0], "compare.bootstrap")


def _decisions(record: RunRecord) -> list[tuple[int, bool]]:
    leases = LeaseTable.of(record.leases)
    return list(zip(record.jobs.number[leases.job].tolist(), leases.granted.tolist(), strict=True))


def _decision_difference(a: RunRecord, b: RunRecord) -> str:
    decisions_a, decisions_b = _decisions(a), _decisions(b)
    for place, (decision, other_decision) in enumerate(zip(decisions_a, decisions_b, strict=False), 1):
        if decision != other_decision:
            other = "the other run"
            return f"decision {place}: {_in_words(*decision)} in the baseline, {_in_words(*other_decision)} in {other}"
    if len(decisions_a) != len(decisions_b):
        counts = len(decisions_a), len(decisions_b)
        return f"{counts[0]} decisions in the baseline, {counts[1]} in the other run; the first ones agree"
    return ""


def _in_words(job: int, granted: bool) -> str:
    return f"request {job} {'granted' if granted else 'rejected'}"


def _largest(
    number: NDArray[np.int64], start_a: NDArray[np.int64], start_b: NDArray[np.int64]
) -> tuple[StartDifference, ...]:
    apart = np.abs(start_b - start_a)
    apart[(start_a >= 0) != (start_b >= 0)] = np.iinfo(np.int64).max
    order = np.argsort(-apart, kind="stable")[:_MOST_LISTED]
    return tuple(
        StartDifference(int(number[row]), _start_s(start_a[row]), _start_s(start_b[row]))
        for row in order
        if apart[row] > 0
    )


def _start_s(start_us: np.int64) -> float | None:
    return None if start_us < 0 else int(start_us) / US


def table_rows(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """Figures, then job-level sameness: what it is, in a, in b, and the change. Texts for people."""
    return [*figure_rows(comparison), *same_rows(comparison)]


def figure_rows(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """The figures of both runs and what changed."""
    found = comparison
    if found.figures_a is None or found.figures_b is None:
        return []
    rows = changes.figure_rows(found.figures_a, found.figures_b)
    if found.energy_a_kwh is not None or found.energy_b_kwh is not None:
        rows.append(
            (
                "energy, kWh",
                number(found.energy_a_kwh),
                number(found.energy_b_kwh),
                changes.percent_change(found.energy_a_kwh, found.energy_b_kwh),
            )
        )
    return rows


def same_rows(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """How far both runs are the same, job by job and decision by decision."""
    found = comparison
    apart = f"{number(found.starts_that_differ)} of {number(found.started_in_both)}"
    decisions = number(found.decisions_a), number(found.decisions_b)
    rows = [
        ("decisions", *decisions, "same, same order" if found.same_decisions else "not the same"),
        ("jobs in one run only", number(found.jobs_only_in_a), number(found.jobs_only_in_b), ""),
    ]
    rows += [
        (name, "", "", text)
        for name, text in (
            ("jobs compared", number(found.jobs_in_both)),
            ("started in one run only", number(found.started_in_one)),
            ("other final state", number(found.states_that_differ)),
            ("started at another time", apart),
            ("largest start difference", duration(found.max_start_difference_s)),
            ("mean start difference", duration(found.mean_start_difference_s)),
            ("largest end difference", duration(found.max_end_difference_s)),
        )
    ]
    return rows + [
        (f"start of job {row.job}", duration(row.start_a_s), duration(row.start_b_s), "")
        for row in found.largest
    ]


def title_lines(comparison: Comparison) -> list[str]:
    """What changed, then whether the workloads are the same, in lines of at most 80 columns."""
    found = comparison
    if found.workload_difference:
        return [
            "Warning: the workloads differ, so that the figures say nothing of the settings:",
            f"{found.workload_difference}.",
            *changes.lines(found.headline),
        ]
    workload = f"Same workload: {number(found.jobs_in_both)} jobs and requests."
    if found.is_same:
        return ["Same run: all starts, ends and decisions are equal.", workload]
    return [*changes.lines(found.headline), workload]


def interval_line(change: MeanChange | None) -> str:
    """How sure the change of the wait of the jobs that ran in both is, or why that cannot be said."""
    if change is None:
        return "No interval: no batch job ran to its end in both runs."
    count = f"{number(change.blocks)} {change.unit if change.blocks > 1 else change.unit.removesuffix('s')}"
    if change.low is None or change.high is None:
        count = count.replace("1 ", "one ") if change.blocks == 1 else count
        return f"No interval: {count} of jobs; `sweep` gives one."
    return f"Wait, 95 % interval over {count}: {_signed(change.low)} to {_signed(change.high)}."


def _signed(time_s: float) -> str:
    return f"{'+' if time_s > 0 else ''}{duration(time_s)}"


def table(comparison: Comparison, *, name_a: str = "a", name_b: str = "b", same: bool = False) -> Table:
    """The figures of both runs for the console; with `same` how far both runs are the same, job by job."""
    from rich.table import Table  # noqa: PLC0415 - slow to load; most runs and pages need none

    found = Table(box=None, pad_edge=False)
    found.add_column("", no_wrap=True)
    for name in (_short(name_a), _short(name_b), "change"):
        found.add_column(name, justify="right", no_wrap=True)
    for row in same_rows(comparison) if same else figure_rows(comparison):
        found.add_row(*row)
    return found


_LONGEST_NAME = 17
"""Of a run in the head of a column, so that 80 columns are enough."""


def _short(name: str) -> str:
    """The end of a path, which tells one folder from another."""
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"


def render(comparison: Comparison, *, name_a: str = "a", name_b: str = "b", same: bool = False) -> Group:
    """The comparison for the console: what changed, whether the workloads are the same, and a table."""
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    parts: list[Any] = [Text(line) for line in title_lines(comparison)]
    parts.append(table(comparison, name_a=name_a, name_b=name_b))
    if same:
        parts.append(table(comparison, name_a=name_a, name_b=name_b, same=True))
        if comparison.decision_difference:
            parts.append(Text(f"First other decision: {comparison.decision_difference}"))
    return Group(*parts)
