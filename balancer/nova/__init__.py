"""An unmodified Nova asks the Balancer. `scheduler_filter`, `second_look` and `wanted` alone import Nova."""
