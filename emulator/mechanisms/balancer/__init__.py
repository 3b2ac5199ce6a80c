"""The Balancer (balancer-liu-2018) as a mechanism: the service's own life cycle, on any clock."""
