"""What a fleet in containers is asked for, and whether it can do it."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.config.run_parts import OUR_BATCH_SYSTEM, OUR_MANAGER
from emulator.live.containers.names import NODE
from emulator.live.launchers import Launcher
from emulator.runs.scenario import ScenarioError, load

if TYPE_CHECKING:
    from emulator.runs.scenario import Scenario


_LAUNCHER = Launcher(
    "a fleet in containers", "use `emulator run --clock live`",
    batch=OUR_BATCH_SYSTEM, ondemand=OUR_MANAGER, hooks="script", has_cpu_bound_jobs=False,
)  # fmt: skip

_PROFILES = {
    "slurm": "docker compose --profile slurm up --exit-code-from slurm slurm",
    "nova": "docker compose --profile nova up --exit-code-from nova nova",
}
"""Parts of a scenario that are real, and what runs them in containers."""


class ControllerError(Exception):
    """The run cannot begin; the text says why and what to do."""


def expected_nodes() -> int:
    """$FLEET_NODES, else how many containers the node service has: its name has an address for each."""
    text = os.environ.get("FLEET_NODES")
    if text:
        return int(text)
    service = os.environ.get("FLEET_NODE_SERVICE", NODE)
    try:
        found = {address[4][0] for address in socket.getaddrinfo(service, None, family=socket.AF_INET)}
    except OSError as error:
        raise ControllerError(f"there is no {service} to be found ({error}); set FLEET_NODES") from error
    return len(found)


def read_scenario() -> Scenario:
    """The scenario of $FLEET_SCENARIO with the changes of $FLEET_SET (KEY=VALUE, one a line or separated by spaces)."""
    path = Path(os.environ.get("FLEET_SCENARIO") or "/scenarios/fleet.yaml")
    return load(path, tuple(os.environ.get("FLEET_SET", "").split()))


def check_containers(scenario: Scenario, *, has_rest: bool = False) -> None:
    """Raise ScenarioError for what has no containers. Nothing has begun yet.

    `has_rest`: one container plays many nodes, whose hooks are in its agent.
    """
    real = [name for name in (scenario.live.batch_name, scenario.live.ondemand_name) if name in _PROFILES]
    why = f"{real[0]} has containers of its own: {_PROFILES[real[0]]}" if real else _LAUNCHER.why
    replace(_LAUNCHER, why=why).check(scenario)
    if has_rest and "hooks" in scenario.live.model_fields_set:
        raise ScenarioError(
            "live.hooks: nodes with a container of their own have scripts, those that one container plays have"
            " them in_process; leave it out, or give every node a container"
        )
