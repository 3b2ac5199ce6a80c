"""Slurm's twin: the rules of its documentation, in virtual time. See `docs/slurm-twin.md`."""
