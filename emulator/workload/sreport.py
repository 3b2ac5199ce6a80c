"""How many nodes were down by Slurm's own report, where nobody kept which.

    sreport -P cluster utilization start=2026-01-04 end=2026-01-11 >> down.txt

One report or several after each other, each with its title (not `-n`): `Cluster Utilization BEGIN - END`, a header and
a line. `Down` and `PLND Down` are parts of `Reported`, in minutes, hours or per cent. For the time of a report as many
nodes are down as make up that part, the last of them for the rest of it. Whose times they are: `local_times.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emulator.workload.files import TraceError
from emulator.workload.local_times import LocalTimes
from emulator.workload.outages import time_s
from emulator.workload.rows import Faults, Malformed, lines_of, without_nuls

if TYPE_CHECKING:
    from pathlib import Path

_TITLE = re.compile(r"Cluster Utilization (\S+) - (\S+)")
_DOWN, _ALL = ("Down", "PLND Down"), "Reported"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TRES = "TRES Name"


def is_sreport(path: Path) -> bool:
    """Whether one of the first lines is the title of such a report."""
    return any(
        _TITLE.match(line) for _, line in zip(range(4), (line for _, line in lines_of(path)), strict=False)
    )


def read_sreport(
    path: Path, *, nodes: int, lenient: bool = False, clock: LocalTimes | None = None
) -> dict[str, list[tuple[float, float]]]:
    """As `read_outages`, of a machine of so many nodes; their names say nothing. Raises TraceError."""
    faults, found = Faults(lenient), dict[str, list[tuple[float, float]]]()
    clock = LocalTimes() if clock is None else clock
    span, names, count = (0.0, 0.0), list[str](), 0
    for number, line in lines_of(path):
        title = _TITLE.match(line)
        try:
            without_nuls(line)
            if title is not None:
                begin_s = time_s(title[1], "begin", clock)
                span, names = (begin_s, time_s(title[2], "end", clock, begin_s) + 1), []
            elif "|" in line and not names:
                names = line.split("|")
            elif "|" in line:
                _add(dict(zip(names, line.split("|"), strict=False)), span, nodes, found)
                names, count = [], count + 1
        except Malformed as fault:
            faults.add(path, number, fault)
    if not count:
        raise TraceError(
            f"{path}: no report with columns told apart by |; write it with sreport -P cluster utilization"
        )
    return found


def _add(
    values: dict[str, str], span: tuple[float, float], nodes: int, found: dict[str, list[tuple[float, float]]]
) -> None:
    if values.get(_TRES, "cpu") not in {"cpu", "node"}:
        raise Malformed(f"it reports {values[_TRES]}; take cpu, as sreport does unless told otherwise")
    reported = _number(values, _ALL)
    if not reported:
        raise Malformed(f"{_ALL} is 0")
    share = sum(_number(values, name) for name in _DOWN if name in values) / reported
    begin_s, end_s = span
    whole, rest = divmod(min(share, 1.0) * nodes, 1)
    for at in range(int(whole)):
        found.setdefault(f"down {at + 1}", []).append((begin_s, end_s))
    if rest:
        last = found.setdefault(f"down {int(whole) + 1}", [])
        last.append((begin_s, begin_s + rest * (end_s - begin_s)))


def _number(values: dict[str, str], name: str) -> float:
    match = _NUMBER.match(values.get(name, ""))
    if match is None:
        raise Malformed(f"{name} is {values.get(name, '')[:40]!r}, not a number")
    return float(match[0])
