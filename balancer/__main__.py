"""`python -m balancer`: the same as the command `balancer`."""

from balancer.cli import main

main()
