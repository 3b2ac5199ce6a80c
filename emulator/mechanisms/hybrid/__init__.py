"""Hybrid workloads: on-demand, rigid and malleable jobs on one machine (hybrid-fan-2021)."""

from emulator.mechanisms.hybrid.mechanism import HybridMechanism

__all__ = ["HybridMechanism"]
