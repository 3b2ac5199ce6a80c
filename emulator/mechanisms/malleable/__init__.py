"""Moldable and malleable jobs (Hungershöfer, On the Combined Scheduling of Malleable and Rigid Jobs, 2004)."""

from emulator.mechanisms.malleable.mechanism import Malleable

__all__ = ["Malleable"]
