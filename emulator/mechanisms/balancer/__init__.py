"""The Balancer (balancer-liu-2018) as a mechanism: the service's own life cycle and algorithms, in any clock."""
