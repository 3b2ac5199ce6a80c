"""An unmodified Nova asks the Balancer. `scheduler_filter`, `second_look` and `pending_servers` alone import Nova."""
