"""A notice strategy of the mechanism `hybrid`: what is done when an on-demand job is announced."""

from dataclasses import dataclass

from emulator.mechanisms.hybrid.notice_plan import Preparation


@dataclass(frozen=True, slots=True)
class Collect:
    """Holds whatever becomes free until there is enough."""

    def prepare(self, outlook):
        return Preparation(collects=True)
