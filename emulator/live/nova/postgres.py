"""A private PostgreSQL for Nova: on a unix socket in a folder of its own only, and as quick as it may be lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from emulator.live.fleet_process import FleetProcessError
from emulator.live.nova.environment import postgres_programs, unprivileged

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTIONS = (
    "listen_addresses=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=300",
)


class Postgres:
    """One server's folder, made at once. Its socket's name may not be long, and its user has no business elsewhere."""

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="emulator-pg-"))
        self._user = unprivileged()
        if self._user is not None:
            shutil.chown(self.folder, self._user)

    def initialise(self, databases: Sequence[str]) -> None:
        """Empty databases. Raises FleetProcessError."""
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "nova",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale",
            "C",
        )
        made = "".join(f"CREATE DATABASE {name}\n" for name in databases)
        self._run("postgres", "--single", "-F", "-D", self._data, "postgres", statements=made)

    @property
    def command(self) -> list[str]:
        """The server, in the foreground."""
        options = [f"-c{each}" for each in (*_OPTIONS, f"unix_socket_directories={self.folder}")]
        return [*self._as_user, *self._program("postgres"), "-D", self._data, *options]

    @property
    def is_up(self) -> bool:
        pid_file = self.folder / "data" / "postmaster.pid"
        return pid_file.exists() and pid_file.read_text(encoding="utf-8").rstrip().endswith("ready")

    def url(self, database: str) -> str:
        """As SQLAlchemy has it, with the client that Nova's environment has."""
        return f"postgresql+psycopg2://nova@/{database}?host={self.folder}"

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def _as_user(self) -> list[str]:
        if self._user is None:
            return []
        return ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"]

    @staticmethod
    def _program(name: str) -> list[str]:
        where = postgres_programs()
        if where is None:
            raise FleetProcessError("PostgreSQL is gone: apt-get install postgresql")
        return [str(where / name)]

    def _run(self, name: str, *arguments: str, statements: str = "") -> None:
        done = subprocess.run(
            [*self._as_user, *self._program(name), *arguments],
            cwd=self.folder,
            input=statements,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        )
        if done.returncode != 0:
            raise FleetProcessError(
                f"{name} ended with status {done.returncode}: {done.stderr.strip()[-1000:]}"
            )
