"""The experiments of hybrid-fan-2021."""

from emulator.experiments.hybrid.paper import PAPER

__all__ = ["PAPER"]
