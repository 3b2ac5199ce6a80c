"""Predictors say how many nodes a coming slot of time will be asked for. `interface.py` is all a new one needs."""
