"""What a scenario's `failures` and `maintenance` do to the nodes of the real Slurm: `scontrol update ... state=`.

When a node goes and comes back is decided by what decides it in virtual time (`events/node_outages.py`).
"""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import numpy as np

from emulator.runs.scenario_events import outages_of
from emulator.schedulers.slurm.conf_fragment import hostlist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from emulator.events.node_outages import NodeOutages
    from emulator.runs.scenario import Scenario
    from emulator.schedulers.slurm.conf_fragment import Fragment

_LOOK_S = 0.005
_CLOSE_S = 1.0
_REASON = "emulator"


def has_outages(scenario: Scenario) -> bool:
    return bool(scenario.failures or scenario.maintenance)


def problem_with_outages(scenario: Scenario, fragment: Fragment) -> str:
    """What a scenario wants of nodes that fail and a live run does not have; '' if nothing."""
    if not has_outages(scenario):
        return ""
    lost = [part.jobs for part in (scenario.failures, *scenario.maintenance) if part is not None]
    if "lost" in lost:
        return "jobs that lose a node wait again on Slurm: leave out `jobs: lost` of failures and maintenance"
    if "jobrequeue=0" in (line.replace(" ", "").lower() for line in fragment.lines):
        return (
            "JobRequeue=0 with failures or maintenance is for virtual time (scheduler: slurm): leave it out"
        )
    return ""


class _Nodes:
    """The nodes as `NodeOutages` acts on them. Who runs where is Slurm's business: all may be busy."""

    def __init__(self, names: Sequence[str], ask: Callable[..., str], note: Callable[[str], None]) -> None:
        self.now_us = 0
        self._names = names
        self._ask = ask
        self._note = note
        self.node_job: NDArray[np.int64] = np.zeros(len(names), np.int64)

    @property
    def cluster(self) -> _Nodes:
        return self

    def drain(self, nodes: Iterable[int]) -> list[int]:
        return self._update(nodes, "drain")

    def drained(self, nodes: Iterable[int]) -> None:
        """Slurm knows."""

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        self._update(nodes, "down")
        return []

    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]:
        return self.take_down(nodes)

    def repair(self, nodes: Iterable[int]) -> None:
        self._update(nodes, "resume")

    def _update(self, nodes: Iterable[int], state: str) -> list[int]:
        chosen = list(nodes)
        if chosen:
            arguments = [
                "update",
                f"NodeName={hostlist([self._names[node] for node in chosen])}",
                f"State={state}",
            ]
            arguments += [] if state == "resume" else [f"Reason={_REASON}"]
            try:
                self._ask("scontrol", *arguments)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                answer = getattr(error, "stderr", None) or "no answer"
                self._note(f"scontrol {' '.join(arguments)}: {answer.strip()}")
        return chosen


class PlayedOutages:
    """A thread that has `ask` (program, arguments) tell Slurm of each outage at its time, until `close`.

    `note`: is told of what Slurm refuses.
    """

    def __init__(
        self,
        outages: NodeOutages,
        names: Sequence[str],
        ask: Callable[..., str],
        note: Callable[[str], None],
    ) -> None:
        self._outages = outages
        self._nodes = _Nodes(names, ask, note)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, now_us: Callable[[], int]) -> None:
        self._thread = threading.Thread(target=self._play, args=(now_us,), daemon=True)
        self._thread.start()

    def _play(self, now_us: Callable[[], int]) -> None:
        with suppress(OSError):  # the run is over, and its time with it
            while not self._stopped.wait(_LOOK_S):
                self.until(now_us())

    def until(self, now_us: int) -> None:
        """All that is due."""
        while (at_us := self._outages.next_us(goes_on=True, waiting=0)) <= now_us:
            self._nodes.now_us = at_us
            self._outages.at(self._nodes)

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        names: Sequence[str],
        ask: Callable[..., str],
        note: Callable[[str], None],
    ) -> Self:
        return cls(outages_of(scenario, len(names)), names, ask, note)

    def close(self) -> None:
        """A command that Slurm does not answer any more is not waited for."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
