"""Effectiveness of the Oversubscribing Scheduling on Supercomputer Systems (oversubscribing-minami-2023)."""

from emulator.experiments.oversubscribe.paper import PAPER

__all__ = ["PAPER"]
