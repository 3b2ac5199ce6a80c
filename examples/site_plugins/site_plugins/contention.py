"""A contention model: how fast jobs are that share a core, for the mechanism `oversubscribe`."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """Among m jobs each has `efficiency` per cent of an equal share; a job alone is not slowed down."""

    efficiency: int = 80

    def speed(self, jobs: int) -> Fraction:
        return Fraction(1) if jobs == 1 else Fraction(self.efficiency, 100 * jobs)
