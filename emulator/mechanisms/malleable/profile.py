"""Where a job that may choose its width is placed in the profile of vacant nodes, compiled.

(malleable-hungershoefer-2004, section 5; the profile: `emulator/kernel/profile.py`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.mechanisms.malleable.tables import NEVER

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints

NEARLY = 1.0 - 1e-9
"""Products of floats are that near."""


@inlined
def length_us(work: int, speed: int, tick: int) -> int:
    """Time that work takes at a speed, in whole ticks."""
    time = work if speed == 1 else (work + speed - 1) // speed
    return time if tick == 1 else (time + tick - 1) // tick * tick


@inlined
def may_do(work: int, speed: int, time: int) -> bool:
    """Whether so much work may be done in a time: without a division, and without an overflow."""
    return float(speed) * float(time) >= float(work) * NEARLY


@inlined
def step_at(at: Ints, steps: int, time: int) -> int:
    """The first step that is not before a time; `steps` if there is none."""
    low = 0
    high = steps
    while low < high:
        middle = (low + high) >> 1
        if at[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def widest_from(
    at: Ints, level: Ints, steps: int, first: int, speeds: Ints, work: int, least: int, most: int, tick: int
) -> tuple[int, int]:
    """(width, end) of the widest job that fits from this step on; width 0 if none does.

    As steps pass, the lowest level so far is the widest job that may still run; a wider one had to end before.
    """
    widest = min(level[first], most)
    step = first
    while widest >= least:
        is_last = step == steps - 1
        if is_last or may_do(work, speeds[widest], at[step + 1] - at[first]):
            end = at[first] + length_us(work, speeds[widest], tick)
            if is_last or end <= at[step + 1]:
                return widest, end
        step += 1
        widest = min(widest, level[step])
    return 0, NEVER


@compiled
def earliest_completion(
    at: Ints, level: Ints, steps: int, begin: int, speeds: Ints, work: int, least: int, most: int, tick: int
) -> tuple[int, int, int]:
    """(step, width, end) of the placement that completes first, between `least` and `most` nodes wide.

    None that begins before the step `begin` is looked at. Ties: the earliest start, then the fewest nodes. From one
    start the widest job that fits completes first. Step -1 if nothing fits.
    """
    shortest = length_us(work, speeds[most], tick)
    best_end = NEVER
    best_first = -1
    best_width = 0
    for first in range(begin, steps):
        if at[first] + shortest >= best_end:
            break
        widest = min(level[first], most)
        if widest < least or (first > 0 and level[first - 1] >= widest):
            continue  # from the step before, it could do the same earlier
        if not may_do(work, speeds[widest], best_end - at[first]):
            continue
        widest, end = widest_from(at, level, steps, first, speeds, work, least, most, tick)
        if widest > 0 and end < best_end:
            best_end = end
            best_first = first
            best_width = widest
    if best_first < 0:
        return -1, 0, NEVER
    low = least
    while low < best_width:  # the narrowest that takes as long
        middle = (low + best_width) >> 1
        if at[best_first] + length_us(work, speeds[middle], tick) > best_end:
            low = middle + 1
        else:
            best_width = middle
    return best_first, best_width, best_end


@compiled
def reserve(at: Ints, level: Ints, steps: int, first: int, end: int, nodes: int) -> int:
    """Take nodes out of the profile from step `first` to time `end`. Returns the number of steps.

    A step at which nothing changes is dropped: packed times become one step, which is what makes long queues fast.
    """
    last = first + 1  # the step behind what is taken
    while last < steps and at[last] < end:
        last += 1
    begins_level = first > 0 and level[first] - nodes == level[first - 1]
    if last == steps or at[last] != end:
        after = level[last - 1]
        if begins_level:  # one step goes and one comes: what lies between them moves
            for k in range(first, last - 1):
                at[k] = at[k + 1]
                level[k] = level[k + 1] - nodes
            at[last - 1] = end
            level[last - 1] = after
            return steps
        for k in range(steps, last, -1):
            at[k] = at[k - 1]
        for k in range(steps, last, -1):
            level[k] = level[k - 1]
        at[last] = end
        level[last] = after
        steps += 1
    for k in range(first, last):
        level[k] -= nodes
    if level[last] == level[last - 1]:
        steps = drop(at, level, steps, last)
    return drop(at, level, steps, first) if begins_level else steps


@inlined
def drop(at: Ints, level: Ints, steps: int, step: int) -> int:
    """Leave out a step."""
    for k in range(step, steps - 1):
        at[k] = at[k + 1]
    for k in range(step, steps - 1):
        level[k] = level[k + 1]
    return steps - 1
