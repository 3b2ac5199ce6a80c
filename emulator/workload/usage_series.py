"""Usage over time: Prometheus' answer to a range query (JSON), or measures of Gnocchi and Ceilometer (CSV).

    curl 'http://prometheus:9090/api/v1/query_range?query=sum(openstack_nova_vcpus_used)&start=...&end=...&step=300'
    gnocchi measures show vcpus --resource-id ID -f csv      (timestamp, granularity, value: --usage-column value)

Series are added. A value holds until the next sample of its series that has one, but no longer than three of its
usual steps.
Who asked is not known, only how much was in use: each unit is a row from the time at which it came into use to the
time at which it no longer was, last in, first out (`packing.to_leases`). A unit is a node, or with
`--cores-per-node` a core. OpenStack's tables are in UTC; times of others may be local (`local_times.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.text.number_text import grouped
from emulator.workload.cloud_rows import beginning, unix_s
from emulator.workload.csv_lines import csv_rows
from emulator.workload.files import TraceError, read_json_documents
from emulator.workload.packing import Demand, to_leases
from emulator.workload.rows import SAMPLES, Faults, Malformed, Rows, lines_of, no_name_twice
from emulator.workload.usage_columns import might_be_usage, usage_column

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.workload.local_times import LocalTimes
    from emulator.workload.swf import SwfLog

Samples = list[tuple[float, float]]
"""Unix time in seconds and value."""
_STEPS = 3
NO_VALUE, AGAIN = "sample without a value", "sample of a time that its series has already"
_NOTHING = {"", "nan", "null", "none"}
_OF_OPENSTACK = {"granularity", "counter_name", "resource_id", "resource id"}
"""Columns of tables of Gnocchi and Ceilometer, which know no zone but UTC."""
_MOST_UNITS = 10_000_000


class UsageSeriesFormat:
    """The trace format `usage_series`."""

    name = "usage_series"

    def can_read(self, path: Path) -> bool:
        """True if the file begins as a range of Prometheus, or with a header that has a timestamp and a value."""
        begin = beginning(path)
        if begin.startswith("{"):
            return '"resultType"' in begin
        names = _names(begin.splitlines()[0]) if begin else []
        return might_be_usage(names)

    def read(self, path: Path, *, lenient: bool = False) -> SwfLog:
        """The units in use. Raises TraceError naming file and line or series."""
        faults, rows = Faults(lenient), Rows()
        is_json = beginning(path).startswith("{")
        series = _of_prometheus(path, faults, rows) if is_json else _of_csv(path, faults, rows)
        series = {name: _once(samples, rows) for name, samples in series.items() if samples}
        records = sum(map(len, series.values()))
        if not series:
            raise TraceError(f"{path}: there are no samples in it")
        need = _sum(path, list(series.values()))
        leases = to_leases(need)
        rows.passed_over[SAMPLES] = records
        zero_us = need.time_us[0]
        for number, (submit_us, run_us) in enumerate(
            zip(leases.submit_us.tolist(), leases.run_us.tolist(), strict=True), 1
        ):
            rows.add(
                number=number,
                submit_s=submit_us / US,
                wait_s=0,
                run_s=run_us / US,
                allocated_procs=1,
                requested_procs=1,
                status=1,
            )
        if not len(rows):
            raise TraceError(f"{path}: nothing was in use from {zero_us / US:.0f} on")
        return rows.log(path, f"from {len(series)} series of usage; times are Unix times", faults)


def _names(line: str) -> list[str]:
    names = [name.strip(' "\r\n').lower() for name in line.replace(";", ",").replace("\t", ",").split(",")]
    # Grafana's export calls it so.
    return ["timestamp" if name == "time" and "timestamp" not in names else name for name in names]


def _of_prometheus(path: Path, faults: Faults, report: Rows) -> dict[str, Samples]:
    found: dict[str, Samples] = {}
    for document in read_json_documents(path):
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(data, dict) or data.get("resultType") != "matrix":
            raise TraceError(f"{path}: not a range of Prometheus; ask /api/v1/query_range, not /api/v1/query")
        seen = Counter[str]()  # answers may follow one another: a series of theirs goes on by its labels
        for place, each in enumerate(data.get("result", []), 1):
            values = each.get("values") if isinstance(each, dict) else None
            if not isinstance(values, list):
                faults.add(path, f"series {place}", "it has no list of values")
                continue
            labels = json.dumps(each.get("metric"), sort_keys=True)
            seen[labels] += 1
            samples = found.setdefault(f"{labels} {seen[labels]}", [])
            for at, sample in enumerate(values, 1):
                try:
                    time, amount = sample
                    _add(samples, _time(time, None), _amount(amount), report)
                except (Malformed, TypeError, ValueError) as fault:
                    faults.add(path, f"series {place}, sample {at}", fault)
    return found


def _add(samples: Samples, at_s: float, value: float | None, report: Rows) -> None:
    if value is None:
        report.pass_over(NO_VALUE)
    else:
        samples.append((at_s, value))


def _once(samples: Samples, report: Rows) -> Samples:
    """In order, each time once, as overlapping exports have some twice; of several values the last one said."""
    found = dict(samples)
    for _ in range(len(samples) - len(found)):
        report.pass_over(AGAIN)
    return sorted(found.items())


def _of_csv(path: Path, faults: Faults, report: Rows) -> dict[str, Samples]:
    found: dict[str, Samples] = {}
    lines = ((number, line) for number, line in lines_of(path) if line.strip())
    at, heading = next(lines, (1, ""))
    names = _names(heading)
    no_name_twice(path, at, names)
    mark = next((each for each in ("\t", ";") if each in heading), ",")
    rows = [
        (number, dict(zip(names, fields, strict=False)))
        for number, fields in csv_rows(path, lines, mark, faults, heading=heading, pass_over=report.pass_over)
    ]
    amount = usage_column(path, names, [row for _, row in rows])
    clock = None if _OF_OPENSTACK & set(names) else report.clock
    for number, row in rows:
        key = " ".join(
            value for name, value in row.items() if name not in {"timestamp", "granularity", amount}
        )
        try:
            at_s = _time(row.get("timestamp"), clock)
            _add(found.setdefault(key, []), at_s, _amount(row.get(amount)), report)
        except Malformed as fault:
            faults.add(path, number, fault)
        report.remark_on_times()
    return found


def _time(value: Any, clock: LocalTimes | None) -> float:
    time_s = unix_s(value, "timestamp", clock)
    if time_s is None:
        raise Malformed("timestamp is missing")
    return time_s


def _amount(value: Any) -> float | None:
    """None where nothing was measured."""
    if value is None or str(value).strip().lower() in _NOTHING:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Malformed(f"value is {str(value)[:40]!r}, not a number") from None
    if not 0 <= number <= _MOST_UNITS:
        raise Malformed(f"value is {str(value)[:40]!r}, not from 0 to {grouped(_MOST_UNITS)}")
    return number


def _sum(path: Path, series: list[Samples]) -> Demand:
    """Units in use of all series; parts of a unit are one."""
    times: list[float] = []
    changes: list[float] = []
    for samples in series:
        at = np.array([time_s for time_s, _ in samples])
        value = np.array([amount for _, amount in samples])
        steps = np.diff(at)
        usual_s = float(np.median(steps)) if len(steps) else 0.0
        if not usual_s:
            raise TraceError(f"{path}: a series with a single time; ask for more than one sample")
        until = at + np.minimum(np.append(steps, usual_s), _STEPS * usual_s)
        times += [*at.tolist(), *until.tolist()]
        changes += [*value.tolist(), *(-value).tolist()]
    time_us, place = np.unique(np.rint(np.array(times) * US).astype(np.int64), return_inverse=True)
    total = np.zeros(len(time_us))
    np.add.at(total, place, np.array(changes))
    # Sums of what came and went leave tiny rests, which are no units.
    return Demand(time_us, np.ceil(np.cumsum(total) - 1e-6).astype(np.int64).clip(0))
