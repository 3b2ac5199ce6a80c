"""A private PostgreSQL server for tests, from the system's packages, stopped and removed at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import sqlalchemy as sa

from emulator.live.nova.environment import postgres_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


BACKENDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql")))
"""For the parameter of a fixture."""


class Server:
    """Runs as an unprivileged user, on a unix socket in its own folder only. `stop` and `start` make an outage."""

    def __init__(self, folder: Path, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self.folder = folder
        self.start, self.stop = start, stop
        self._admin = sa.create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://tester@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The URL of an empty one."""
        name = f"ledger_{uuid4().hex}"
        with self._admin.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        return self.url(name)

    def close(self) -> None:
        self._admin.dispose()


@contextmanager
def running() -> Iterator[Server]:
    """Started and stopped with pg_ctl, which waits for both."""
    where = postgres_programs()
    assert where is not None, "PostgreSQL is not installed: apt-get install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    as_root = os.getuid() == 0
    user = next(name for name in ("postgres", "nobody") if name in {p.pw_name for p in pwd.getpwall()})
    if as_root:
        shutil.chown(folder, user)

    def run(*command: str) -> None:
        done = subprocess.run(
            command,
            user=user if as_root else None,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        assert done.returncode == 0, done.stdout + done.stderr

    data = str(folder / "data")
    run(str(where / "initdb"), "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_connections=200"
    log = str(folder / "log")

    def start() -> None:
        run(str(where / "pg_ctl"), "start", "-w", "-D", data, "-l", log, "-o", options)

    def stop() -> None:
        run(str(where / "pg_ctl"), "stop", "-w", "-m", "immediate", "-D", data)

    start()
    try:
        with closing(Server(folder, start, stop)) as server:
            yield server
    finally:
        stop()
        shutil.rmtree(folder)
