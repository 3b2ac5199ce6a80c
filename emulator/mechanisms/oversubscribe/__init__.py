"""Oversubscription: several jobs on the same cores (oversubscribing-minami-2023)."""

from emulator.mechanisms.oversubscribe.mechanism import DedicatedNodes, Oversubscribe

__all__ = ["DedicatedNodes", "Oversubscribe"]
