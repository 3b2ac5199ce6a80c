"""The Balancer's hooks inside a node agent: the code of the scripts without their processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from balancer.hooks import START, HookSettings, epilogue, nodes_of_job, prologue, walltime_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RESOURCES_ARGUMENT = 5


def hook(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """`arguments` are `prologue` or `epilogue` and what Torque hands to the script. Returns its exit status."""
    settings = HookSettings.from_environment(os.environ)
    kind, job = arguments[0], arguments[1]
    nodes = nodes_of_job(environ)
    if kind == "epilogue":
        epilogue(settings, nodes, job)
        return START
    return prologue(settings, nodes, job, walltime_s(arguments[_RESOURCES_ARGUMENT]))
