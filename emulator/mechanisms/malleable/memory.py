"""What is remembered of the last plan, compiled: a place that must come out again is taken instead of looked for.

A job's place is the first in an order that does not change: the earliest start, or the earliest completion. When the
plan is made anew, another place can only be better if there is more room for it than when the place was last found,
or looked at. There is more room in two parts of the profile: before the time until which jobs that have ended were
expected to run (`freed`), and from the first place on that a job further in front has left (`moved`). If neither
holds a better place, and there is still room for the job at its own, it stays. Nothing is remembered while malleable
jobs run, whose expected ends move all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inlined
from emulator.mechanisms.malleable.profile import may_do
from emulator.mechanisms.malleable.tables import NEVER, JobClass

if TYPE_CHECKING:
    from emulator.mechanisms.malleable.tables import Ints, Jobs, Notes


@compiled
def measure_rooms(  # noqa: PLR0917 - compiled code has no keywords
    notes: Notes, at: Ints, level: Ints, steps: int, freed: int, nodes: int
) -> int:
    """How long so many nodes are vacant at a stretch that begins before `freed`, for each number of nodes.

    `longest[:nodes + 1]` falls with the number; `corner` has the numbers behind which it does, the
    greatest first. Returns how many these are. What is true of the profile now is the most that can be true when more
    jobs have been placed.
    """
    longest, heights, begins = notes.longest, notes.stack_level, notes.stack_at
    for width in range(nodes + 2):
        longest[width] = 0
    top = 0  # stretches that have not ended: the wider, the later they begin
    step = 0
    while step < steps and (top > 0 or at[step] < freed):
        begin = at[step]
        while top > 0 and heights[top - 1] > level[step]:
            top -= 1
            begin = begins[top]
            longest[heights[top]] = max(longest[heights[top]], at[step] - begin)
        is_new = top == 0 or heights[top - 1] < level[step]
        if is_new and begin < freed and level[step] > 0:
            heights[top] = level[step]
            begins[top] = begin
            top += 1
        step += 1
    for k in range(top):
        longest[heights[k]] = NEVER
    corners = 0
    for width in range(nodes, 0, -1):
        if longest[width] > longest[width + 1]:
            notes.corner[corners] = width
            corners += 1
        else:
            longest[width] = longest[width + 1]
    return corners


@inlined
def may_fit(  # noqa: PLR0917
    job: Jobs, speeds: Ints, notes: Notes, corners: int, row: int, most: int
) -> bool:
    """Whether one of the rooms that were measured may be large enough for the job."""
    if job[row].job_class == JobClass.RIGID:
        return bool(notes.longest[job[row].nodes] >= job[row].estimate_us)
    for k in range(corners):
        width = notes.corner[k]
        used = min(width, most)
        if used < job[row].min_nodes:
            return False
        if may_do(job[row].guessed, speeds[used], notes.longest[width]):
            return True
    return False


@inlined
def has_room(  # noqa: PLR0917
    at: Ints, level: Ints, steps: int, first: int, end: int, width: int
) -> bool:
    """Whether so many nodes are vacant from a step to a time."""
    step = first
    while step < steps and at[step] < end:
        if level[step] < width:
            return False
        step += 1
    return True


@inlined
def remember(job: Jobs, row: int, start: int, end: int, width: int) -> None:
    """The place that was found for a job in this plan."""
    job[row].placed_at_us = start
    job[row].placed_until_us = end
    job[row].placed_on = width


@inlined
def is_remembered(job: Jobs, row: int, start: int, end: int, width: int) -> bool:
    """Whether that was its place in the last plan, too."""
    return bool(
        job[row].placed_at_us == start and job[row].placed_until_us == end and job[row].placed_on == width
    )
