"""An arrival strategy of the mechanism `hybrid`: where nodes come from when an on-demand job is there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitForEnds:
    """Takes nothing from running jobs: the on-demand job waits."""

    def make_room(self, running, needed):
        return None
