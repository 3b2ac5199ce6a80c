"""Names of input rules: what becomes of a job that runs longer than its estimate, and what a job's size is."""

from __future__ import annotations

from typing import Literal, TypeAlias

Overrun: TypeAlias = Literal["extend", "kill", "run_on"]
"""The estimate is raised to the run time (`extend`), or the run time cut at it (`kill`), or both stay as they are:
from its estimate on the job is expected to end now (`run_on`; Tsafrir, Etsion, Feitelson 2005)."""

Size: TypeAlias = Literal["nodes", "procs", "requested"]
"""A job has the whole nodes that the log says, else the processors it had (SWF field 5), else those it asked for (8);
or the same without nodes that the log says (`procs`); or the processors it asked for (8), else those it had
(`requested`)."""
