"""Names of further columns of the job table (`JobTable.extra`) that several parts of the program read."""

from __future__ import annotations

QOS = "qos"
"""The place of a job's QOS in the table of a scenario's `qos`, by name."""
QOS_OF_LOG = "qos_of_log"
"""The number of the QOS that the log says of a job, for Slurm's twin."""
CONSTRAINT_OF_LOG = "constraint_of_log"
"""The number of the constraint that the log says of a job (`sbatch --constraint`), for Slurm's twin."""
TIER = "qos_tier"
"""The rank of its priority, 0 the highest; where priorities differ."""
FACTOR_PPB = "qos_factor_ppb"
"""Its priority / the highest of the table, in parts per billion (Slurm's QOS factor, *Multifactor Priority Plugin*)."""
PPB = 1_000_000_000
