"""What an arrival strategy of one's own sees and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Running:
    """Running batch jobs that may be preempted, in order of their rows; one entry a job in each array.

    `overhead_us` is what preempting the job now costs it: rigid with checkpoints, the work since the last one and
    the setup; without, the time since its start; malleable, the setup. `spare` is how many nodes it can give and go
    on: 0 for rigid jobs, `nodes` less its least width for malleable ones.
    """

    job: NDArray[np.int64]
    nodes: NDArray[np.int64]
    overhead_us: NDArray[np.int64]
    spare: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Room:
    """How nodes are made free: jobs to preempt, in order, and (job, nodes fewer) to shrink."""

    preempt: tuple[int, ...] = ()
    shrink: tuple[tuple[int, int], ...] = ()


class Arrival(Protocol):
    """What to do when an on-demand job arrives and lacks nodes. A plug-in of `emulator.hybrid_arrivals`."""

    def make_room(self, running: Running, needed: int) -> Room | None:
        """How to get at least `needed` (1 or more) nodes from these jobs, each named once; None: it waits."""
