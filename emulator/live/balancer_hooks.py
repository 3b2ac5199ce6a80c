"""The Balancer's hooks inside a node agent: the code of the scripts without their processes."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.hooks.client import START, HookSettings, read_keys
from balancer.hooks.torque import epilogue, nodes_of_job, prologue, walltime_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RESOURCES_ARGUMENT = 5


def hook(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """`arguments` are `prologue` or `epilogue` and what Torque hands to the script. Returns its exit status."""
    settings = _settings(Path(os.environ["BALANCER_READY_FILE"]))
    kind, job = arguments[0], arguments[1]
    nodes = nodes_of_job(environ)
    if kind == "epilogue":
        epilogue(settings, nodes, job)
        return START
    return prologue(settings, nodes, job, walltime_s(arguments[_RESOURCES_ARGUMENT]))


@lru_cache(maxsize=1)
def _settings(ready_file: Path) -> HookSettings:
    """Where the Balancer listens is known once it is up, which is after the agent and before the first job."""
    return HookSettings(
        url=json.loads(ready_file.read_text(encoding="utf-8"))["url"],
        marker=Path(os.environ["BALANCER_MARKER"]),
        keys=read_keys(Path(os.environ["BALANCER_HOOK_KEY_FILE"])),
    )
