"""The Balancer: a service that moves whole nodes between an on-demand pool and a batch pool."""
