"""Algorithms decide which nodes change pools. `interface.py` is all that a new one has to know."""
