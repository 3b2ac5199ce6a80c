"""Today as the log recorded it beside today as it is simulated: without that, no answer is to be believed.

The simulated today is the setting `split`. Where it is far from what was recorded, something about the site is not
known here, and what the other settings give is as far from the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from balancer.clock import US
from emulator.study.logs import WEEK_S, week_begin_us
from emulator.study.merge import PAIRING, WEEK
from emulator.study.settings import SPLIT
from emulator.sweeps.grid import LABEL
from emulator.text.number_text import grouped, percent
from emulator.workload.recorded_waits import FAR, apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from emulator.study.logs import Logs

FARTHEST, FARTHEST_SHARED = FAR, 1.1
"""How many times longer or shorter simulated waits may be than recorded ones, if nobody says; on nodes that jobs share.

On shared nodes the nodes themselves are worked out from the log, and a slip in that (cores, memory) shows in the waits
and nowhere else.
"""
NEAR, NEAR_WEEK = 1.25, 2.0
"""Farther off than that, on average or in any week, is told, though it ends nothing."""
MOST_REFUSED, MOST_REFUSED_ANYHOW = 0.005, 0.05
"""Share of the log's own leases that today's machine may refuse; from where on the logs themselves are in doubt."""
_CROWDED = 1.1
_CROWDED_SHARE = 0.05
_LOADED = 2.0


@dataclass(frozen=True, slots=True)
class Today:
    """One week: waits are means in minutes of the jobs submitted in it, None where nobody knows them.

    `used`: node-time of jobs over the nodes' time; `most_in_use`: nodes at once, `crowded`: share of the week in which
    more nodes were in use than there are (by a tenth and more), `load`: node-time of the jobs submitted over the nodes'
    time. `requests`, `refused`: leases of the log in it, and those for which today's on-demand machine has no room.
    """

    week: str
    jobs: int
    load: float
    recorded_wait_min: float | None
    simulated_wait_min: float | None
    recorded_used: float | None
    simulated_used: float | None
    most_in_use: int | None
    crowded: float | None
    requests: int | None = None
    refused: int | None = None


def recorded(logs: Logs, weeks: Sequence[int], names: Sequence[str]) -> list[Today]:
    """What the log says of these weeks."""
    jobs, waited_us = logs.batch, logs.waited_us
    start_us = jobs.submit_us + waited_us
    started = waited_us >= 0
    counts = np.ones(len(jobs), np.bool_) if logs.shared_queue is None else jobs.queue != logs.shared_queue
    found = []
    for week, name in zip(weeks, names, strict=True):
        begin_us = week_begin_us(logs, week)
        end_us = begin_us + WEEK_S * US
        selected = (jobs.submit_us >= begin_us) & (jobs.submit_us < end_us)
        work = float(jobs.run_us[selected] @ jobs.nodes[selected].astype(np.int64))
        whole = WEEK_S * US * logs.batch_nodes
        known = selected & started & counts
        used = most = crowded = None
        if (started & (start_us < end_us) & (start_us + jobs.run_us > begin_us)).any():
            at_us, change = _changes(logs, begin_us, end_us)
            # Ends before starts at the same instant: a node that is handed over is one node.
            order = np.lexsort((change, at_us))
            level, at_us = np.cumsum(change[order]), at_us[order]
            lengths = np.diff(np.append(at_us, end_us))
            used = float(level @ lengths) / whole
            most = int(level.max())
            crowded = float(lengths[level > _CROWDED * logs.batch_nodes].sum()) / (WEEK_S * US)
        found.append(
            Today(
                week=name,
                jobs=int((selected & counts).sum()),
                load=work / whole,
                recorded_wait_min=float(waited_us[known].mean()) / US / 60 if known.any() else None,
                simulated_wait_min=None,
                recorded_used=used,
                simulated_used=None,
                most_in_use=most,
                crowded=crowded,
            )
        )
    return found


def _changes(logs: Logs, begin_us: int, end_us: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When how many nodes more or less were in use, or down, within a week."""
    jobs, down = logs.batch, logs.down
    started = logs.waited_us >= 0
    start_us = np.concatenate(((jobs.submit_us + logs.waited_us)[started], down.submit_us))
    end = start_us + np.concatenate((jobs.run_us[started], down.run_us))
    nodes = np.concatenate((jobs.nodes[started], down.nodes)).astype(np.int64)
    selected = (start_us < end_us) & (end > begin_us)
    at_us = np.concatenate((start_us[selected], end[selected])).clip(begin_us, end_us)
    return at_us, np.concatenate((nodes[selected], -nodes[selected]))


def beside_simulated(
    found: Sequence[Today], rows: Sequence[Mapping[str, Any]], *, batch_nodes: int, ondemand_nodes: int
) -> list[Today]:
    """The same weeks with the figures of the runs of `split`."""
    split = {str(row[WEEK]): row for row in rows if row[LABEL] == SPLIT and row[PAIRING] == 1}
    together: list[Today] = []
    for each in found:
        row = split.get(each.week)
        values = {name: getattr(each, name) for name in Today.__slots__}
        if row is not None:
            share = (batch_nodes + ondemand_nodes) / batch_nodes
            values["simulated_wait_min"] = float(row["window.mean_wait_after_begin_s"] or 0) / 60
            values["simulated_used"] = float(row["window.batch_utilization"]) * share
            values["requests"] = int(row["window.ondemand_requests"])
            values["refused"] = int(row["window.ondemand_rejected"])
        together.append(Today(**values))
    return together


def doubts_of_the_log(
    found: Sequence[Today], nodes: int, *, procs_per_node: int = 1, shared_nodes: bool = False
) -> list[str]:
    """What cannot be true of a cluster of so many nodes, before anything is simulated.

    `procs_per_node`, `shared_nodes`: what the study was told, so that this is not proposed.
    """
    crowded = [each for each in found if each.crowded is not None and each.crowded > _CROWDED_SHARE]
    loaded = [each for each in found if each.load > _LOADED]
    doubts = []
    if crowded:
        worst = max(crowded, key=lambda each: each.most_in_use or 0)
        doubts.append(
            f"By the batch log up to {grouped(worst.most_in_use)} nodes were in use at once"
            f" (week {worst.week}), and for"
            f" {percent(worst.crowded or 0, 0)} of it more than the {grouped(nodes)} that --nodes says."
        )
    if loaded:
        worst = max(loaded, key=lambda each: each.load)
        doubts.append(
            f"The jobs of week {worst.week} ask for {worst.load:.1f} times the node-time of {grouped(nodes)} nodes."
        )
    if doubts:
        counts = f"a node has more processors than --procs-per-node {procs_per_node}"
        if procs_per_node == 1:
            counts = "the log counts processors: say --procs-per-node"
        shares = "" if shared_nodes else " jobs share nodes: say --shared-nodes too; or"
        doubts.append(f"Likely {counts}; or{shares} there were more nodes: say so in --nodes.")
    return doubts


def doubts_of_today(found: Sequence[Today], farthest: float) -> list[str]:
    """Why the simulated today is not the recorded one; nothing if it is near enough, or nobody knows."""
    waits = _mean_waits(found)
    doubts: list[str] = []
    if waits is not None and apart(*waits) > farthest:
        was, now = waits
        doubts.append(
            f"Today is not understood: by the log batch jobs of these weeks waited"
            f" {grouped(was)} min on average, simulated"
            f" they wait {grouped(now)} min, and more than {farthest:g} times apart is too far (--accept-today)."
            f" {_likely(was, now)}"
        )
    requests, refused = _leases(found)
    if refused > max(MOST_REFUSED * requests, 1):  # of few leases a single one is more
        doubts.append(
            f"{_refused(requests, refused)}, although all of them ran: more than {100 * MOST_REFUSED:g} % is too many."
            f" {_LIKELY_OF_LEASES}"
        )
        if refused > MOST_REFUSED_ANYHOW * requests:
            doubts.append("Are the two logs the wrong way round (--batch and --ondemand)?")
    return doubts


def remarks(found: Sequence[Today]) -> list[str]:
    """In what the simulated today is off, though not too far to go on: an answer is to be taken with care."""
    lines = []
    waits = _mean_waits(found)
    if waits is not None and apart(*waits) > NEAR:
        was, now = waits
        lines.append(
            f"batch jobs waited {grouped(was)} min by the log and wait {grouped(now)} min"
            f" simulated, more than {NEAR:g} times"
            f" apart. {_likely(was, now)}"
        )
    weeks = [
        (apart(each.recorded_wait_min, each.simulated_wait_min), each)
        for each in found
        if each.recorded_wait_min is not None and each.simulated_wait_min is not None
    ]
    far = [each for ratio, each in weeks if ratio > NEAR_WEEK]
    if far:
        _, worst = max(weeks, key=lambda pair: pair[0])
        lines.append(
            f"in {len(far)} of {len(weeks)} weeks the waits are more than {NEAR_WEEK:g} times apart; farthest in that"
            f" of {worst.week}, {grouped(worst.recorded_wait_min)} min by the log and"
            f" {grouped(worst.simulated_wait_min)} min simulated."
        )
    requests, refused = _leases(found)
    if refused:
        lines.append(f"{_refused(requests, refused)}, although all of them ran. {_LIKELY_OF_LEASES}")
    return lines


_LIKELY_OF_LEASES = (
    "Likely there were more on-demand nodes than --nodes says, or leases share nodes (--cores-per-node)."
)


def _refused(requests: int, refused: int) -> str:
    share = 100 * refused / requests
    return (
        f"today's on-demand machine, simulated, refuses {grouped(refused)} of the"
        f" {grouped(requests)} leases of these weeks"
        f" ({share:.{2 if share < 1 else 1}f} %)"
    )


def _likely(was: float, now: float) -> str:
    if now > was:
        return (
            "Likely there were more nodes than --nodes says, jobs share nodes (--shared-nodes), or jobs ran on nodes"
            " that others do not get."
        )
    return (
        "Likely nodes were down or reserved (--down-nodes and --reservations say which), the site's priorities and"
        " limits kept jobs waiting that had room, or there were fewer nodes than --nodes says."
    )


def _mean_waits(found: Sequence[Today]) -> tuple[float, float] | None:
    """Recorded and simulated, of the weeks that have both."""
    pairs = [
        (each.recorded_wait_min, each.simulated_wait_min)
        for each in found
        if each.recorded_wait_min is not None and each.simulated_wait_min is not None
    ]
    return (fmean(was for was, _ in pairs), fmean(now for _, now in pairs)) if pairs else None


def _leases(found: Sequence[Today]) -> tuple[int, int]:
    return sum(each.requests or 0 for each in found), sum(each.refused or 0 for each in found)


def trust(found: Sequence[Today]) -> str:
    """How far today is reproduced, in one line."""
    lines = remarks(found)
    if lines:
        numbered = " ".join(f"({at}) {each}" for at, each in enumerate(lines, 1))
        return f"How far to trust it: with care (amber): {numbered}"
    if _mean_waits(found) is None:
        return "How far to trust it: the leases fit; the batch log has no waits to compare (amber)."
    return "How far to trust it: today is reproduced in both halves (green)."


def why_unknown(found: Sequence[Today]) -> list[str]:
    """Why nobody can know whether today is understood; nothing if the log has waits."""
    if any(each.recorded_wait_min is not None for each in found):
        return []
    text = "the batch log has no waits, so the simulated today cannot be compared with the real one"
    return [f"{text}; a log that has them would tell."]


def sentence(found: Sequence[Today]) -> str:
    """Today in one line, for those who read no table."""
    known = [each for each in found if each.recorded_wait_min is not None]
    if not known:
        return "The batch log has no waits: whether the simulated today is the real one cannot be seen."
    was = fmean(each.recorded_wait_min or 0 for each in known)
    now = fmean(each.simulated_wait_min or 0 for each in known)
    used = [fmean(getattr(each, name) or 0 for each in known) for name in ("recorded_used", "simulated_used")]
    return (
        f"Today in these weeks: batch jobs waited {grouped(was)} min by the log and wait"
        f" {grouped(now)} min simulated; batch"
        f" nodes were {percent(used[0], 0)} in use and are {percent(used[1], 0)} simulated."
    )
