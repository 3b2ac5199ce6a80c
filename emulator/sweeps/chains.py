"""Runs that need not be done, because the row of another run is theirs too.

A chain has runs in an order in which the row of one may settle all that come after it. Its runs are done one by one as
far as that goes: one whose predecessor is not over comes later, if there is anything else to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from emulator.sweeps.grid import Run


@dataclass(slots=True)
class Chains:
    """`settles(row)` tells of a run's row whether the runs after it in its chain have the very same one."""

    chains: Sequence[Sequence[Run]] = ()
    settles: Callable[[Mapping[str, Any]], bool] = lambda _: False
    _before: dict[str, str] = field(init=False)
    _after: dict[str, tuple[Run, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._before, self._after = {}, {}
        for chain in self.chains:
            for at, run in enumerate(chain):
                self._after[run.key] = tuple(chain[at + 1 :])
                if at:
                    self._before[run.key] = chain[at - 1].key

    def settled(self, run: Run, row: Mapping[str, Any]) -> tuple[Run, ...]:
        """The runs that have this run's row."""
        after = self._after.get(run.key, ())
        return after if after and self.settles(row) else ()

    def in_turn(self, open_: Mapping[str, Run]) -> Iterator[Run]:
        """Runs to be done, in their order but for those that wait for their predecessor; each is given once.

        `open_` has by key the runs that are not over; runs that are settled meanwhile are taken out of it.
        """
        waiting = dict(open_)
        while waiting:
            for key in [key for key in waiting if key not in open_]:
                del waiting[key]
            ready = (key for key in waiting if self._before.get(key) not in open_)
            if waiting:
                yield waiting.pop(next(ready, next(iter(waiting))))
