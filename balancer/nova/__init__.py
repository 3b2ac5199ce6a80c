"""An unmodified Nova asks the Balancer. `scheduler_filter` and `wanted` alone import Nova."""
