"""One step of an environment, compiled: the pick, time up to the next decision, what is seen then, the reward.

Arrays of one environment (K environments: one axis more, in front):

* `seen` (window, JOB_FEATURES) and `whole` (CLUSTER_FEATURES,), float32: what is observed, all in [0, 1];
* `mask` (actions,), int8: 1 for what can be picked;
* `known` (jobs, KNOWN), float32: what of a job's features never changes;
* `setup`: the options; `charged`: the cost that rewards have counted so far.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from emulator.kernel.compiled import compiled, inlined
from emulator.kernel.picking import (
    Decision,
    first_fitting,
    go_on,
    next_instant,
    start_fitting,
    start_next,
)
from emulator.kernel.tables import (
    State,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from emulator.kernel.rows import Rows
    from emulator.kernel.tables import Blocks, Ints, Ints32, Jobs, Plan, Registers

    Features: TypeAlias = "NDArray[np.float32]"
    Costs: TypeAlias = "NDArray[np.float64]"
    Mask: TypeAlias = "NDArray[np.int8]"


class JobFeature(IntEnum):
    """Columns of what an agent sees of a waiting job."""

    WAITS = 0
    WAIT = 1
    URGENCY = 2
    LENGTH = 3
    WIDTH = 4
    WIDTH_LOG = 5
    FITS = 6


class ClusterFeature(IntEnum):
    """What it sees of the cluster."""

    IDLE = 0
    QUEUE = 1
    DEMAND = 2
    NEXT_END = 3
    PROGRESS = 4


class Known(IntEnum):
    """Columns of what of the jobs' features does not change."""

    LENGTH = 0
    WIDTH = 1
    WIDTH_LOG = 2
    ESTIMATE = 3


class Goal(IntEnum):
    """What is to be small; of UTILIZATION, large."""

    BOUNDED_SLOWDOWN = 0
    WAIT_TIME = 1
    RESPONSE = 2
    UTILIZATION = 3


class Charged:
    """What the rewards of an episode have counted."""

    cost: float
    """What the jobs had cost at the last decision, in the unit of the objective."""


class Setup:
    """The options of an environment."""

    decision: int
    goal: int
    each_step: int
    """1: a reward at each step."""
    threshold_us: int
    """Of the bounded slowdown."""
    node_count: int


HALF_US = 3.6e9
"""A time of one hour is seen as a half: x / (x + 1 h)."""
_MICRO = 1e-6


@inlined
def observe(
    job: Jobs, queue: Ints32, plan: Plan, blocks: Blocks, registers: Registers, setup: Setup, known: Features,
    seen: Features, whole: Features, mask: Mask,
) -> None:  # fmt: skip
    """Fill `seen`, `whole` and `mask`, which are all zero."""
    now = registers.now
    free = registers.idle_nodes
    first = registers.queue_lo
    waiting = registers.queue_hi - first
    shown = min(waiting, seen.shape[0])
    for k in range(shown):
        row = queue[first + k]
        waited = float(now - job[row].submit_us)
        fits = job[row].nodes <= free
        seen[k, JobFeature.WAITS] = 1
        seen[k, JobFeature.WAIT] = waited / (waited + HALF_US)
        seen[k, JobFeature.URGENCY] = waited / (waited + known[row, Known.ESTIMATE])
        seen[k, JobFeature.LENGTH] = known[row, Known.LENGTH]
        seen[k, JobFeature.WIDTH] = known[row, Known.WIDTH]
        seen[k, JobFeature.WIDTH_LOG] = known[row, Known.WIDTH_LOG]
        seen[k, JobFeature.FITS] = fits
        mask[k] = 1 if setup.decision == Decision.NEXT else fits
    wanted = 0
    for k in range(waiting):
        wanted += job[queue[first + k]].nodes
    whole[ClusterFeature.IDLE] = free / setup.node_count
    whole[ClusterFeature.QUEUE] = waiting / (waiting + seen.shape[0])
    whole[ClusterFeature.DEMAND] = wanted / (wanted + setup.node_count)
    if blocks[0].entries:
        ahead = float(max(plan[blocks[0].slot, 0].at_us - now, 0))
        whole[ClusterFeature.NEXT_END] = ahead / (ahead + HALF_US)
    whole[ClusterFeature.PROGRESS] = registers.next_submit / registers.jobs_n
    if setup.decision == Decision.FITTING:
        mask[seen.shape[0]] = registers.heap_n > 0 or registers.next_submit < registers.jobs_n


@inlined
def cost_so_far(job: Jobs, registers: Registers, setup: Setup) -> float:
    """What the jobs have cost up to now: the sum of the objective over those that are submitted."""
    now = registers.now
    goal = setup.goal
    total = 0.0
    for row in range(registers.next_submit):
        start = job[row].start_us
        if goal == Goal.RESPONSE:
            end = job[row].end_us
            total += ((end if end >= 0 else now) - job[row].submit_us) * _MICRO
            continue
        waited = (start if start >= 0 else now) - job[row].submit_us
        if goal == Goal.WAIT_TIME:
            total += waited * _MICRO
        else:
            run = job[row].run_us
            total += max((waited + run) / max(run, setup.threshold_us), 1.0)
    return total


@inlined
def used_part(job: Jobs, registers: Registers, setup: Setup) -> float:
    """The part of all node time that jobs ran in, from the first submit to the last end."""
    used = 0.0
    for row in range(registers.jobs_n):
        used += float(job[row].nodes) * job[row].run_us
    span = registers.now - job[0].submit_us
    return used / (float(span) * setup.node_count) if span > 0 else 0.0


@compiled
def open_episode(
    state: State, setup: Setup, charged: Charged, known: Features, seen: Features, whole: Features, mask: Mask
) -> None:
    """Go to the first decision of a cluster that has just been made, and observe."""
    job, queue, plan, blocks, registers = state.job, state.queue, state.plan, state.blocks, state.registers
    go_on(state, setup.decision, seen.shape[0])
    charged.cost = 0.0
    observe(job, queue, plan, blocks, registers, setup, known, seen, whole, mask)


@compiled
def follow(state: State, action: int, setup: Setup, window: int) -> tuple[bool, bool]:
    """Do what was picked and go on to the next decision. Whether one is left, and whether the pick was no allowed one.

    Instead of what cannot be picked, the first job that can be is.
    """
    job, queue, registers = state.job, state.queue, state.registers
    waiting = min(registers.queue_hi - registers.queue_lo, window)
    if setup.decision == Decision.NEXT:
        is_wrong = not 0 <= action < waiting
        start_next(state, 0 if is_wrong else action)
    elif action == window and (registers.heap_n > 0 or registers.next_submit < registers.jobs_n):
        is_wrong = False
        next_instant(state)
    else:
        is_wrong = not (
            0 <= action < waiting and job[queue[registers.queue_lo + action]].nodes <= registers.idle_nodes
        )
        start_fitting(state, first_fitting(job, queue, registers, window) if is_wrong else action)
    return go_on(state, setup.decision, window), is_wrong


@inlined
def reward_of(job: Jobs, registers: Registers, setup: Setup, charged: Charged, goes_on: bool) -> float:
    """The reward of a step: at the end of the episode, or what the time since the last decision cost."""
    if setup.goal == Goal.UTILIZATION:
        return 0.0 if goes_on else used_part(job, registers, setup)
    if goes_on and setup.each_step == 0:
        return 0.0
    cost = cost_so_far(job, registers, setup)
    reward: float = (charged.cost - cost) / registers.jobs_n
    charged.cost = cost
    return reward


@compiled
def step(
    state: State, action: int, setup: Setup, charged: Charged, known: Features, seen: Features,
    whole: Features, mask: Mask,
) -> tuple[float, bool, bool]:  # fmt: skip
    """One step. The reward, whether the episode goes on, and whether the pick was not an allowed one.

    `seen`, `whole` and `mask` are all zero before; at the end of an episode they stay so.
    """
    job, queue, plan, blocks, registers = state.job, state.queue, state.plan, state.blocks, state.registers
    goes_on, is_wrong = follow(state, action, setup, seen.shape[0])
    if goes_on:
        observe(job, queue, plan, blocks, registers, setup, known, seen, whole, mask)
    return reward_of(job, registers, setup, charged, goes_on), goes_on, is_wrong


@compiled
def step_many(
    states: Any, actions: Ints, goes_on: NDArray[np.bool_], setup: Setup, charged: Rows[Charged],
    known: Features, seen: Features, whole: Features, mask: Mask, rewards: Costs, is_wrong: NDArray[np.bool_],
) -> None:  # fmt: skip
    """`step` of each environment whose episode goes on; of the others nothing is touched.

    `states`: a `State` whose tables have one more axis, the environment.
    """
    for k in range(actions.shape[0]):
        if not goes_on[k]:
            continue
        state = State(
            states.job[k], states.node[k], states.free[k], states.queue[k], states.plan[k], states.blocks[k],
            states.heap[k], states.runs[k], states.log[k], states.started[k], states.scratch[k],
            states.registers[k],
        )  # fmt: skip
        rewards[k], goes_on[k], is_wrong[k] = step(
            state, actions[k], setup, charged[k], known[k], seen[k], whole[k], mask[k]
        )
