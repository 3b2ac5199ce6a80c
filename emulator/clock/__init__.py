"""The clock of a live run, and the order of events of one time."""
