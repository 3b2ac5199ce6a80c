"""What a Slurm site must be like so that nodes can be lent: `balancer check`, and once at the start of the service.

Nothing here stops the service: a site may know better, and Slurm is read back after every command in any case.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import stat
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.drivers.base import DriverError, RefusedError, SiteCheck, UnclearError
from balancer.drivers.slurm_text import parse_partition
from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_LINE = re.compile(r"(\w+)(?:\[\d+\])?\s+= (.*)")
_NOTHING = ("", "(null)", "none", "NONE", "N/A", "INFINITE", "-1")
_SEE_ALL = ("Operator", "Administrator", "SlurmUser")
_MAY_DRAIN = ("Administrator", "SlurmUser")
"""An operator sees all jobs and may make reservations, and may not change a node (Slurm's user permissions)."""
_RECONFIGURES_HOOKS = (23, 11)
_COUNTED = re.compile(r":\d+(?=,|$)")


def parse_config(text: str) -> dict[str, str]:
    """The output of `scontrol show config`, key -> value; "" where nothing is set. `KEY[0]`, `KEY[1]`: with commas."""
    values: dict[str, str] = {}
    for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
        key, value = match[1], "" if match[2].strip() in _NOTHING else match[2].strip()
        values[key] = f"{values[key]},{value}" if values.get(key) else value
    if "SlurmUser" not in values:
        raise UnclearError("scontrol show config does not name the SlurmUser")
    return values


def check_site(
    run: Callable[[Sequence[str]], str], scontrol: str, nodes: Iterable[str], *, awake_partition: str = ""
) -> tuple[SiteCheck, ...]:
    """`run` gives the output of a command. Raises DriverError."""
    config = parse_config(run((scontrol, "show", "config")))
    user = _user()
    level = _admin_level(run, config, user)
    return (
        SiteCheck("may drain nodes", "" if level in _MAY_DRAIN else _cannot_drain(config, user, level)),
        SiteCheck(
            "sees all jobs",
            "" if level in _SEE_ALL or "jobs" not in config.get("PrivateData", "") else _cannot_see(user),
        ),
        SiteCheck(
            "power saving leaves lent nodes alone",
            _partition(run, scontrol, awake_partition) if awake_partition else _power_saving(config, nodes),
        ),
        SiteCheck(
            "hooks are set on the controller (`balancer status` says when one came)",
            _hooks(config),
        ),
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user without a name, as in some containers
        return str(os.geteuid())


def _admin_level(run: Callable[[Sequence[str]], str], config: Mapping[str, str], user: str) -> str:
    """`SlurmUser`, `Administrator`, `Operator` or `None`; "": no accounting knows the user."""
    if os.geteuid() == 0 or user == config["SlurmUser"].partition("(")[0]:
        return "SlurmUser"
    try:
        return run(
            ("sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=adminlevel")
        ).strip()
    except DriverError:
        return ""


def _cannot_drain(config: Mapping[str, str], user: str, level: str) -> str:
    slurm_user = config["SlurmUser"].partition("(")[0]
    arguments = f"modify user {user} set" if level else f"add user {user} account=root"
    return (
        f"{user} is not {slurm_user}, nor known to be a Slurm administrator (an operator may not): "
        f"sacctmgr {arguments} adminlevel=admin"
    )


def _cannot_see(user: str) -> str:
    return f"PrivateData has `jobs`, and {user} is no operator: a node with a hidden job would read as empty"


def _partition(run: Callable[[Sequence[str]], str], scontrol: str, name: str) -> str:
    """Whether the partition of the lent nodes is what it is there for."""
    line = f"PartitionName={name} Nodes=<all nodes of the Balancer> State=INACTIVE Hidden=YES SuspendTime=INFINITE"
    try:
        found = parse_partition(run((scontrol, "--all", "--oneliner", "show", "partition", name)), name)
    except RefusedError:
        return f"there is no partition {name}, so nothing is lent; put into slurm.conf: {line}"
    if found.suspend_time != "INFINITE":
        limit = found.suspend_time or "not known to this Slurm (22.05 is needed)"
        return f"SuspendTime of partition {name} is {limit}: lent nodes are switched off; put into slurm.conf: {line}"
    if found.state == "UP":
        return f"partition {name} is UP, and jobs could be sent there; put into slurm.conf: {line}"
    return ""


def _power_saving(config: Mapping[str, str], nodes: Iterable[str]) -> str:
    """Slurm switches drained and reserved nodes off like any other that runs no job."""
    if not config.get("SuspendTime") or not config.get("SuspendProgram"):
        return ""
    if "DRAIN" in config.get("SuspendExcStates", "").upper().split(","):
        return ""
    listed = config.get("SuspendExcNodes", "")
    try:
        # With a count some of them are left alone, and nobody knows which.
        excluded = set(expand(listed)) if listed and not _COUNTED.search(listed) else set()
    except NodeListError:
        excluded = set()
    left = [node for node in nodes if node not in excluded]
    if not left:
        return ""
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return (
        f"SuspendTime is {config['SuspendTime']}, and {left[0]}{more} would be switched off while lent: set "
        "awake_partition (docs/balancer/drivers.md), or put them in SuspendExcNodes"
    )


def _hooks(config: Mapping[str, str]) -> str:
    for key in ("Prolog", "Epilog"):
        if "slurm-prolog" in config.get(key, "") or "slurm-epilog" in config.get(key, ""):
            return f"{key}={config[key]} runs on the nodes, where its failure drains them: make it {key}Slurmctld"
    keys = ("PrologSlurmctld", "EpilogSlurmctld")
    missing = [key for key in keys if not config.get(key)]
    if missing:
        return f"{' and '.join(missing)} not set: jobs are seen at the next reading only (docs/balancer/drivers.md)"
    hosts = [each.partition("(")[0] for each in config.get("SlurmctldHost", "").split(",")]
    if socket.gethostname().partition(".")[0] not in hosts:
        return ""  # its files are on another host
    failing = [f"{key}={path}" for key in keys for path in config[key].split(",") if not _may_be_run(path)]
    if failing:
        return f"{' and '.join(failing)} is no file that may be run: slurmctld reports no job"
    if _release(config) < _RECONFIGURES_HOOKS and _is_newer_than_controller(config):
        return "slurm.conf is newer than slurmctld, which before Slurm 23.11 takes hooks at its start only: restart it"
    return ""


def _release(config: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", config.get("SLURM_VERSION", ""))[:2])


def _is_newer_than_controller(config: Mapping[str, str]) -> bool:
    try:
        changed_s = Path(config["SLURM_CONF"]).stat().st_mtime
        # Local time, as Slurm shows it.
        return changed_s > datetime.fromisoformat(config["BOOT_TIME"]).timestamp()
    except (KeyError, ValueError, OSError):
        return False  # it does not say so


def _may_be_run(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except PermissionError:
        return True  # whoever asks may not see it; SlurmUser may
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)
