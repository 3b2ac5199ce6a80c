"""A Torque in a file: its `pbsnodes` as a program on PATH, and jobs that start and end by hand."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_PBSNODES = """#!{python} -S
import fcntl, json, sys
with open("{state}", "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    nodes = json.load(file)
    if sys.argv[1] == "-x":
        shown = ""
        for name in sys.argv[2:] or nodes:
            node = nodes[name]
            words = (["job-exclusive"] if node["job"] else []) + (["offline"] if node["offline"] else [])
            jobs = "<jobs>0/%s</jobs>" % node["job"] if node["job"] else ""
            note = "<note>%s</note>" % node["note"] if node["note"] else ""
            state = ",".join(words) or "free"
            shown += "<Node><name>%s</name><state>%s</state>%s%s</Node>" % (name, state, jobs, note)
        print("<Data>" + shown + "</Data>")
    else:
        note = sys.argv[sys.argv.index("-N") + 1] if "-N" in sys.argv else ""
        for name in set(sys.argv[2:]) & set(nodes):
            nodes[name]["offline"] = sys.argv[1] == "-o"
            nodes[name]["note"] = note if sys.argv[1] == "-o" else ""
        file.seek(0)
        file.truncate()
        json.dump(nodes, file)
"""


class FileTorque:
    """`environment`: what a process needs to find it."""

    def __init__(self, folder: Path, nodes: Iterable[str]) -> None:
        self._state = folder / "torque.json"
        self._state.write_text(
            json.dumps({name: {"job": None, "offline": False, "note": ""} for name in nodes})
        )
        programs = folder / "bin"
        programs.mkdir()
        pbsnodes = programs / "pbsnodes"
        pbsnodes.write_text(_PBSNODES.format(python=sys.executable, state=self._state), encoding="utf-8")
        pbsnodes.chmod(0o755)
        (programs / "qmgr").symlink_to("/bin/true")
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}"}

    @contextmanager
    def nodes(self) -> Iterator[dict[str, dict[str, Any]]]:
        """What it knows of each node, for changing."""
        with self._state.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            nodes = json.load(file)
            yield nodes
            file.seek(0)
            file.truncate()
            json.dump(nodes, file)

    def set_job(self, node: str, job: str | None) -> None:
        with self.nodes() as nodes:
            nodes[node]["job"] = job
