"""The commands of `balancer`."""
