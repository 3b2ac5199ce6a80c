"""What must be known to go on with a live run: a file beside its clock, whoever started its processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from pathlib import Path


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
