"""A real Nova and a real Placement on a real PostgreSQL, with the Balancer between it and a batch system in memory.

Nova's and Placement's services run in one process of their own environment (`scripts/nova-environment`), unmodified,
with Nova's fake hypervisor; Keystone, Glance and an empty Neutron are the small manager's. The agent is a process, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import openstack
import sqlalchemy as sa

from emulator.live.nova import environment
from emulator.live.nova.environment import DATABASES, RAM_MB, VCPUS, NovaConf
from emulator.live.nova.front import Front, FrontConfig
from emulator.live.nova.system import SERVICES
from polling import until

__all__ = ["RAM_MB", "VCPUS", "Agent", "Nova", "until"]

if TYPE_CHECKING:
    from pathlib import Path

    from ledger_kit.postgresql import Server as Postgres

ENVIRONMENT = environment.environment()


class Nova:
    """The cloud. `start` and `kill` are its services'; databases and the small manager stay."""

    def __init__(self, folder: Path, postgres: Postgres, hosts: tuple[str, ...]) -> None:
        self.folder, self.hosts, self._postgres = folder, hosts, postgres
        self._process: subprocess.Popen[bytes] | None = None
        self._front = Front(FrontConfig(hosts=hosts, urls=folder / "urls.json"))
        self.front = self._front.url
        self._thread = threading.Thread(target=self._front.serve, daemon=True)
        self._thread.start()

    def configure(self, balancer: str, **options: object) -> None:
        """Empty databases and the files; `options`: of the section [balancer]."""
        postgres = self._postgres
        with postgres._admin.connect() as connection:
            for name in DATABASES:
                connection.execute(sa.text(f"DROP DATABASE IF EXISTS {name}"))
                connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))

        def url(name: str) -> str:
            return f"postgresql+psycopg2://tester@/{name}?host={postgres.folder}"

        told = {"url": balancer, "wait": True, "nodes_age_s": 1, "patience_s": 60} | options
        NovaConf(environment=ENVIRONMENT, front=self.front, database=url, balancer=told).write(self.folder)

    def command(self, *arguments: str) -> list[str]:
        return [str(environment.python_of(ENVIRONMENT)), str(SERVICES), str(self.folder), *arguments]

    def make_databases(self) -> None:
        done = subprocess.run(
            self.command("--make-databases"), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:] + self.log()

    def start(self) -> None:
        for name in ("urls.json", "go", "ready.json"):
            (self.folder / name).unlink(missing_ok=True)
        with (self.folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                self.command(*self.hosts), stdout=output, stderr=output, start_new_session=True
            )
        self._wait_for("urls.json")
        (self.folder / "go").touch()
        self._wait_for("ready.json")

    def _wait_for(self, name: str) -> None:
        def there() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (self.folder / "output").read_text()[-4000:] + self.log()
            return (self.folder / name).exists()

        until(there, f"Nova's {name}\n{self.log()}", 240)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        self.kill()
        self._front.stop()
        self._thread.join()
        self._front.close()

    def log(self) -> str:
        path = self.folder / "nova.log"
        return path.read_text(encoding="utf-8")[-6000:] if path.exists() else ""

    def knows_who_waits(self) -> bool:
        """It need not: a call that is cut off is repeated for `patience_s`."""
        return True

    def faults(self, **faults: Any) -> None:
        """`boot_fails`: hosts on which no server starts; `boot_s`: how long a start takes."""
        written = self.folder / "faults.json.new"
        written.write_text(json.dumps(faults), encoding="utf-8")
        written.rename(self.folder / "faults.json")

    def account(self, user: str = "admin") -> dict[str, str]:
        return {
            "auth_url": f"{self.front}/identity/v3",
            "username": user,
            "password": "secret",
            "project_name": user,
            "user_domain_id": "default",
            "project_domain_id": "default",
            "region_name": "RegionOne",
        }

    def connect(self, user: str = "admin") -> Any:
        return openstack.connect(
            **self.account(user), load_yaml_config=False, load_envvars=False, api_timeout=60
        )

    def environment(self) -> dict[str, str]:
        """For commands that read OS_* variables."""
        return {f"OS_{name.upper()}": value for name, value in self.account().items()}


class Agent:
    """`balancer nova agent` as a process, which may be killed and started again; `status`: its status file."""

    def __init__(self, nova: Nova, balancer: str, folder: Path, *options: str) -> None:
        self.status = folder / "agent.json"
        self._log = folder / "agent.log"
        self._command = [
            sys.executable, "-m", "balancer", "nova", "agent", "--url", balancer, "--period-s", "0.5",
            "--status-file", str(self.status), "--ready-file", str(folder / "agent-ready.json"), *options,
        ]  # fmt: skip
        self._environment = os.environ | nova.environment() | {"BALANCER_CLIENT": "nova"}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """It has looked at everything once when this returns."""
        self.status.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            process = self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        until(lambda: process.poll() is not None or self.status.exists(), "the agent looks")
        assert process.poll() is None, self._log.read_text()[-3000:]

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(60)
