"""Prologue and epilogue as a node agent runs them: with the arguments and environment of real Torque.

They run on the job's mother superior only. `script`: an executable file, in a process of its own. `python`:
a callable `hook(arguments, environ) -> exit status` in the agent itself, for speed, in its main thread;
`arguments[0]` is `prologue` or `epilogue`, the rest is what a script gets. The Balancer's is `balancer_hook`.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import subprocess
import traceback
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from balancer.hooks.client import START, HookSettings, read_keys
from balancer.hooks.torque import epilogue, nodes_of_job, prologue, walltime_s
from emulator.live.settings import Settings
from emulator.live.torque.jobs import clock_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TIMED_OUT = -1
"""In place of an exit status: the hook ran longer than `$prologalarm`."""


class HookConfig(Settings):
    """`prologue`, `epilogue`: a path (script) or `package.module:callable` (python); empty: none."""

    kind: Literal["none", "script", "python"] = "none"
    prologue: str = ""
    epilogue: str = ""

    @model_validator(mode="after")
    def _named(self) -> HookConfig:
        if self.kind == "none" and (self.prologue or self.epilogue):
            raise ValueError("hooks are named but `kind` is none: say script or python")
        return self


@dataclass(frozen=True, slots=True)
class HookInputs:
    """What a hook is told of its job; `message` is the server's start message."""

    message: dict[str, Any]
    home: Path

    @property
    def script_path(self) -> Path:
        return self.home / "mom_priv" / "jobs" / f"{self.message['id']}.SC"

    @property
    def node_file(self) -> Path:
        return self.home / "aux" / str(self.message["id"])

    def write_files(self) -> None:
        """The job's script and its node list (one line a slot), where Torque has them."""
        for path, text in (
            (self.script_path, self.message["script"]),
            (self.node_file, "".join(f"{host}\n" * self.message["ppn"] for host in self.message["hosts"])),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def remove_files(self) -> None:
        self.script_path.unlink(missing_ok=True)
        self.node_file.unlink(missing_ok=True)

    def environ(self) -> dict[str, str]:
        """As recorded: no PBS_JOBID, none of the job's own variables."""
        message, hosts = self.message, self.message["hosts"]
        return {
            "LANG": "C.UTF-8",
            "PATH": "/bin:/usr/bin",
            "PBS_MSHOST": hosts[0],
            "PBS_NODEFILE": str(self.node_file),
            "PBS_NODENUM": "0",
            "PBS_NP": str(len(hosts) * message["ppn"]),
            "PBS_NUM_NODES": str(len(hosts)),
            "PBS_NUM_PPN": str(message["ppn"]),
            "PBS_O_WORKDIR": message["workdir"],
            "PBS_RESOURCE_NODES": message["neednodes"],
        }

    def prologue_arguments(self) -> list[str]:
        message = self.message
        identity = [message["id"], message["user"], message["group"], message["name"]]
        return [*identity, message["resources"], message["queue"], message["account"], str(self.script_path)]

    def epilogue_arguments(self, session: int, exit_status: int, used_us: int) -> list[str]:
        message = self.message
        identity = [message["id"], message["user"], message["group"], message["name"], str(session)]
        used = f"cput=00:00:00,vmem=0kb,walltime={clock_text(used_us)},mem=0kb,energy_used=0"
        place = [message["queue"], message["account"], str(exit_status), str(self.script_path)]
        return [*identity, message["resources"], used, *place]


class Hooks:
    """Runs the configured hooks. `limit_s`: wall time of a script; python hooks keep time themselves."""

    def __init__(self, config: HookConfig, limit_s: float) -> None:
        self._config = config
        self._limit_s = limit_s
        self._callables: dict[str, Callable[[list[str], dict[str, str]], int]] = {}
        if config.kind == "python":
            for name in ("prologue", "epilogue"):
                if dotted := getattr(config, name):
                    self._callables[name] = _load(dotted)

    @property
    def any(self) -> bool:
        return self._config.kind != "none"

    def is_script(self, name: Literal["prologue", "epilogue"]) -> bool:
        """It takes its time: `run` is for a thread of its own."""
        return self._config.kind == "script" and bool(getattr(self._config, name))

    def run(self, name: Literal["prologue", "epilogue"], inputs: HookInputs, arguments: Sequence[str]) -> int:
        """The exit status."""
        if self.is_script(name):
            return _run_script([getattr(self._config, name), *arguments], inputs, self._limit_s)
        hook = self._callables.get(name)
        return 0 if hook is None else _call(hook, [name, *arguments], inputs.environ())


def _load(dotted: str) -> Callable[[list[str], dict[str, str]], int]:
    try:
        hook = pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"hook {dotted!r} cannot be loaded: {error}; expected package.module:callable"
        ) from error
    if not callable(hook):
        raise ValueError(f"hook {dotted!r} is not callable")  # noqa: TRY004 - a setting, not a programming error
    return hook  # type: ignore[no-any-return]


def _call(
    hook: Callable[[list[str], dict[str, str]], int], arguments: list[str], environ: dict[str, str]
) -> int:
    try:
        return hook(arguments, environ)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except Exception:  # noqa: BLE001 - a script that dies of an exception exits 1, and so does this one
        traceback.print_exc()
        return 1


def _run_script(argv: Sequence[str], inputs: HookInputs, limit_s: float) -> int:
    try:
        process = subprocess.Popen(
            argv,
            env=inputs.environ(),
            cwd=inputs.home / "mom_priv",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        traceback.print_exc()
        return 1
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TIMED_OUT


_RESOURCES_ARGUMENT = 5


def balancer_hook(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """`arguments` are `prologue` or `epilogue` and what Torque hands to the script. Returns its exit status."""
    settings = _balancer_settings(Path(os.environ["BALANCER_READY_FILE"]))
    kind, job = arguments[0], arguments[1]
    nodes = nodes_of_job(environ)
    if kind == "epilogue":
        epilogue(settings, nodes, job)
        return START
    return prologue(settings, nodes, job, walltime_s(arguments[_RESOURCES_ARGUMENT]))


@lru_cache(maxsize=1)
def _balancer_settings(ready_file: Path) -> HookSettings:
    """Where the Balancer listens is known once it is up, which is after the agent and before the first job."""
    return HookSettings(
        url=json.loads(ready_file.read_text(encoding="utf-8"))["url"],
        marker=Path(os.environ["BALANCER_MARKER"]),
        keys=read_keys(Path(os.environ["BALANCER_HOOK_KEY_FILE"])),
    )
