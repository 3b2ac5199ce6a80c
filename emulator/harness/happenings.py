"""What happens to jobs and nodes whoever schedules, in virtual time: the loop asks this between its decision points.

A run without any has none of this: the compiled loop is stopped for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.harness.actions import Accounting
    from emulator.harness.job_rules import JobRules


class Happenings:
    """The rules of jobs (`job_rules.py`). `begin` once, then `at` at each time at which something is due."""

    def __init__(self, rules: JobRules) -> None:
        self._rules = rules

    @property
    def watches_ends(self) -> bool:
        """Whether it must be told of every end of a batch job."""
        return self._rules.watches_ends

    @property
    def watches_passes(self) -> bool:
        """Whether it must be told of every pass."""
        return self._rules.watches_passes

    def next_us(self, act: Accounting) -> int:
        """When something is due, NEVER_US if nothing is."""
        return self._rules.next_us(act)

    def begin(self, act: Accounting) -> None:
        """The run begins; nothing is submitted yet. Raises ValueError for what cannot be done."""
        self._rules.begin(act)

    def at(self, ended: list[int], act: Accounting) -> None:
        """These jobs have ended now, and whatever is due happens; submits and a pass follow."""
        self._rules.at(ended, (), act)

    def after_pass(self, act: Accounting) -> bool:
        """The scheduler has started what it could. Returns whether another pass must follow at the same time."""
        return self._rules.watches_passes and self._rules.after_pass(act)
