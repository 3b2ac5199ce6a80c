"""What the twin of Slurm knows beside the tables of every machine: its registers and arrays. Times: microseconds."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.reorder import Counted
    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Ints, Ints32


class TwinRegisters:
    """Settings, then what changes."""

    depth: int
    """Jobs that a pass on an event tests."""
    partition_depth: int
    """Jobs of a partition that a pass tests, 0 for all."""
    pass_starts: int
    """Jobs that a pass starts, 0 for any number."""
    sched_every_us: int
    """Between two passes that test all, 0 for none."""
    pass_gap_us: int
    """The least time between two passes."""
    defer: int
    """A submit alone makes no pass."""
    fill_every_us: int
    """Between two backfill cycles, 0 for none."""
    window_us: int
    resolution_us: int
    max_test: int
    """Jobs that a cycle tries; then those of a user, a partition, a user in a partition, 0 for all."""
    max_user: int
    max_partition: int
    max_user_partition: int
    max_association: int
    """Likewise of an association; those of a user are not limited then."""
    fill_starts: int
    """Jobs that a cycle starts, 0 for any number."""
    max_reserved: int
    """Jobs of a partition for which a cycle reserves nodes, 0 for all."""
    min_age_us: int
    over_us: int
    """How long past its limit a job may run."""
    calc_every_us: int
    """Between two looks at priorities, 0 where they do not change."""
    next_fair_us: int
    """When fair shares are worked out next."""
    quiet_wait_us: int
    """How long after a change a cycle is due if none came for `fill_every_us`."""
    since_24_11: int
    """Whose rules it goes by: those of 24.11 and later."""
    since_26_05: int
    partitions: int
    limits_n: int
    """Limits of QOS and associations that there are."""
    shares: int
    """Jobs share nodes."""
    has_sets: int
    """Whole nodes are of several sets."""
    pass_at_us: int
    """When the next pass on an event is due."""
    last_pass_us: int
    full_changed: int
    """Something happened since the last pass over all jobs."""
    fill_at_us: int
    """When the next cycle is due, NEVER while nothing has happened since the last one."""
    last_fill_us: int
    fills_go_on: int
    """After the last cycle others follow, one every `fill_every_us`, though nothing happens."""
    fills_bring_passes: int
    """Each of these is followed by a pass over all jobs: something runs, or is to come."""
    opens_us: int
    """When a cycle finds something new though nothing happens: a plan within the window, a job that is old enough."""
    again_at_us: int
    """When that cycle comes."""
    passes_over: int
    """The last pass passed a job over, which is a change: so will the next passes over all jobs."""
    slots_n: int
    looks: int
    """How often what runs was counted for the limits."""
    running_n: int
    """Jobs in `running`."""
    away_n: int
    """Of these, in a look at a later time, the first so many are away before anything is looked at ..."""
    looked_n: int
    """... and so many in all are away when there is room."""
    nodes_moved: int
    """Nodes went or came back since the last instant."""
    release_at_us: int
    """When the first of the jobs that are held back may wait again, NEVER if there is none."""
    first_held: int
    last_held: int
    resubmits: int
    """Some job has another submit time than its row says, and submit times count."""
    by_submit: int
    """Jobs of equal priority stand in order of their submits, which a requeue changes."""
    preempts: int
    """Jobs of a higher tier may take the nodes of others."""
    preempt_again_us: int
    """Who has made others leave makes no more leave for so long."""
    preempt_looks: int
    """How often it was listed whom a job may preempt."""


class JobExtension:
    """What Slurm knows of a job, one row a job."""

    partition: int
    parts_row: int
    """Its row of `parts`."""
    rank: int
    """Before priorities: the level of its QOS among those that preempt, then the tier of its partition."""
    user: int
    """An index."""
    account: int
    """Whose share of the machine is its own: an index."""
    association: int
    """-1 for none."""
    first_qos: int
    """The QOS whose limits count, first the partition's (-1: none), then the job's own."""
    own_qos: int
    counted: int
    """The last look at limits that counted it."""
    reservation: int
    """The advance reservation that it asks for, -1 for none."""
    nodes: int
    """How many it wants; cores, memory and GPUs: on each."""
    cores: int
    memory_mib: int
    gpus: int
    is_listed: int
    """Whether it is in `running`."""
    eligible_us: int
    """Since when it may wait."""
    submitted_us: int
    """When it was submitted or, if it had to wait again, that."""
    next_held: int
    """Who was held back after it."""
    preempt_class: int
    """Its row and column in `may_preempt`: by its partition, or its QOS."""
    preempt_place: int
    """The lowest is preempted first."""
    preempt_mode: int
    """What becomes of it if another takes its nodes (`PreemptMode`)."""
    preempted_us: int
    """When it last made others leave their nodes."""
    grace_us: int
    """How long it goes on if another takes its nodes (`GraceTime`)."""
    exempt_us: int
    """How long it has to run before another may take its nodes (`PreemptExemptTime`)."""
    in_grace: int
    """Another takes its nodes: it leaves them when `expected_end_us` has passed."""
    runs_again: int
    """It was in grace: it has to run again when it has come to its end (since 24.11)."""
    may_leave: int
    """It shares nodes, and may be preempted for the job that is looked at."""
    preempt_look: int
    """The last list of whom a job may preempt that it was in."""


class PreemptMode(IntEnum):
    """What becomes of a job whose nodes another takes."""

    OFF = 0
    """It keeps them."""
    REQUEUE = 1
    CANCEL = 2


class Candidate:
    """A job that may be preempted for another."""

    row: int
    usable: int
    """How many of its nodes the other may have."""


class Limit(IntEnum):
    """Limits of a QOS, of all its jobs together and of a user's; -1 where there is none."""

    GROUP_JOBS = 0
    GROUP_NODES = 1
    USER_JOBS = 2
    USER_NODES = 3


class QosUse:
    """What runs in a QOS."""

    jobs: int
    nodes: int


class AssociationUse:
    """An account, or a user's use of one: its limits, -1 where there is none, and what runs in it and below."""

    parent: int
    """The row of the account above, -1 for none."""
    group_jobs: int
    group_nodes: int
    own_jobs: int
    jobs: int
    nodes: int
    tried: int
    """Its jobs that this cycle has tried."""


class Weights:
    """Numbers of the priorities."""

    age: float
    max_age_us: float
    fair: float
    left_a_second: float
    """The part of all usage that a second later is left of it."""
    counts_ends: int
    """Whether the usage of a run counts up to its end: else up to the last time before that at which it was counted."""
    is_fair_tree: int


class Share:
    """What an account, or a user in one, has and has used (`fair_share.py`). Row 0: root; accounts before users."""

    above: int
    """The row of the account that it is in, -1 for none."""
    level: int
    """The row of the account whose shares it has a part of: an account that has those above it is passed over."""
    share: float
    """That part."""
    is_user: int
    has_those_above: int
    own_usage: float
    """Node-seconds."""
    usage: float
    """With that of all below it."""
    first: int
    """Where in `fair_order` who has a part of its shares stands, so many of them."""
    children: int
    fairness: float
    is_tied: int
    counted: float
    """Without Fair Tree: its part of all usage, with what it has from the account above ..."""
    owned: float
    """... and its part of all shares."""
    factor: float
    """From 0 to 1, the fair share of a job's priority."""


class SeenNode:
    """A node in a cycle."""

    free_at_us: int
    """By the limit of what runs on it."""
    holder: int
    """That job's row."""
    order: int
    """The k-th row has the k-th node in order of these times."""
    chosen: int
    """The k-th row has the k-th node that was chosen for a job."""
    cleaned_us: int
    """When it is free, if who ran on it was preempted."""


class Room:
    """What a node has, and where jobs share nodes what is left of it: now, and at a time that is looked at.

    A node that jobs have whole is one core.
    """

    first_core: int
    cores: int
    memory_mib: int
    """0 where nobody looks at it."""
    gpus: int
    weight: int
    """Jobs get the nodes of the least one that can hold them; of whole nodes the place of their set."""
    cores_now: int
    memory_now_mib: int
    gpus_now: int
    cores_then: int
    memory_then_mib: int
    gpus_then: int


class PartitionCount:
    """How many of a partition's jobs a pass looked at, and a cycle tried and reserved nodes for."""

    looked_at: int
    tried: int
    reserved: int


class ReservedTime:
    """From when to before when an advance reservation holds."""

    begin_us: int
    end_us: int


class Slot:
    """A slot of the plan of a cycle."""

    at_us: int
    """Since when."""
    row: int
    """The row of `kept` that says which nodes are not reserved."""


Bytes: TypeAlias = "NDArray[np.int8]"


class Twin(NamedTuple):
    """The tables of the twin."""

    registers: TwinRegisters
    job_ext: Rows[JobExtension]
    fixed: NDArray[np.float64]
    """What of a job's priority never changes."""
    parts: Bytes
    """The nodes of each partition, then what of them jobs with a constraint may have."""
    nodes: Rows[SeenNode]
    slots: Rows[Slot]
    """The plan, with `kept`."""
    kept: Bytes
    first_mask: Bytes
    """The nodes that a job may be planned on; in a pass of the main loop: those that are kept from it."""
    second_mask: Bytes
    """The nodes that a job is put on."""
    light_mask: Bytes
    """Those of the nodes that a job may be put on that have the least weight."""
    planned: Bytes
    """The nodes that a cycle has planned for jobs that wait."""
    open_mask: Bytes
    """The nodes that a job may have, whoever runs on them."""
    candidates: Rows[Candidate]
    """Who may be preempted for a job."""
    may_preempt: Bytes
    """Whether jobs of one class may take the nodes of those of another."""
    tests: Ints
    """Jobs of each user in this cycle, then a mark for each partition and each reservation."""
    partition_counts: Rows[PartitionCount]
    user_tests: NDArray[np.int64]
    """Jobs of each user (row) in each partition in this cycle, if they are limited."""
    weights: Weights
    open_runs: Ints
    counted: Counted
    usage_factors: NDArray[np.float64]
    """Of each QOS."""
    fair_shares: Rows[Share]
    fair_order: Ints
    fair_stack: Ints
    spare: Ints32
    """To sort."""
    limits: Ints
    """`limits[q, k]`: limit k (`Limit`) of QOS q."""
    used: Rows[QosUse]
    """For each QOS a row for all of it, then one for each user."""
    associations: Rows[AssociationUse]
    times: Rows[ReservedTime]
    held: Bytes
    """The nodes of each advance reservation."""
    room: Rows[Room]
    """Of each node."""
    node_of_core: Ints
    running: Ints
    """Where jobs share nodes, the running jobs in order of ends."""
    cores: Ints
    """There the cores that were picked for a job."""


SECOND, MINUTE = 1_000_000, 60_000_000
CHECK_EVERY = 30 * SECOND
"""Time limits are looked at so often (recorded: a limit of 60 s ended a job after 79 s)."""
HOLD = 121 * SECOND
"""A job that was requeued may start so long after the second in which it was (recorded)."""
TIER_STEP = 1 << 33
