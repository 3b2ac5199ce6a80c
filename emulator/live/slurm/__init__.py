"""The real Slurm, unpatched, as the batch system of a live run, on a clock that runs faster."""
