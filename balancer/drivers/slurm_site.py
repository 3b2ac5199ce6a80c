"""What a Slurm site must be like so that nodes can be lent: `scontrol show config`, looked through once at the start.

Nothing here stops the service: a site may know better, and Slurm is read back after every command in any case.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import TYPE_CHECKING

from balancer.drivers.base import DriverError, SiteCheck, UnclearError
from balancer.nodelist import NodeListError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_LINE = re.compile(r"(\w+)(?:\[\d+\])?\s+= (.*)")
_NOTHING = ("", "(null)", "none", "NONE", "N/A", "INFINITE", "-1")
_MAY_DRAIN = ("Operator", "Administrator")
_COUNTED = re.compile(r":\d+(?=,|$)")


def parse_config(text: str) -> dict[str, str]:
    """The output of `scontrol show config`, key -> value; "" where nothing is set."""
    found = [match.groups() for match in map(_LINE.fullmatch, text.splitlines()) if match is not None]
    values = {key: "" if value.strip() in _NOTHING else value.strip() for key, value in found}
    if "SlurmUser" not in values:
        raise UnclearError("scontrol show config does not name the SlurmUser")
    return values


def check_site(
    run: Callable[[Sequence[str]], str], scontrol: str, nodes: Iterable[str]
) -> tuple[SiteCheck, ...]:
    """`run` gives the output of a command. Raises DriverError."""
    config = parse_config(run((scontrol, "show", "config")))
    user = _user()
    level = _admin_level(run, config, user)
    return (
        SiteCheck("may drain nodes", "" if level else _cannot_drain(config, user)),
        SiteCheck(
            "sees all jobs", "" if level or "jobs" not in config.get("PrivateData", "") else _cannot_see(user)
        ),
        SiteCheck("power saving leaves lent nodes alone", _power_saving(config, nodes)),
        SiteCheck("hooks run on the controller", _hooks(config)),
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user without a name, as in some containers
        return str(os.geteuid())


def _admin_level(run: Callable[[Sequence[str]], str], config: Mapping[str, str], user: str) -> str:
    """What makes this user an operator; "": nothing that is known."""
    if os.geteuid() == 0 or user == config["SlurmUser"].partition("(")[0]:
        return "SlurmUser"
    try:
        said = run(
            ("sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=adminlevel")
        ).strip()
    except DriverError:
        return ""
    return said if said in _MAY_DRAIN else ""


def _cannot_drain(config: Mapping[str, str], user: str) -> str:
    slurm_user = config["SlurmUser"].partition("(")[0]
    return (
        f"{user} is not {slurm_user}, nor known to be a Slurm operator: "
        f"sacctmgr modify user {user} set adminlevel=operator"
    )


def _cannot_see(user: str) -> str:
    return f"PrivateData has `jobs`, and {user} is no operator: a node with a hidden job would read as empty"


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
        f"SuspendTime is {config['SuspendTime']}, and {left[0]}{more} would be switched off while lent: put them in "
        "SuspendExcNodes, or DRAIN in SuspendExcStates (Slurm 23.02)"
    )


def _hooks(config: Mapping[str, str]) -> str:
    for key in ("Prolog", "Epilog"):
        if "slurm-prolog" in config.get(key, "") or "slurm-epilog" in config.get(key, ""):
            return f"{key}={config[key]} runs on the nodes, where its failure drains them: make it {key}Slurmctld"
    missing = [key for key in ("PrologSlurmctld", "EpilogSlurmctld") if not config.get(key)]
    if missing:
        return f"{' and '.join(missing)} not set: jobs are seen at the next reading only (docs/balancer/drivers.md)"
    return ""
