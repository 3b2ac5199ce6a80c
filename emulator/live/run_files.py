"""Where a live run keeps what its processes share: one folder, on one machine or on a volume of containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files in the folder `root`. Whoever looks for one of them asks here for its name."""

    root: Path

    @property
    def clock(self) -> Path:
        return self.root / "clock"

    @property
    def state(self) -> Path:
        """What must be known to go on with the run (`emulator/live/state.py`)."""
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
    def ondemand_memory(self) -> Path:
        return self.root / "ondemand.memory"

    def ready(self, name: str) -> Path:
        """Where the process of this name says that it is ready."""
        return self.root / f"{name}.ready"
