"""The on-demand manager of the live fleet: one whole node a server, in the manner of Nova's FakeDriver.

It speaks enough of Keystone, Nova, Glance and Placement (and of an empty Neutron) for the unmodified
openstacksdk and `openstack` command. Its nodes come from a `NodeSource`: the Balancer, or a fixed pool.
One module a service; `cloud.py` holds the servers and knows nothing of HTTP.
"""
