"""What the loops of all machines have in common, compiled: the next submit, and the step to the next instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined
from emulator.kernel.tables import NEVER, Stop

if TYPE_CHECKING:
    from emulator.kernel.tables import EveryJobs, EveryRegisters


@inlined
def next_submit(job: EveryJobs, registers: EveryRegisters) -> int:
    """When the next job of the table is submitted, NEVER if none is left."""
    return job[registers.next_submit].submit_us if registers.next_submit < registers.jobs_n else NEVER


@inlined
def step_to(registers: EveryRegisters, now: int, until: int) -> int:
    """Step to the instant `now`, the next at which anything happens: Stop.GOES_ON, or why it is not gone to."""
    if now > until or now == NEVER:
        if until != NEVER:
            registers.now = until
        return Stop.AT_UNTIL.value
    if registers.instants_left == 0:
        return Stop.PAUSED.value
    registers.instants_left -= 1
    registers.now = now
    return Stop.GOES_ON.value
