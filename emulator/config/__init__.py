"""Parts of a scenario, as they are read."""
