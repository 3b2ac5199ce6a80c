"""What becomes of a job that runs longer than its estimate."""

from __future__ import annotations

from typing import Literal, TypeAlias

Overrun: TypeAlias = Literal["extend", "kill", "run_on"]
"""The estimate is raised to the run time (`extend`), or the run time cut at it (`kill`), or both stay as they are:
from its estimate on the job is expected to end now (`run_on`; Tsafrir, Etsion, Feitelson 2005)."""
