"""PrologSlurmctld and EpilogSlurmctld: tell the Balancer which nodes a job takes and gives back.

They run once a job on the controller and end well (exit 0) whatever happens. What real Slurm does with a
failure: PrologSlurmctld requeues the job two minutes into the future and cancels an interactive one; a *node's*
Prolog or Epilog drains the node, so that an outage of ours could empty the cluster: ours must not be put there.
A job that starts on a lent node all the same is found by the next reading of the nodes, and a drained node gets none.

Only the standard library, as in `balancer.hooks.client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.hooks.client import START, HookSettings, say, send_update
from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATES = {"slurm-prolog": "busy", "slurm-epilog": "idle"}


def slurm_hook(hook: str, environ: Mapping[str, str]) -> int:
    """`balancer hook slurm-prolog|slurm-epilog`; the job is in the environment, there are no arguments."""
    job = environ.get("SLURM_JOB_ID", "")
    # The controller's hooks have the first name, a node's the second.
    listed = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST", "")
    try:
        nodes = expand(listed)
    except NodeListError as error:
        say(f"the nodes of job {job or '?'} are not known: $SLURM_JOB_NODELIST is {listed!r}: {error}")
        return START
    if not job:
        say("$SLURM_JOB_ID is not set: this must be run by slurmctld")
        return START
    remaining_s = time_limit_s(environ) if hook == "slurm-prolog" else None
    answer = send_update(HookSettings.from_environment(environ), nodes, _STATES[hook], job, remaining_s)
    if not answer.accepted:
        say(f"the Balancer did not take note of job {job} ({answer.detail})")
    return START


def time_limit_s(environ: Mapping[str, str]) -> float | None:
    """How long the job may run, as far as its hook is told (since Slurm 23.02)."""
    try:
        limit_s = int(environ["SLURM_JOB_END_TIME"]) - int(environ["SLURM_JOB_START_TIME"])
    except (KeyError, ValueError):
        return None
    return float(limit_s) if limit_s > 0 else None
