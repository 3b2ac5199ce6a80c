"""From a scenario to a run's record."""
