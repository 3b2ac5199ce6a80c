"""What a notice strategy sees and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Running batch jobs whose nodes nobody else waits for, in order of their rows; one entry a job.

    `expected_end_us` by the users' estimates. `stop_us` is when preempting the job before the predicted arrival costs
    it least, and `overhead_us` what it costs then: a rigid job right after its last checkpoint before that, or, if it
    writes none until then, at the predicted arrival; a malleable job so that its warning is over by then.
    """

    job: NDArray[np.int64]
    nodes: NDArray[np.int64]
    expected_end_us: Times
    stop_us: Times
    overhead_us: Times


class Outlook(Protocol):
    """What is known at the notice of an on-demand job. Figures are computed when asked for."""

    @property
    def needed(self) -> int:
        """Nodes it will want."""

    @property
    def free(self) -> int:
        """Idle nodes it can have at once."""

    @property
    def predicted_us(self) -> int:
        """When it is expected."""

    @property
    def candidates(self) -> Candidates: ...


@dataclass(frozen=True, slots=True)
class Preparation:
    """How nodes are held until the arrival. Idle ones are held at once.

    `collects`: any node that becomes free is held, as long as more are wanted. `promised`: running jobs whose nodes are
    held when they leave them. `stops`: (time in us, job) of preemptions; such a job's nodes are promised too.
    """

    collects: bool = False
    promised: tuple[int, ...] = ()
    stops: tuple[tuple[int, int], ...] = ()


class Notice(Protocol):
    """What to do at the notice of an on-demand job. A plug-in of `emulator.hybrid_notices`."""

    def prepare(self, outlook: Outlook) -> Preparation | None:
        """How to get nodes until the job arrives; None: nothing is held, the notice is ignored."""
