"""The files of one Nova and one Placement that are one process: nova.conf, placement.conf, api-paste.ini."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from emulator.live.nova.environment import paste_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

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
        values = {"folder": str(folder), "front": self.front, "region": self.region}
        values["logs"] = str(self.logs or folder)
        values |= {"login": _LOGIN.format(front=self.front)} | {
            name: self.database(name) for name in DATABASES
        }
        values["filters"] = ",".join(FILTERS)
        values["balancer"] = "\n".join(f"{key} = {value}" for key, value in self.balancer.items())
        (folder / "nova.conf").write_text(_CONF.format(**values), encoding="utf-8")
        (folder / "placement.conf").write_text(_PLACEMENT_CONF.format(**values), encoding="utf-8")
        # That Nova keeps it tells a second start from a lost disk; each host's own identity is its driver's.
        (folder / "compute_id").write_text(str(uuid4()), encoding="utf-8")
        shutil.copy(paste_of(self.environment), folder)
