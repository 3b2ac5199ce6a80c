"""On the Combined Scheduling of Malleable and Rigid Jobs (malleable-hungershoefer-2004)."""

from emulator.experiments.malleable.paper import PAPER

__all__ = ["PAPER"]
