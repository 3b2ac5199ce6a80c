"""Real-time jobs on a batch machine: five schemes against the baseline (realtime-wang-2017)."""

from emulator.mechanisms.realtime.mechanism import Realtime

__all__ = ["Realtime"]
