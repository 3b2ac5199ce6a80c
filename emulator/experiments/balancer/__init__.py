"""Dynamically Negotiating Capacity Between On-demand and Batch Clusters (balancer-liu-2018)."""

from emulator.experiments.balancer.paper import PAPER

__all__ = ["PAPER"]
