"""Where a job that may choose its width is placed in the profile of vacant nodes, compiled.

(malleable-hungershoefer-2004, section 5; the profile: `emulator/harness/profile.py`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.harness.compiled import compiled, inlined
from emulator.harness.profile import take_until
from emulator.mechanisms.malleable.tables import NEVER

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints


@inlined
def length_us(work: int, speed: int, tick: int) -> int:
    """Time that work takes at a speed, in whole ticks."""
    time = (work + speed - 1) // speed
    return (time + tick - 1) // tick * tick


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
        end = at[first] + length_us(work, speeds[widest], tick)
        if step == steps - 1 or end <= at[step + 1]:
            return widest, end
        step += 1
        widest = min(widest, level[step])
    return 0, NEVER


@compiled
def earliest_completion(
    at: Ints, level: Ints, steps: int, speeds: Ints, work: int, least: int, most: int, tick: int
) -> tuple[int, int, int]:
    """(step, width, end) of the placement that completes first, between `least` and `most` nodes wide.

    Ties: the earliest start, then the fewest nodes. From one start the widest job that fits completes first. Step -1 if
    nothing fits.
    """
    shortest = length_us(work, speeds[most], tick)
    best_end = NEVER
    best_first = -1
    best_width = 0
    for first in range(steps):
        if at[first] + shortest >= best_end:
            break
        widest = min(level[first], most)
        if widest < least or (first > 0 and level[first - 1] >= widest):
            continue  # from the step before, it could do the same earlier
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


@inlined
def merge(at: Ints, level: Ints, steps: int, step: int) -> int:
    """Drop a step at which nothing changes. Packed times become one step, which is what makes long queues fast."""
    if step == 0 or step >= steps or level[step] != level[step - 1]:
        return steps
    for k in range(step, steps - 1):
        at[k] = at[k + 1]
        level[k] = level[k + 1]
    return steps - 1


@compiled
def reserve(at: Ints, level: Ints, steps: int, first: int, end: int, nodes: int) -> int:
    """Take nodes out of the profile from step `first` to time `end`. Returns the number of steps."""
    last, steps = take_until(at, level, steps, first, end, nodes)
    steps = merge(at, level, steps, last)
    return merge(at, level, steps, first)
