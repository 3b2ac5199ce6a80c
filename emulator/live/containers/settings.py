"""What a container is told when it starts: what any launcher tells its role (`emulator/live/roles.py`), and how.

Here is what only containers have: names of hosts, ports, folders, and files of the user's, which come as texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.live.containers.names import (
    BALANCER,
    BALANCER_PORT,
    BATCH,
    BATCH_PORT,
    ONDEMAND,
    ONDEMAND_PORT,
    SCRATCH,
)
from emulator.live.roles import Places, RoleConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from balancer.plugin_files import PluginFile
    from emulator.live.run_files import RunFiles

PRIVATE = "/run/fleet"
COMMANDS = "/opt/batch/bin"
"""The batch system's commands in the images of those who use them, made when the image is."""
HOOKS = "/opt/batch/hooks"
_BALANCER_URL, _ONDEMAND_URL = f"http://{BALANCER}:{BALANCER_PORT}", f"http://{ONDEMAND}:{ONDEMAND_PORT}"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - the container's own network; callers authenticate
BATCH_LISTENS: Mapping[str, Any] = {"host": _EVERYWHERE, "port": BATCH_PORT}
BALANCER_LISTENS: Mapping[str, Any] = {"host": _EVERYWHERE, "port": BALANCER_PORT, "log_level": "warning"}
ONDEMAND_LISTENS: Mapping[str, Any] = {"listen": _EVERYWHERE, "port": ONDEMAND_PORT}
NODE_CALLS: Mapping[str, Any] = {"home": f"{PRIVATE}/mom", "server": f"{BATCH}:{BATCH_PORT}"}
HOOK_SCRIPTS = {"prologue": f"{HOOKS}/prologue", "epilogue": f"{HOOKS}/epilogue"}


def places(shared: RunFiles, nodes: Sequence[str], ledger: str, token: str) -> Places:
    return Places(
        nodes,
        shared,
        ledger,
        commands=Path(COMMANDS),
        role_folder=Path(PRIVATE),
        job_folder=Path(SCRATCH),
        token=token,
        balancer_url=_BALANCER_URL,
        ondemand_url=_ONDEMAND_URL,
    )


def carried(role_config: RoleConfig, **process_settings: Any) -> dict[str, Any]:
    """What a role is told, as its container gets it. `process_settings`: where it listens, or whom it calls.

    Files of the user's are sent as they are now: they lie beside the settings in the container.
    """
    names, files = _private_copies(role_config.plugins)
    there = [
        each.model_copy(update={"file": Path(PRIVATE) / names[each.file]}) for each in role_config.plugins
    ]
    return {
        "config": role_config.config_with(there) | process_settings,
        "arguments": role_config.arguments_with(there),
        "environ": role_config.environ,
        "files": files | role_config.files,
    }


def hook_environment(nodes: Sequence[str]) -> dict[str, str]:
    """What hooks of a node read."""
    values = {
        "BALANCER_URL": _BALANCER_URL,
        "BALANCER_HOOK_KEY_FILE": f"{PRIVATE}/hook.key",
        "BALANCER_MARKER": f"{PRIVATE}/handed-over",
    }
    inside = {"BALANCER_READY_FILE": f"{PRIVATE}/balancer.ready", "BALANCER_MARKER": f"{PRIVATE}/no-marker"}
    return values if len(nodes) == 1 else values | inside


def hook_files(keys: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """`keys`: of each node. Torque hands hook scripts none of its own environment."""
    exports = (f"export {name}={value}\n" for name, value in hook_environment(nodes).items())
    return {
        "hook.key": "".join(f"{name} {key}\n" for name, key in keys.items()),
        "hook.env": "".join(exports),
        "balancer.ready": json.dumps({"url": _BALANCER_URL}),
    }


def _private_copies(plugins: Sequence[PluginFile]) -> tuple[dict[Path, str], dict[str, str]]:
    """Names of the user's files in the folder of a role's settings, and their texts, as they are now."""
    names = {
        file: f"{place}-{file.name}" for place, file in enumerate(dict.fromkeys(p.file for p in plugins))
    }
    return names, {name: file.read_text(encoding="utf-8") for file, name in names.items()}
