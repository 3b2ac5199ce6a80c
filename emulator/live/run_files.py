"""Where a live run keeps what its processes share: one folder, on one machine or on a volume of containers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.runs.scenario import Scenario


class RunFiles:
    """The files in the folder `root`. Whoever looks for one of them asks here for its name.

    `state`: what must be known to go on with the run.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = root / "clock"
        self.state = root / "state.json"
        self.batch_home = root / "torque"
        self.ledger = root / "ledger.db"
        self.tokens = root / "tokens"
        self.hook_keys = root / "hook-keys"
        self.workload = root / "workload.npz"
        self.replay_log = root / "replay.jsonl"
        self.ondemand_memory = root / "ondemand.memory"

    def ready(self, name: str) -> Path:
        """Where the process of this name says that it is ready."""
        return self.root / f"{name}.ready"


@dataclass(slots=True)
class State:
    """A run.

    `agents`: what those who play the nodes are called at the clock; `passed`: whom everybody has waited for already;
    `token`: with which the services call the Balancer; `viewer_token`: with which people look at it;
    `marks`: (us, text); `over`: nothing more will happen.
    """

    run: str
    scenario: dict[str, Any]
    nodes: int
    node_names: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    token: str = ""
    viewer_token: str = ""
    marks: list[tuple[int, str]] = field(default_factory=list)
    steps_done: int = 0
    wall_us: int = 0
    over: bool = False

    def save(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> State:
        state = cls(**json.loads(path.read_text(encoding="utf-8")))
        state.marks = [(int(at_us), str(text)) for at_us, text in state.marks]
        return state


def forgotten(state: State, scenario: Scenario) -> str:
    """What is said of a run that was interrupted, when another scenario takes its place."""
    now = scenario.model_copy(update={"nodes": state.nodes}).as_json()
    before, after = _flat(state.scenario), _flat(now)
    changes = [
        f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    why = f"the scenario is another one ({'; '.join(changes)})" if changes else "its clock is gone"
    return f"run {state.run}, which was interrupted, is forgotten: {why}"


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Keys with dots -> what stands there."""
    if not isinstance(value, dict):
        return {prefix: str(value)}
    return {
        key: text
        for name, each in value.items()
        for key, text in _flat(each, f"{prefix}.{name}" if prefix else str(name)).items()
    }
