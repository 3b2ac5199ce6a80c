"""The profile of a plan, compiled: `level[k]` nodes are free from `at[k]` to `at[k + 1]`, the last ones for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined

if TYPE_CHECKING:
    from emulator.kernel.tables import Ints


@inlined
def earliest_start(  # noqa: PLR0917 - compiled code has no keywords
    at: Ints, level: Ints, steps: int, begin: int, needed: int, length: int
) -> int:
    """The first step, from `begin` on, from which so many nodes are free for so long; `steps` if there is none."""
    first = begin
    step = begin
    while step < steps and (step == first or at[step] - at[first] < length):
        if level[step] < needed:
            first = step + 1
        step += 1
    return first


@inlined
def take_until(  # noqa: PLR0917 - compiled code has no keywords
    at: Ints, level: Ints, steps: int, first: int, end: int, nodes: int
) -> tuple[int, int]:
    """Take nodes from step `first` to time `end`, which becomes a step. Returns it, and the number of steps."""
    last = first
    while last < steps and at[last] < end:
        last += 1
    if last == steps or at[last] != end:
        for k in range(steps, last, -1):
            at[k] = at[k - 1]
            level[k] = level[k - 1]
        at[last] = end
        level[last] = level[last - 1]
        steps += 1
    for k in range(first, last):
        level[k] -= nodes
    return last, steps
