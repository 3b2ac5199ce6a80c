"""Other simulators by name: bundles of the options in which their EASY differs from the textbook's.

`docs/schedulers.md` says of each where it is known from, and what was held against the program itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.workload.overruns import Overrun


@dataclass(frozen=True, slots=True)
class Peer:
    """How a program backfills: scenario options that differ from the defaults, and where that is known from.

    `overrun`: what a run has as `workload: {overrun: ...}` with these rules, unless it says otherwise.
    """

    options: dict[str, Any]
    known_from: str
    overrun: Overrun = "extend"


PEERS: dict[str, Peer] = {
    "pyss": Peer(
        {"pass": "event", "exact_ends_first": True, "submits_first": True, "ends_in_order_of": "start"},
        "its sources (base/prototype.py, schedulers/common.py): a pass at each event, processors free at expected ends,"
        " submits before ends of one time, those in order of start; held against the program itself",
    ),
    "cqsim": Peer(
        {"pass": "event", "estimates": "actual_for_queued", "ends_in_order_of": "start"},
        "its sources (Cqsim_sim.py: event_job, insert_event, backfill): run times of queued jobs, a pass at each event,"
        " ends of one time in order of start; held against the program itself",
    ),
    "batsim": Peer(
        {"pass": "event", "exact_ends_first": True},
        "pybatsim 3.2.1, schedulers/unMaintained/easyBackfillNotopo.py, made of pyss; Batsim itself schedules nothing",
    ),
    "accasim": Peer(
        {"reservation": "kept", "protect_head": False, "head_waits": True},
        "AccaSim 1.1.3 (EASYBackfilling; its allocator gets no reserved nodes), held against the program itself",
        overrun="run_on",
    ),
    "alea": Peer(
        {"start_delay_s": 0.0008, "end_at_shadow": False},
        "its sources (EASY_Backfilling.java: selectJob, findResourceBF; ExperimentSetup.java: links of 10,000 bit/s):"
        " a pass starts one job, whose byte is on its way before the next; who ends at the shadow must fit beside the"
        " head; held against the program itself, with its booking of processors mended",
    ),
    "rlscheduler": Peer(
        {
            "pass": "event", "submits_first": True, "commit": True, "choice": "first_submitted", "spare_nodes": False,
            "end_at_shadow": False, "reservation": "kept", "ends_in_order_of": "expected_end",
        },
        "its sources (HPCSimPickJobs.py: moveforward_for_resources_backfill_greedy): a picked job stays the head with"
        " one reservation, behind it the first submitted that end before it",
        overrun="run_on",
    ),
}  # fmt: skip


def overrun_of(scheduler: object) -> Overrun:
    """What a run with this scheduler, as a scenario gives it, does with jobs beyond their estimate by default."""
    inner = scheduler.get("easy", scheduler) if isinstance(scheduler, dict) else scheduler
    if isinstance(inner, dict):
        name = str(inner.get("like"))
    else:
        name = str(inner).removeprefix("like:") if str(inner).startswith("like:") else ""
    return PEERS[name].overrun if name in PEERS else "extend"
