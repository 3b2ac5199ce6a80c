"""A script of openstackclient's commands, one a line, and who runs it.

demo: server list                           it works
demo: server show one -c status = ACTIVE    it prints just that (`-f value` is added)
demo: server show one -c status ~ ACTIVE    it prints that at last
demo: ID < server show one -c id            what it prints is {ID} from here on
demo! server add volume one some            it is refused
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from balancer.clock import wall_us

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE = re.compile(
    r"(?P<user>\w+)(?P<works>[:!]) (?:(?P<name>[A-Z]+) < )?(?P<line>.*?)(?: (?P<how>[=~])(?: (?P<prints>.*))?)?"
)
_LIMIT_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Step:
    user: str
    works: bool
    line: str
    name: str = ""
    prints: str | None = None
    """None: whatever it prints."""
    awaits: bool = False


def read(text: str) -> list[Step]:
    """Empty lines and those that begin with # say nothing."""
    steps = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        assert found is not None, line
        told = found.groupdict()
        command = f"{told['line']} -f value" if told["name"] or told["how"] else told["line"]
        prints = told["prints"] or "" if told["how"] else None
        steps.append(
            Step(told["user"], told["works"] == ":", command, told["name"] or "", prints, told["how"] == "~")
        )
    return steps


class Clients:
    """A process of the client for each account, started when it is first asked. `accounts`: its options by name."""

    def __init__(self, accounts: Mapping[str, list[str]]) -> None:
        self._accounts = accounts
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._told: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wrong(self, step: Step) -> str:
        """Runs it; what is wrong with what came of it, nothing mostly."""
        line = step.line
        for name, text in self._told.items():
            line = line.replace(f"{{{name}}}", text)
        end_us, pause = wall_us() + _LIMIT_US, threading.Event()
        status, output, errors = self.run(step.user, line)
        while step.awaits and output.strip() != step.prints and wall_us() < end_us:
            pause.wait(0.05)
            status, output, errors = self.run(step.user, line)
        if step.name:
            self._told[step.name] = output.strip()
        if (status == 0) == step.works and step.prints in {None, output.strip()}:
            return ""
        return f"{step.user}: {line}\nstatus {status}\n{output}\n{errors[-1500:]}"

    def run(self, user: str, line: str) -> tuple[int, str, str]:
        """Exit status, output and errors of a command."""
        if user not in self._processes:
            command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("osc.py"))]
            process = self._processes[user] = self._stack.enter_context(
                subprocess.Popen(
                    [*command, *self._accounts[user]],
                    text=True,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            self._stack.callback(process.stdin.close)
        process = self._processes[user]
        process.stdin.write(json.dumps(shlex.split(line)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"openstackclient ended: {line}"
        status, output, errors = json.loads(answer)
        return status, output, errors
