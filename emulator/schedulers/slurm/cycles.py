"""When Slurm's main loop and its backfill come next, compiled. The rules: `docs/slurm-twin.md`.

A cycle that leaves a node idle for a plan, and a pass that passes a job over, are changes themselves: others follow,
each interval, though nothing happens. These start nobody, so they are not done but counted: `note_change` and
`last_pass` work out where they would have been. The first that finds something new is done
(`note_cycle_that_finds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined, inner
from emulator.kernel.stepping import next_submit
from emulator.kernel.tables import NEVER
from emulator.schedulers.slurm.tables import SECOND

if TYPE_CHECKING:
    from emulator.kernel.tables import Jobs, Registers
    from emulator.schedulers.slurm.tables import TwinRegisters


@inlined
def whole_second(at: int) -> int:
    """The next whole second, or then."""
    return (at + SECOND - 1) // SECOND * SECOND


@inner
def goes_on(job: Jobs, registers: Registers, twin_registers: TwinRegisters) -> bool:
    """Whether jobs run, will be submitted, or are held back."""
    return bool(
        registers.heap_n or next_submit(job, registers) != NEVER or twin_registers.release_at_us != NEVER
    )


@inlined
def next_full_pass(twin_registers: TwinRegisters, now: int) -> int:
    """When the next pass over all jobs comes after then."""
    return (now // twin_registers.sched_every_us + 1) * twin_registers.sched_every_us


@inlined
def cycle_after(twin_registers: TwinRegisters, last: int, change: int) -> int:
    """When the cycle comes that follows a change, after this last one."""
    every = twin_registers.fill_every_us
    if last + every > change:
        return last + every
    return change + min(twin_registers.quiet_wait_us, every)


@inlined
def cycle_on_grid(twin_registers: TwinRegisters, change: int) -> int:
    """Of cycles that follow one another, the first after the last one that is not before this change."""
    every, last = twin_registers.fill_every_us, twin_registers.last_fill_us
    return last + max((change - last + every - 1) // every, 1) * every


@inner
def counted_cycles(twin_registers: TwinRegisters, until: int) -> tuple[int, int]:
    """The last cycle before then, with those that passes over all jobs brought; and the next, NEVER if none is due."""
    last: int = twin_registers.last_fill_us
    due: int = NEVER
    if twin_registers.passes_over and last >= 0:
        full = next_full_pass(twin_registers, last)
        while full < until and due == NEVER:
            due = cycle_after(twin_registers, last, full)
            if due < until:
                last, due, full = due, NEVER, next_full_pass(twin_registers, due)
    return last, due


@inner
def note_change(twin_registers: TwinRegisters, now: int) -> None:
    """Something happened that a pass over all jobs and a backfill cycle have to look at."""
    twin_registers.full_changed = 1
    if twin_registers.fill_every_us == 0 or twin_registers.fill_at_us != NEVER:
        return
    soon = whole_second(now)
    if twin_registers.fills_go_on:
        twin_registers.fill_at_us = cycle_on_grid(twin_registers, soon)
        return
    last, due = counted_cycles(twin_registers, soon)
    twin_registers.fill_at_us = min(due, cycle_after(twin_registers, last, soon))


@inner
def note_passed_over(twin_registers: TwinRegisters, passes_over: bool, now: int) -> None:
    """Whether passes over all jobs bring cycles from now on: the last pass has passed a job over."""
    goes = passes_over and twin_registers.sched_every_us > 0
    is_open = twin_registers.fill_at_us == NEVER and twin_registers.fills_go_on == 0
    if twin_registers.passes_over and not goes and is_open:
        last, due = counted_cycles(twin_registers, now)
        twin_registers.last_fill_us = last
        twin_registers.fill_at_us = due
        twin_registers.again_at_us = NEVER
    twin_registers.passes_over = goes


@inner
def note_cycle_that_finds(twin_registers: TwinRegisters, change: int) -> None:
    """Of the cycles that come though nothing happens, the first that is not before this change is done."""
    at: int = twin_registers.last_fill_us
    if twin_registers.fill_every_us == 0 or at < 0 or change == NEVER:
        return
    if twin_registers.fills_go_on:
        twin_registers.again_at_us = cycle_on_grid(twin_registers, change)
    elif twin_registers.passes_over:
        while at < change:
            at = cycle_after(twin_registers, at, next_full_pass(twin_registers, at))
        twin_registers.again_at_us = at


@inner
def last_pass(twin_registers: TwinRegisters, now: int) -> int:
    """When the last pass before now was, of those that are done and those that are counted."""
    last: int = twin_registers.last_pass_us
    last_fill, every, between = (
        twin_registers.last_fill_us,
        twin_registers.fill_every_us,
        twin_registers.sched_every_us,
    )
    if between == 0:
        return last
    full = (now - 1) // between * between
    if twin_registers.passes_over:
        last = max(last, full)
    elif twin_registers.fills_bring_passes and last_fill < full:
        cycle = last_fill + (full - 1 - last_fill) // every * every
        last = max(last, next_full_pass(twin_registers, cycle))
    return last


@inner
def note_pass(twin_registers: TwinRegisters, earliest: int, now: int) -> None:
    """A pass is due at the first whole second from then on that is late enough after the last one."""
    late_enough = last_pass(twin_registers, now) + twin_registers.pass_gap_us
    twin_registers.pass_at_us = min(twin_registers.pass_at_us, whole_second(max(earliest, late_enough)))


@inner
def note_event(twin_registers: TwinRegisters, now: int, makes_pass: bool) -> None:
    """Something happened that may let a job start."""
    note_change(twin_registers, now)
    if makes_pass and twin_registers.pass_at_us == NEVER:
        note_pass(twin_registers, now, now)
