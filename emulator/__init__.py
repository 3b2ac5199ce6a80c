"""The testbed: replays workloads against the Balancer and other mechanisms, in virtual time and live."""
