"""What the loops of all machines have in common, compiled: the next submit, and the step to the next instant.

Registers are an array, or a record that begins as `EveryRegisters` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.kernel.compiled import inlined
from emulator.kernel.tables import INSTANTS_LEFT, JOBS_N, NEVER, NEXT_SUBMIT, NOW, Stop

if TYPE_CHECKING:
    from emulator.kernel.tables import EveryJobs


@inlined
def next_submit(job: EveryJobs, reg: Any) -> int:
    """When the next job of the table is submitted, NEVER if none is left."""
    return job[reg[NEXT_SUBMIT]].submit_us if reg[NEXT_SUBMIT] < reg[JOBS_N] else NEVER


@inlined
def step_to(reg: Any, now: int, until: int) -> int:
    """Step to the instant `now`, the next at which anything happens: Stop.GOES_ON, or why it is not gone to."""
    if now > until or now == NEVER:
        if until != NEVER:
            reg[NOW] = until
        return Stop.AT_UNTIL.value
    if reg[INSTANTS_LEFT] == 0:
        return Stop.PAUSED.value
    reg[INSTANTS_LEFT] -= 1
    reg[NOW] = now
    return Stop.GOES_ON.value
