"""What each container of a fleet is told when it starts: the settings of its program, and files of the user's."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import seconds
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
    from emulator.scenario import Scenario

PRIVATE = "/run/fleet"
COMMANDS = "/opt/batch/bin"
"""The batch system's commands in the images of those who use them, made when the image is."""
HOOKS = "/opt/batch/hooks"
SCRATCH = "/scratch"
"""A volume of all nodes, for what jobs write and for their checkpoints."""
_DAY_S = 86_400
_RECONCILE_S = 6 * 3600.0


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
    def results(self) -> Path:
        return self.root / "results"


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
    scheduler = {
        ("pass" if key == "pass_" else key): value for key, value in asdict(scenario.scheduler_config).items()
    }
    mechanism = {"mechanism": scenario.mechanism, "workload": str(shared.workload)}
    more = mechanism | {"queues": ["batch", "ondemand"], "seed": scenario.seed} if with_mechanism else {}
    return more | {
        "home": str(shared.batch_home),
        "expect_nodes": expect_nodes,
        "np": np,
        "keep_jobs": True,
        "host": "0.0.0.0",  # noqa: S104 - the container's own network
        "port": BATCH_PORT,
        "scheduler": scheduler,
        "epoch_s": epoch_s,
        "cycle_after_offline": True,
        # A replayer that was killed asks what became of the job that it was about to submit.
        "keep_completed_s": _DAY_S,
    }


def node(name: str, *, np: int, hooked: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
        "home": f"{PRIVATE}/mom",
        "nodes": [name],
        "np": np,
        "server": f"{BATCH}:{BATCH_PORT}",
        "walltime_check_s": 0,
        "restart": "requeue",  # a container that is gone takes its processes with it, as a node does
    }
    if hooked:
        config["hooks"] = {"kind": "script", "prologue": f"{HOOKS}/prologue", "epilogue": f"{HOOKS}/epilogue"}
    return config


def hook_environment() -> str:
    """What the hook scripts of a node read: Torque hands them none of its own environment."""
    values = {
        "BALANCER_URL": f"http://{BALANCER}:{BALANCER_PORT}",
        "BALANCER_HOOK_KEY_FILE": f"{PRIVATE}/hook.key",
        "BALANCER_MARKER": f"{PRIVATE}/handed-over",
    }
    return "".join(f"export {name}={value}\n" for name, value in values.items())


def balancer(mechanism: BalancerMechanism, shared: Shared, facts: Facts) -> dict[str, Any]:
    return {
        "nodes": list(facts.node_names),
        "driver": {"torque": {"pbsnodes": f"{COMMANDS}/pbsnodes", "qmgr": f"{COMMANDS}/qmgr"}},
        "algorithm": mechanism.algorithm,
        "reserve": mechanism.static_reserve,
        "wait_s": mechanism.wait_s,
        "idle_hold_s": mechanism.idle_hold_s,
        "pick": mechanism.pick,
        "db": facts.ledger,
        "host": "0.0.0.0",  # noqa: S104 - the container's own network; callers authenticate
        "port": BALANCER_PORT,
        "auth": True,
        "token_file": str(shared.tokens),
        "hook_key_file": str(shared.hook_keys),
        "hook_skew_s": 3600,
        "log_level": "warning",
        "rate_per_s": 0,  # cluster time runs fast: nobody here calls too often
        "clock": {"shared": {"path": str(shared.clock), "name": BALANCER}},
        "reconcile_period_s": _RECONCILE_S,
        "refresh_age_s": 0,
        "at_once_s": 3600,  # time may run far faster than the programs
        "confirm_s": 3600,
        "mark_wait_s": 60,
        "confirm_poll_s": 0.005,
    }


def ondemand(mechanism: BalancerMechanism, shared: Shared, facts: Facts) -> dict[str, Any]:
    return {
        "listen": "0.0.0.0",  # noqa: S104 - the container's own network; callers log in
        "port": ONDEMAND_PORT,
        "clock": str(shared.clock),
        "memory": str(shared.root / "ondemand.memory"),
        "balancer_url": f"http://{BALANCER}:{BALANCER_PORT}",
        "balancer_token": facts.token,
        "wait_s": mechanism.wait_s,
        "hosts": list(facts.node_names),
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
        config["notice_s"] = None if isinstance(in_batch, bool) else seconds(in_batch.notice_us) or None
    if mechanism is not None:
        config |= {
            "cloud": {"auth_url": f"http://{ONDEMAND}:{ONDEMAND_PORT}/identity/v3"},
            "wait_s": mechanism.wait_s,
            "balancer_url": f"http://{BALANCER}:{BALANCER_PORT}",
            "balancer_token": facts.token,
            "notice_s": mechanism.notice_s or None,
        }
    return config


def with_plugins(plugins: Sequence[PluginFile], config: dict[str, Any]) -> dict[str, Any]:
    """A role's settings with the user's files, as they are now: they lie beside the settings in its container."""
    names = {
        file: f"{place}-{file.name}" for place, file in enumerate(dict.fromkeys(p.file for p in plugins))
    }
    there = [
        each.model_copy(update={"file": Path(PRIVATE) / names[each.file]}).model_dump(mode="json")
        for each in plugins
    ]
    files = {name: file.read_text(encoding="utf-8") for file, name in names.items()}
    return {"config": config | {"plugins": there}, "files": files} if plugins else {"config": config}


ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    BALANCER: {"TORQUE_USER": "root"},
    REPLAYER: {"TORQUE_USER": "alice"},
}
"""As whom the batch commands are given."""
