"""What columns of sacctmgr's tables say that Slurm's twin does not do, and what each would have done.

The names are those of sacctmgr's manual page (22.05 to 25.11), in lower case.
"""

from __future__ import annotations

import re

_USED_UP = "Slurm would start no more jobs once so much has been used"
_MAY_USE = "Slurm would have jobs wait while those that run may still use more"
_TAKES = "Slurm would take no more jobs at once"
_AGE = "Slurm would let no more waiting jobs gain priority by age"
_WOULD = {
    r"preempt": "a plain scheduler does not preempt",
    r"grptresmins?|grpwall": _USED_UP,
    r"(grp|max)tresrunmins?(pa|pu|peraccount|peruser)?": _MAY_USE,
    r"(grp|max)submit(jobs)?(pa|pu|peraccount|peruser)?": _TAKES,
    r"(grp|max)jobsaccrue(pa|pu|peraccount|peruser)?": _AGE,
    r"maxtresmins(perjob)?": "Slurm would refuse jobs that may use more",
    r"maxtrespernode|maxtrespn": "Slurm would refuse jobs that ask for more of a node",
    r"maxjobs(pa|peraccount)|maxtres(pa|peraccount)": "Slurm would have more jobs of an account wait",
    r"minpriothresh(old)?": "Slurm would plan no job of a lower priority",
    r"usagefactor": "Slurm would count usage so many times",
    r"usagethres(hold)?": "Slurm would start no job of who has less fair share",
    r"limitfactor": "Slurm would multiply the limits of associations by it",
    r"flags": "the twin has none of Slurm's flags of QOS but DenyOnLimit",
    r"priority": "the twin has no priorities of associations",
}


def would_have_done(column: str) -> str:
    """In words, of a column in lower case."""
    found = (what for pattern, what in _WOULD.items() if re.fullmatch(pattern, column))
    return next(found, "no column that is known here, so what it would have done is not")
