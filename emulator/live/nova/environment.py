"""The environment with Nova and Placement, and the programs of PostgreSQL: where they are, and what is missing."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

_MODULES = ("nova", "placement", "psycopg2", "balancer.nova")
_ASK = (
    "from importlib.util import find_spec\n"
    "import sys\n"
    "print(*[name for name in sys.argv[1:] if find_spec(name.partition('.')[0]) is None or find_spec(name) is None])"
)
HOW = "make it with scripts/nova-environment, or name one: live.ondemand: {nova: {environment: FOLDER}}"


class NotThereError(ValueError):
    """Nova cannot be started on this machine; the text says what is missing and what to do."""


def environment(folder: Path | None = None) -> Path:
    """The environment of Nova: as given, as BALANCER_NOVA_ENVIRONMENT says, or what scripts/nova-environment made."""
    if folder is not None:
        return folder
    named = os.environ.get("BALANCER_NOVA_ENVIRONMENT")
    return Path(named) if named else Path(__file__).parents[3] / ".venv-nova"


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def check(folder: Path) -> None:
    """Raise NotThereError unless Nova, Placement, our filter and PostgreSQL are there."""
    python = python_of(folder)
    if not python.exists():
        raise NotThereError(f"there is no Nova at {folder}: {HOW}")
    command = [str(python), "-c", _ASK, *_MODULES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotThereError(f"{python} cannot be run: {error}; {HOW}") from error
    if done.returncode != 0:
        raise NotThereError(f"{python} does not work: {done.stderr.strip()[-300:]}; {HOW}")
    if missing := done.stdout.split():
        raise NotThereError(f"{folder} lacks {', '.join(missing)}: {HOW}")
    if not (paste_of(folder)).exists():
        raise NotThereError(f"{folder} lacks etc/nova/api-paste.ini: {HOW}")
    if postgres_programs() is None:
        raise NotThereError(
            "Nova needs PostgreSQL, which is not installed; on Debian: apt-get install postgresql"
        )


def paste_of(folder: Path) -> Path:
    """What Nova's API is made of, as its package brings it."""
    return folder / "etc" / "nova" / "api-paste.ini"


def postgres_programs() -> Path | None:
    """Where initdb and postgres are (Debian keeps them out of the path)."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


def unprivileged() -> str | None:
    """Who runs PostgreSQL, which refuses to run as root; None: who runs this."""
    if os.geteuid() != 0:
        return None
    users = {each.pw_name for each in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in users)
