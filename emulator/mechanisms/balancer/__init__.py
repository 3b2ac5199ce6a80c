"""The Balancer (balancer-liu-2018) as a mechanism: the service's own life cycle, on any clock."""

from emulator.mechanisms.balancer.mechanism import BalancerMechanism

__all__ = ["BalancerMechanism"]
