"""Prologue and epilogue of Torque: tell the Balancer which nodes a job takes and gives back.

Hooks are advisory and never harm the batch system. What real Torque does with a prologue's exit status:
0 starts the job, 1 *aborts* it, anything else puts it back into the queue. So these hooks exit 0, or 2 when
the node is not the batch system's to use, and never anything else, whatever goes wrong:

    the Balancer agrees                                    0
    the Balancer says that a node is in the other pool     2 (the job is requeued)
    no clear answer within the deadline                    0, but 2 if a marker file on this node says that
                                                           the node has been handed over

Only the standard library, and no command-line parser: this runs on the node before every job, and a parser's
"usage" exit status would requeue jobs for ever.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.hooks.client import START, HookSettings, say, send_update

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REQUEUE = 2

_RESOURCES_ARG = 4
_HELP = """usage: balancer hook prologue|epilogue JOBID [ARGS OF TORQUE...]
       balancer hook slurm-prolog|slurm-epilog

Tells the Balancer that the job takes (prologue) or gives back (epilogue) the nodes in $PBS_NODEFILE, or in
$SLURM_JOB_NODELIST. Settings: BALANCER_URL, BALANCER_MARKER, BALANCER_HOOK_DEADLINE_S, BALANCER_HOOK_KEY_FILE,
BALANCER_CA_FILE. Exits 0, or, Torque's prologue only, 2 to have the job requeued.
"""


def prologue(settings: HookSettings, nodes: Sequence[str], job: str, remaining_s: float | None) -> int:
    """The exit status for a job that is about to start on `nodes`."""
    answer = send_update(settings, nodes, "busy", job, remaining_s)
    if answer.accepted:
        return START
    if answer.refused:
        say(f"job {job} goes back to the queue: {answer.detail}")
        return REQUEUE
    marked = _is_marked(settings)
    say(
        f"no clear answer from the Balancer ({answer.detail}); "
        f"the job {'is requeued' if marked else 'starts'}"
    )
    return REQUEUE if marked else START


def epilogue(settings: HookSettings, nodes: Sequence[str], job: str) -> int:
    """Always 0: Torque ignores an epilogue's failure, and polling finds what a lost message did not tell."""
    answer = send_update(settings, nodes, "idle", job, None)
    if not answer.accepted:
        say(f"the Balancer did not take note of the end of job {job} ({answer.detail})")
    return START


def nodes_of_job(environ: Mapping[str, str]) -> list[str]:
    """The job's nodes, each once, from $PBS_NODEFILE (one line a slot)."""
    lines = Path(environ["PBS_NODEFILE"]).read_text(encoding="utf-8").split()
    return list(dict.fromkeys(lines))


def walltime_s(resources: str) -> float | None:
    """The wall time in Torque's resource list ("nodes=2:ppn=2,walltime=00:10:00"), None where not given."""
    match = re.search(r"(?:^|,)walltime=(?:(?:(?:(\d+):)?(\d+):)?(\d+):)?(\d+)(?:,|$)", resources)
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def main(arguments: Sequence[str]) -> int:
    """`balancer hook prologue|epilogue JOBID ...`; see the module's text for the exit status."""
    settings = HookSettings.from_environment(os.environ)
    match list(arguments):
        case [("prologue" | "epilogue") as hook, job, *more]:
            try:
                nodes = nodes_of_job(os.environ)
            except (KeyError, OSError, ValueError) as error:
                say(f"the nodes of job {job} are not known: {error!r}; $PBS_NODEFILE must name a file")
                return REQUEUE if hook == "prologue" and _is_marked(settings) else START
            if hook == "epilogue":
                return epilogue(settings, nodes, job)
            resources = more[_RESOURCES_ARG - 1] if len(more) >= _RESOURCES_ARG else ""
            return prologue(settings, nodes, job, walltime_s(resources))
        case [("slurm-prolog" | "slurm-epilog") as hook, *_]:
            from balancer.hooks.slurm import slurm_hook  # noqa: PLC0415 - Torque's hooks do not need it

            return slurm_hook(hook, os.environ)
        case ["--help" | "-h", *_]:
            sys.stdout.write(_HELP)
        case _:
            sys.stderr.write(_HELP)
    return START


def _is_marked(settings: HookSettings) -> bool:
    """An unreadable marker is none: `exists` would raise for a loop of links or a name that is too long."""
    try:
        return settings.marker.exists()
    except (OSError, ValueError):
        return False
