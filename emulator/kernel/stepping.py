"""What the loops of all machines have in common, compiled: the next submit, and the step to the next instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import inlined
from emulator.kernel.tables import NEVER, Stop

if TYPE_CHECKING:
    from emulator.kernel.tables import EveryJobs, EveryRegisters


@inlined
def next_submit(job: EveryJobs, reg: EveryRegisters) -> int:
    """When the next job of the table is submitted, NEVER if none is left."""
    return job[reg.next_submit].submit_us if reg.next_submit < reg.jobs_n else NEVER


@inlined
def step_to(reg: EveryRegisters, now: int, until: int) -> int:
    """Step to the instant `now`, the next at which anything happens: Stop.GOES_ON, or why it is not gone to."""
    if now > until or now == NEVER:
        if until != NEVER:
            reg.now = until
        return Stop.AT_UNTIL.value
    if reg.instants_left == 0:
        return Stop.PAUSED.value
    reg.instants_left -= 1
    reg.now = now
    return Stop.GOES_ON.value
