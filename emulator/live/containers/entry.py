"""`python -m emulator.live.containers.entry ROLE`: the first process of every container of a fleet.

It asks the controller until that has the role's settings, writes them into a folder of the container's own and
starts the program. A node's becomes the agent itself (nothing else is in its container). The others stay: they
pass signals on, and end their program once the run is over, so that `docker compose up` comes to an end.
Standard library only, because there may be hundreds of nodes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlencode

from emulator.live.names import (
    CONTROLLER,
    CONTROLLER_PORT,
    GID,
    MADE,
    NODE,
    RESULTS,
    ROLES,
    SCRATCH,
    SHARED,
    UID,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_PRIVATE = Path("/run/fleet")
_CLOCK = os.environ.get("FLEET_CLOCK") or str(SHARED / "clock")
_OVER = SHARED / "over"
_ASK_S = 0.3
_LOOK_S = 1.0
_ANSWER_S = 120.0
"""Hundreds of nodes ask one controller at the same time: who gives up early only asks once more."""
_UNAVAILABLE = 503


def main(arguments: Sequence[str] | None = None) -> int:
    (role,) = sys.argv[1:] if arguments is None else arguments
    if role not in ROLES:
        sys.stderr.write(f"entry: there is no role {role!r}; known: {', '.join(ROLES)}\n")
        return 2
    os.umask(0o002)
    if role == CONTROLLER and os.getuid() == 0:
        return control([sys.executable, "-m", "emulator.live.containers.entry", CONTROLLER])
    _PRIVATE.mkdir(parents=True, exist_ok=True)
    bring_kernels()
    if role == CONTROLLER:
        _become([sys.executable, *ROLES[role].arguments()])
    stopping = _stop_on_signals()
    settings = _settings(role, stopping)
    if settings is None:
        return 0
    command = _prepare(role, settings)
    if role == NODE:
        _become(command)
    if not settings.get("needed", True):
        command = ["/bin/sh", "-c", "exec tail -f /dev/null"]
    return _supervise(subprocess.Popen(command), stopping)


def _become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def bring_kernels() -> None:
    """Compiled loops come with the image; Numba wants them where it may write."""
    made, used = os.environ.get("FLEET_KERNELS"), os.environ.get("EMULATOR_CACHE_DIR")
    if made and used:
        shutil.copytree(made, used, dirs_exist_ok=True)


def _stop_on_signals() -> threading.Event:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def _settings(role: str, stopping: threading.Event) -> dict[str, Any] | None:
    """What the controller has for this role; asks for as long as it has nothing. None: told to stop."""
    controller = os.environ.get("FLEET_CONTROLLER", f"{CONTROLLER}:{CONTROLLER_PORT}")
    query = f"?{_sender_query()}" if role == NODE else ""
    last_reason = ""
    while not stopping.is_set():
        try:
            with urllib.request.urlopen(
                f"http://{controller}/start/{role}{query}", timeout=_ANSWER_S
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                why = error.read().decode(errors="replace").strip()
            if error.code != _UNAVAILABLE:
                raise SystemExit(f"{role}: the controller says {error.code}: {why}") from error
        except OSError:
            why = f"waiting for the controller at {controller}"
        if why != last_reason:
            sys.stderr.write(f"{role}: {why}\n")
            last_reason = why
        stopping.wait(_ASK_S)
    return None


def _sender_query() -> str:
    """A node says its name, or its host name: then the controller looks up which of the replicas it is."""
    name = os.environ.get("NODE_NAME")
    return urlencode({"name": name} if name else {"host": socket.gethostname()})


def _prepare(role: str, settings: dict[str, Any]) -> list[str]:
    """Write the role's files; the command that starts its program."""
    for name, text in settings.get("files", {}).items():
        file = os.open(_PRIVATE / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(text)
    config = _PRIVATE / "config.json"
    config.write_text(json.dumps(settings["config"] | _facts(role)), encoding="utf-8")
    os.environ.update(settings.get("environ", {}))
    return [sys.executable, *ROLES[role].arguments(config, _CLOCK), *settings.get("arguments", [])]


def _facts(role: str) -> dict[str, Any]:
    """What a node registers with; $NODE_CORES and $NODE_MEMORY_KIB where it plays one of another size.

    $FLEET_SCRATCH (HOST:PORT): its /scratch is a copy of that there.
    """
    if role != NODE:
        return {}
    memory = next(
        line.split()[1] for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        if line.startswith("MemTotal")
    )  # fmt: skip
    server = os.environ.get("FLEET_SCRATCH")
    copied = {"folder_copy": {"folder": SCRATCH, "server": server}} if server else {}
    return copied | {
        "facts": {
            "address": socket.gethostbyname(socket.gethostname()),
            "cores": int(os.environ.get("NODE_CORES") or os.cpu_count() or 1),
            "memory_kib": int(os.environ.get("NODE_MEMORY_KIB") or memory),
        }
    }


def _supervise(process: subprocess.Popen[bytes], stopping: threading.Event) -> int:
    """Pass the end on to the program: that of the container, or of the run. Returns its exit status."""
    while process.poll() is None:
        if stopping.is_set() or _OVER.exists():
            process.terminate()
            process.wait()
            return 0
        stopping.wait(_LOOK_S)
    status = process.returncode
    # A replayer has done its part before the others; a container that ends would end `up --exit-code-from`.
    while status == 0 and not stopping.is_set() and not _OVER.exists():
        stopping.wait(_LOOK_S)
    return 0 if _OVER.exists() else status if status >= 0 else 128 - status


def control(command: list[str]) -> int:
    """The controller (`command`) runs as everybody does; this process stays root: it gives results to their owner."""
    owner = SHARED.stat()
    if owner.st_uid != UID:
        SHARED.chmod(0o2775)
        os.chown(SHARED, UID, GID)
    process = subprocess.Popen(command, user=UID, group=GID, extra_groups=[])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: process.send_signal(got))
    status = process.wait()
    if MADE.is_dir():
        try:
            for folder in MADE.iterdir():
                _hand_over(folder, RESULTS / folder.name, RESULTS.stat())
        except OSError as error:
            sys.stderr.write(f"controller: the results could not be written to {RESULTS}: {error}\n")
            status = status or 1
        _OVER.touch()
    return status if status >= 0 else 128 - status


def _hand_over(folder: Path, target: Path, owner: os.stat_result) -> None:
    """Results become the user's, in the folder that is theirs; `summary.json` last, as it says that all is there."""
    if target.exists() and any(target.iterdir()) and not (target / "summary.json").exists():
        raise SystemExit(
            f"{target} holds something that is not results; move it away, then start the fleet again"
        )
    for path in (folder, *sorted(folder.rglob("*"), key=lambda path: (path.name == "summary.json", path))):
        copy = target / path.relative_to(folder)
        if path.is_dir():
            copy.mkdir(exist_ok=True)
        else:
            shutil.copyfile(path, copy)
        os.chown(copy, owner.st_uid, owner.st_gid)


if __name__ == "__main__":
    sys.exit(main())
