"""The image of a node has few packages, since there may be hundreds of nodes: its programs must need no other."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAMS = "emulator.live.containers.entry, emulator.live.agent, emulator.live.job.program"
_LOADED = f"""
import sys
before = set(sys.modules)
import {PROGRAMS}
from importlib.metadata import packages_distributions
of = packages_distributions()
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*{{each for name in loaded for each in of.get(name, [])}})
"""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def with_what_they_need(names: list[str]) -> set[str]:
    found: set[str] = set()
    while names:
        name = canonical(names.pop())
        if name not in found:
            found.add(name)
            needed = [line for line in requires(name) or [] if "extra ==" not in line]
            names += [re.split(r"[\s;\[<>=!~(]", line, maxsplit=1)[0] for line in needed]
    return found


def test_the_image_of_a_node_has_all_that_an_agent_needs():
    dockerfile = (ROOT / "containers" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    picked = re.search(r"packages\.py split /opt/venv /opt/node ([^&]+)&&", dockerfile)
    assert picked
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], check=True, capture_output=True, text=True, timeout=120
    )
    loaded = {canonical(name) for name in done.stdout.split()} - {"balancer-emulator"}
    assert "pydantic" in loaded
    assert loaded <= with_what_they_need(picked[1].split())
