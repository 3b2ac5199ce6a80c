"""What a run keeps beside the cluster's tables and the claims, as the harness does in Python for other mechanisms."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Heap, Ints
    from emulator.machine.running import BrokenOff
    from emulator.mechanisms.agenda import Agenda
    from emulator.mechanisms.move_log import MoveLog


class JobExtension:
    """What a run keeps of a job, -1 for none: of an on-demand job, and of a batch job."""

    claim: int
    """Its claim; the claim that it leaves for (`claim_of`)."""
    when_us: int
    """When its lease ends; when its last checkpoint is written."""
    owes: int
    """The last of its loans; nodes that the claim will have of it."""
    noted: int
    """1 if it got its nodes when it came; how often it had to leave held nodes."""
    known: int
    """When it is predicted, in us; its most nodes."""


class Loan:
    """Nodes lent to an on-demand job: a ring for each of these."""

    lender: int
    lent: int
    """How many."""
    shrunk_us: int
    """The start of the run that was shrunk, else -1."""
    next: int


class Timed(IntEnum):
    """What took time by the wall clock."""

    CHOICE = 0
    HANDLING = 1


class WallTime:
    """How long something took by the wall clock."""

    which: int
    """`Timed`."""
    took_us: int


class Outage:
    """A node that fails, or is up again. In order of time; of one time those that are up again come first."""

    at_us: int
    node: int
    fails: int
    """1 if it fails."""


class HybridRegisters:
    """The registers of a run."""

    wake_us: int
    """When the mechanism is woken."""
    next_point: int
    """Of those that are known from the beginning."""
    at_point: int
    """1 while decision points of an instant are handled."""
    at_timer: int
    """1 while what is due by the clock is done."""
    rows_n: int
    times_n: int
    loan_free: int
    """The chain of rows for loans that are not used, -1 for none."""
    loans_left: int
    """How many there are."""
    lent_n: int
    """Nodes lent so far, and what became of them."""
    open_n: int
    resumed_n: int
    expanded_n: int
    preemptions_n: int
    shrinks_n: int
    queued_n: int
    lapsed_n: int
    warned_node_us: int
    """Node-time of warnings."""
    granted_n: int
    release_us: int
    """A setting: how long nodes are held for an on-demand job that is late."""
    warning_us: int
    """A setting: how long a malleable job has to write its last checkpoint."""
    notice_by: int
    """A setting: `NoticeBy`."""
    arrival_by: int
    """A setting: `ArrivalBy`."""
    clock_hook: int
    """The address of the wall clock, with what it is called with."""
    clock_context: int
    clock_address: int
    next_outage: int
    next_claim: int
    """The next to look at after a failure, -1 for none."""
    failed_n: int
    """Failures so far."""
    serials_n: int
    """Claims so far."""
    until_us: int
    """The run stops after this instant."""
    arriving: int
    """The on-demand job that is to start next, -1 for none."""
    is_new: int
    """1 if it comes just now, 0 if it was there already."""


class StrategyQuery:
    """What a strategy of one's own is asked, in Python, and what it answers (`own_strategies.py`)."""

    notice_hook: int
    """The addresses of what asks."""
    arrival_hook: int
    job: int
    lenders_n: int
    """Jobs in the table of those that may give nodes."""
    needed: int
    idle_nodes: int
    predicted_us: int
    is_none: int
    """1 if nothing is held at the notice; if nobody gives nodes at the arrival."""
    collects: int
    first_n: int
    """So many of `Room.picked` are promised, or give `fewer` nodes."""
    then_n: int
    """So many of the next ones are stopped at the time `fewer`, or are preempted."""
    failed: int
    """1 if it raised something."""


class Room(NamedTuple):
    """Room for whoever needs it: one entry a node, two at least."""

    found: Ints
    key: Ints
    wide: Ints
    order: Ints
    picked: Ints
    """Who was chosen to give nodes."""
    fewer: Ints
    """How many nodes each gives, or when it is stopped."""
    clock: Ints
    """The wall clock's seconds and nanoseconds."""


class HybridState(NamedTuple):
    """What a run keeps beside the cluster's tables and the claims."""

    job_ext: Rows[JobExtension]
    points: Heap
    """What is known from the beginning, in order."""
    agenda: Agenda
    """The points that follow."""
    timers: Agenda
    """Timers of the mechanism, by `pair_key`."""
    loans: Rows[Loan]
    moves: MoveLog
    rows: Rows[BrokenOff]
    times: Rows[WallTime]
    room: Room
    digits: Ints
    """To sort with."""
    mark: Ints
    """1 for a node that is being given back."""
    outages: Rows[Outage]
    not_returned: Ints
    """Lent nodes that did not return, by `Reason`."""
    registers: HybridRegisters
    query: StrategyQuery
