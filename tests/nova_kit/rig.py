"""A real Nova and a real Placement on a real PostgreSQL, with the Balancer between it and a batch system in memory.

Nova's and Placement's services run in one process of their own environment (`scripts/nova-environment`), unmodified,
with Nova's fake hypervisor; Keystone, Glance and an empty Neutron are the small manager's. The agent is a process, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import openstack
import sqlalchemy as sa
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.http_proxy import ProxyMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server

from balancer.clock import wall_us
from emulator.live.ondemand.auth import Keyring
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.identity import identity_app
from emulator.live.ondemand.image import image_app
from emulator.live.ondemand.network import network_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledger_kit.postgresql import Server as Postgres

ROOT = Path(__file__).parents[2]
ENVIRONMENT = Path(os.environ.get("BALANCER_NOVA_ENVIRONMENT", ROOT / ".venv-nova"))
VCPUS, RAM_MB = 10, 8192
"""Of a node: those of Nova's MediumFakeDriver."""
_CONF = """
[DEFAULT]
state_path = {folder}
log_file = {folder}/nova.log
host = control
transport_url = fake://
compute_driver = fleet.FleetDriver
reserved_host_memory_mb = 0
cpu_allocation_ratio = 1.0
ram_allocation_ratio = 1.0
disk_allocation_ratio = 1.0
sync_power_state_interval = -1
service_down_time = 3600
report_interval = 60
vif_plugging_is_fatal = false
[oslo_concurrency]
lock_path = {folder}/locks
[database]
connection = {database}
[api_database]
connection = {api_database}
[keystone_authtoken]
{login}
www_authenticate_uri = {front}/identity/v3
[placement]
{login}
region_name = RegionOne
[service_user]
send_service_user_token = false
[glance]
endpoint_override = {front}/image
[neutron]
{login}
endpoint_override = {front}/network
[cinder]
catalog_info = volumev3::publicURL
[quota]
instances = -1
cores = -1
ram = -1
[vnc]
enabled = false
[api]
compute_link_prefix = {front}/compute
[scheduler]
max_attempts = 3
discover_hosts_in_cells_interval = 1
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = balancer.nova.scheduler_filter.BalancerFilter
enabled_filters = ComputeFilter,ImagePropertiesFilter,BalancerFilter
[balancer]
url = {balancer}
wait = true
nodes_age_s = 1
patience_s = 60
{options}
[notifications]
notification_format = versioned
[oslo_messaging_notifications]
driver = balancer
"""
_PLACEMENT_CONF = """
[DEFAULT]
log_file = {folder}/placement.log
[placement_database]
connection = {placement_database}
[keystone_authtoken]
{login}
www_authenticate_uri = {front}/identity/v3
"""
_LOGIN = """auth_type = password
auth_url = {front}/identity/v3
username = admin
password = secret
project_name = admin
user_domain_id = default
project_domain_id = default"""


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        pass


def until(condition: Callable[[], Any], what: str, limit_s: float = 120.0) -> Any:
    """What the condition gives, once it is something."""
    limit_us, pause = wall_us() + round(limit_s * 1e6), threading.Event()
    while not (found := condition()):
        assert wall_us() < limit_us, f"not in {limit_s:g} s: {what}"
        pause.wait(0.1)
    return found


class Nova:
    """The cloud. `start` and `kill` are its services'; databases and the small manager stay."""

    def __init__(self, folder: Path, postgres: Postgres, hosts: tuple[str, ...]) -> None:
        self.folder, self.hosts, self._postgres = folder, hosts, postgres
        self._process: subprocess.Popen[bytes] | None = None
        self._targets: dict[str, str] = {}
        config = OndemandConfig(pool=hosts)
        keyring = Keyring.of(config)
        mounts = {
            "/identity": identity_app(keyring, config.region),
            "/image": image_app(keyring, config.image),
            "/network": network_app(keyring),
        }
        self._fixed = DispatcherMiddleware(NotFound(), mounts)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self.front = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        for name, target in self._targets.items():
            if environ["PATH_INFO"].startswith(f"/{name}"):
                if environ["PATH_INFO"] == f"/{name}":
                    environ["PATH_INFO"] += "/"
                given = {"target": target, "remove_prefix": True, "host": None}
                return ProxyMiddleware(self._fixed, {f"/{name}": given}, timeout=120)(environ, start_response)
        return self._fixed(environ, start_response)

    def configure(self, balancer: str, options: str) -> None:
        """Empty databases and the files; `options`: lines of the section [balancer]."""
        postgres = self._postgres
        names = ("nova", "nova_api", "nova_cell0", "placement")
        with postgres._admin.connect() as connection:
            for name in names:
                connection.execute(sa.text(f"DROP DATABASE IF EXISTS {name}"))
                connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        url = {name: f"postgresql+psycopg2://tester@/{name}?host={postgres.folder}" for name in names}
        urls = {
            "database": url["nova"],
            "api_database": url["nova_api"],
            "placement_database": url["placement"],
        }
        given = {"folder": self.folder, "front": self.front, "login": _LOGIN.format(front=self.front)}
        given |= {"balancer": balancer, "options": options, **urls}
        (self.folder / "nova.conf").write_text(_CONF.format(**given), encoding="utf-8")
        (self.folder / "placement.conf").write_text(_PLACEMENT_CONF.format(**given), encoding="utf-8")
        # That Nova keeps it tells a second start from a lost disk; each host's own identity is its driver's.
        (self.folder / "compute_id").write_text(str(uuid4()), encoding="utf-8")
        shutil.copy(ENVIRONMENT / "etc" / "nova" / "api-paste.ini", self.folder)

    def command(self, *arguments: str) -> list[str]:
        return [
            str(ENVIRONMENT / "bin" / "python"),
            str(Path(__file__).with_name("services.py")),
            str(self.folder),
            *arguments,
        ]

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
        self._targets = json.loads((self.folder / "urls.json").read_text())
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
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def log(self) -> str:
        path = self.folder / "nova.log"
        return path.read_text(encoding="utf-8")[-6000:] if path.exists() else ""

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


@contextmanager
def agent_of(nova: Nova, balancer: str, folder: Path, *options: str) -> Iterator[Path]:
    """`balancer nova agent` as a process; gives its status file."""
    status, ready = folder / "agent.json", folder / "agent-ready.json"
    command = [
        sys.executable,
        "-m",
        "balancer",
        "nova",
        "agent",
        "--url",
        balancer,
        "--status-file",
        str(status),
    ]
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready), "--period-s", "0.5", *options],
            env=os.environ | nova.environment() | {"BALANCER_CLIENT": "nova"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    with ExitStack() as stack:
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        until(lambda: process.poll() is not None or status.exists(), "the agent looks")
        assert process.poll() is None, (folder / "agent.log").read_text()[-3000:]
        yield status
