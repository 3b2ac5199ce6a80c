"""What happens to nodes and jobs from outside: failures, outages, power, dependencies, limits."""
