"""What each container of a fleet is told when it starts: the settings of its program, and files of the user's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.live import services
from emulator.live.containers.names import (
    BALANCER,
    BALANCER_PORT,
    BATCH,
    BATCH_PORT,
    ONDEMAND,
    ONDEMAND_PORT,
    REPLAYER,
    SHARED,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from balancer.plugin_files import PluginFile
    from emulator.harness.mechanism import HasNotice
    from emulator.mechanisms.balancer import BalancerMechanism
    from emulator.mechanisms.balancer.forecast import PredictorSettings
    from emulator.scenario import Scenario
    from emulator.workload.table import JobTable

PRIVATE = "/run/fleet"
COMMANDS = "/opt/batch/bin"
"""The batch system's commands in the images of those who use them, made when the image is."""
HOOKS = "/opt/batch/hooks"
SCRATCH = "/scratch"
"""A volume of all nodes, for what jobs write and for their checkpoints."""
_DAY_S = 86_400
_BALANCER_URL, _ONDEMAND_URL = f"http://{BALANCER}:{BALANCER_PORT}", f"http://{ONDEMAND}:{ONDEMAND_PORT}"
_BEFORE = "before.json"
_HOOK_INSIDE = "emulator.live.balancer_hooks:hook"


@dataclass(frozen=True, slots=True)
class Shared:
    """Where things lie in the fleet's volume."""

    root: Path = SHARED

    @property
    def clock(self) -> Path:
        return self.root / "clock"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def batch_home(self) -> Path:
        return self.root / "torque"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.db"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens"

    @property
    def hook_keys(self) -> Path:
        return self.root / "hook-keys"

    @property
    def workload(self) -> Path:
        return self.root / "workload.npz"

    @property
    def replay_log(self) -> Path:
        return self.root / "replay.jsonl"

    @property
    def replayer_ready(self) -> Path:
        return self.root / "replayer.ready"

    @property
    def predictor_ready(self) -> Path:
        return self.root / "predictor.ready"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the settings depend on besides the scenario."""

    node_names: tuple[str, ...]
    ledger: str
    token: str
    epoch_s: int


def batch(
    scenario: Scenario, shared: Shared, expect_nodes: int, epoch_s: int, *, np: int, with_mechanism: bool
) -> dict[str, Any]:
    """`np`: slots of a node. `with_mechanism`: the server has it (every one but the Balancer, a service)."""
    more = services.batch_mechanism(scenario, shared.workload) if with_mechanism else {}
    return more | {
        "home": str(shared.batch_home),
        "expect_nodes": expect_nodes,
        "np": np,
        "keep_jobs": True,
        "host": "0.0.0.0",  # noqa: S104 - the container's own network
        "port": BATCH_PORT,
        "scheduler": services.scheduler(scenario),
        "epoch_s": epoch_s,
        "cycle_after_offline": True,
        # A replayer that was killed asks what became of the job that it was about to submit.
        "keep_completed_s": _DAY_S,
    }


def node(nodes: Sequence[str], *, np: int, hooked: bool) -> dict[str, Any]:
    """An agent's. One that plays many nodes has their hooks in itself: a process for each would be too much for it."""
    config: dict[str, Any] = {
        "home": f"{PRIVATE}/mom",
        "nodes": list(nodes),
        "np": np,
        "server": f"{BATCH}:{BATCH_PORT}",
        "walltime_check_s": 0,
        "restart": "requeue",  # a container that is gone takes its processes with it, as a node does
    }
    if hooked and len(nodes) == 1:
        config["hooks"] = {"kind": "script", "prologue": f"{HOOKS}/prologue", "epilogue": f"{HOOKS}/epilogue"}
    elif hooked:
        config["hooks"] = {"kind": "python", "prologue": _HOOK_INSIDE, "epilogue": _HOOK_INSIDE}
    return config


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


def places(shared: Shared, facts: Facts) -> services.Places:
    return services.Places(
        facts.node_names, shared.clock, facts.ledger, shared.tokens, shared.hook_keys, facts.token
    )


def balancer(mechanism: BalancerMechanism, shared: Shared, facts: Facts) -> dict[str, Any]:
    return services.balancer(mechanism, places(shared, facts)) | {
        "driver": {"torque": {"pbsnodes": f"{COMMANDS}/pbsnodes", "qmgr": f"{COMMANDS}/qmgr"}},
        "host": "0.0.0.0",  # noqa: S104 - the container's own network; callers authenticate
        "port": BALANCER_PORT,
        "log_level": "warning",
        "confirm_poll_s": 0.005,
    }


def ondemand(mechanism: BalancerMechanism, shared: Shared, facts: Facts) -> dict[str, Any]:
    return services.ondemand(mechanism, places(shared, facts), _BALANCER_URL) | {
        "listen": "0.0.0.0",  # noqa: S104 - the container's own network; callers log in
        "port": ONDEMAND_PORT,
        "memory": str(shared.root / "ondemand.memory"),
    }


def predictor(
    forecasts: PredictorSettings, jobs: JobTable, shared: Shared, facts: Facts, plugins: Sequence[PluginFile]
) -> dict[str, Any]:
    """Its program reads no settings but its arguments."""
    names, files = _private_copies(plugins)
    arguments = services.predictor_arguments(
        forecasts, jobs, places(shared, facts), _BALANCER_URL,
        before=Path(PRIVATE) / _BEFORE, ready_file=shared.predictor_ready,
        plugins=[f"{Path(PRIVATE) / names[each.file]}:{each.name}" for each in plugins],
    )  # fmt: skip
    files = files | {_BEFORE: services.slots_before(forecasts)}
    return {
        "config": {},
        "arguments": arguments,
        "files": files,
        "environ": {"BALANCER_TOKEN": facts.token},
    }


def replayer(
    mechanism: BalancerMechanism | None,
    shared: Shared,
    facts: Facts,
    *,
    in_batch: HasNotice | bool,
    real_jobs: bool,
) -> dict[str, Any]:
    """`in_batch`: the batch server has the mechanism, which may want notices. `real_jobs`: each an `emulator-job`."""
    config: dict[str, Any] = {
        "workload": str(shared.workload),
        "result": str(shared.replay_log),
        "clock": str(shared.clock),
        "qsub": [f"{COMMANDS}/qsub"],
        "ready_file": str(shared.replayer_ready),
        "resume": True,
    }
    if real_jobs:
        config["job_folder"] = SCRATCH
    if in_batch:
        config["qnotice"] = [f"{COMMANDS}/qnotice"]
        config["notice_s"] = services.notices(None if isinstance(in_batch, bool) else in_batch)
    if mechanism is not None:
        config |= services.replayed_leases(mechanism, places(shared, facts), _BALANCER_URL, _ONDEMAND_URL)
    return config


def _private_copies(plugins: Sequence[PluginFile]) -> tuple[dict[Path, str], dict[str, str]]:
    """Names of the user's files in the folder of a role's settings, and their texts, as they are now."""
    names = {
        file: f"{place}-{file.name}" for place, file in enumerate(dict.fromkeys(p.file for p in plugins))
    }
    return names, {name: file.read_text(encoding="utf-8") for file, name in names.items()}


def with_plugins(plugins: Sequence[PluginFile], config: dict[str, Any]) -> dict[str, Any]:
    """A role's settings with the user's files, as they are now: they lie beside the settings in its container."""
    names, files = _private_copies(plugins)
    there = [
        each.model_copy(update={"file": Path(PRIVATE) / names[each.file]}).model_dump(mode="json")
        for each in plugins
    ]
    return {"config": config | {"plugins": there}, "files": files} if plugins else {"config": config}


ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    BALANCER: {"TORQUE_USER": "root"},
    REPLAYER: {"TORQUE_USER": "alice"},
}
"""As whom the batch commands are given."""
