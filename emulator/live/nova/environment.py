"""What a real Nova needs of this machine: its environment, its files, and a PostgreSQL of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from uuid import uuid4

from emulator.live.process import FleetProcessError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Where Nova is installed.

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


# The files of one Nova and one Placement that are one process.

DATABASES = ("nova", "nova_api", "nova_cell0", "placement")
VCPUS, RAM_MB, DISK_GB = 10, 8192, 10
"""Of a whole node: processors and memory are those of Nova's MediumFakeDriver."""
# Each host looks at its own resources when it starts and at every claim; every minute, as Nova has it, hundreds of
# hosts in one process do nothing else.
_CONF = """
[DEFAULT]
state_path = {folder}
log_file = {logs}/nova.log
host = control
transport_url = fake://
compute_driver = fleet.FleetDriver
reserved_host_memory_mb = 0
cpu_allocation_ratio = 1.0
ram_allocation_ratio = 1.0
disk_allocation_ratio = 1.0
sync_power_state_interval = -1
update_resources_interval = 600
service_down_time = 3600
report_interval = 60
vif_plugging_is_fatal = false
allow_resize_to_same_host = true
[oslo_concurrency]
lock_path = {folder}/locks
[database]
connection = {nova}
[api_database]
connection = {nova_api}
[keystone_authtoken]
{login}
www_authenticate_uri = {front}/identity/v3
[placement]
{login}
region_name = {region}
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
enabled_filters = {filters}
[balancer]
{balancer}
[notifications]
notification_format = versioned
[oslo_messaging_notifications]
driver = balancer
"""
FILTERS = (
    "ComputeFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "BalancerFilter",
)
_PLACEMENT_CONF = """
[DEFAULT]
log_file = {folder}/placement.log
[placement_database]
connection = {placement}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaConf:
    """`environment`: with Nova. `front`: the URL of its Keystone, Glance and Neutron, by which it is reached itself.

    `database`: name -> URL. `balancer`: the section of that name, of the filter and the notification driver. `logs`:
    the folder of nova.log, if not that of the files.
    """

    environment: Path
    front: str
    database: Callable[[str], str]
    balancer: Mapping[str, object] = field(default_factory=dict)
    region: str = "RegionOne"
    logs: Path | None = None

    def write(self, folder: Path) -> None:
        """All files of the two services into this folder."""
        values = {name: self.database(name) for name in DATABASES} | {
            "folder": str(folder), "logs": str(self.logs or folder), "front": self.front, "region": self.region,
            "login": _LOGIN.format(front=self.front), "filters": ",".join(FILTERS),
            "balancer": "\n".join(f"{key} = {value}" for key, value in self.balancer.items()),
        }  # fmt: skip
        (folder / "nova.conf").write_text(_CONF.format(**values), encoding="utf-8")
        (folder / "placement.conf").write_text(_PLACEMENT_CONF.format(**values), encoding="utf-8")
        # That Nova keeps it tells a second start from a lost disk; each host's own identity is its driver's.
        (folder / "compute_id").write_text(str(uuid4()), encoding="utf-8")
        shutil.copy(paste_of(self.environment), folder)


# A private PostgreSQL: on a unix socket in a folder of its own only, and as quick as it may be lost.

_INITDB_OPTIONS = ("-U", "nova", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
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
        self._run("initdb", "-D", self._data, *_INITDB_OPTIONS)
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
