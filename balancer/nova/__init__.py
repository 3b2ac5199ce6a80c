"""An unmodified Nova asks the Balancer. `scheduler_filter` alone imports Nova."""
