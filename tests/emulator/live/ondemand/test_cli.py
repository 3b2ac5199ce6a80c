"""The unmodified `openstack` command against the manager: output of the recorded shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testdata import RECORDED

pytestmark = pytest.mark.live

OPENSTACK = Path(sys.executable).with_name("openstack")


def recorded(command):
    """Exit code and output of the recorded command."""
    for entry in json.loads((RECORDED / "nova" / "50-cli.json").read_text())["commands"]:
        if entry["command"] == f"openstack {command}":
            return entry
    raise AssertionError(f"not recorded: {command}")


def run(manager, command, user="demo"):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "OS_AUTH_URL": manager.auth_url,
        "OS_USERNAME": user,
        "OS_PASSWORD": "secret",
        "OS_PROJECT_NAME": user,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": "RegionOne",
        "OS_IDENTITY_API_VERSION": "3",
    }
    return subprocess.run(
        [str(OPENSTACK), *command.split()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def keys(output):
    """Column names of a row or of every row."""
    return sorted(output) if isinstance(output, dict) else sorted({key for row in output for key in row})


def check(manager, command, user="demo"):
    """Run a recorded command; its output, after a look at exit code and columns."""
    theirs, ours = recorded(command), run(manager, command, user)
    assert ours.returncode == theirs["exit_code"], ours.stderr
    if not theirs["stdout"]:
        return ours
    output = json.loads(ours.stdout)
    assert keys(output) == keys(theirs["stdout"])
    return output


@pytest.mark.slow
def test_a_user_creates_lists_shows_and_deletes_servers(manager):
    for name in ("cli-1", "cli-2"):
        net = "--no-network --wait" if name == "cli-1" else "--nic none"
        check(manager, f"server create --image tiny --flavor node {net} {name} -f json")
    check(manager, "server create --image tiny --flavor node --no-network --max 2 --wait cli-m -f json")
    over = check(manager, "server create --image tiny --flavor node --no-network --wait cli-over -f json")
    assert "Error creating server: cli-over" in over.stderr
    rows = {row["Name"]: row["Status"] for row in check(manager, "server list -f json")}
    assert rows == {
        "cli-1": "ACTIVE",
        "cli-2": "ACTIVE",
        "cli-m-1": "ACTIVE",
        "cli-m-2": "ACTIVE",
        "cli-over": "ERROR",
    }
    assert check(manager, "server show cli-1 -f json")["status"] == "ACTIVE"
    check(manager, "server delete --wait cli-1 cli-2 cli-m-1 cli-m-2 cli-over")
    assert json.loads(run(manager, "server list -f json").stdout) == []


COMMANDS = [
    ("demo", "token issue -f json"),
    ("demo", "catalog list -f json"),
    ("demo", "versions show -f json"),
    ("demo", "flavor list -f json"),
    ("demo", "flavor show node -f json"),
    ("demo", "image list -f json"),
    ("demo", "compute service list"),
    ("admin", "compute service list -f json"),
    ("admin", "hypervisor list -f json"),
    ("admin", "hypervisor show node001 -f json"),
    ("demo", "availability zone list -f json"),
    ("demo", "limits show --absolute -f json"),
    ("demo", "quota show -f json"),
    ("demo", "usage show -f json"),
    ("demo", "keypair list -f json"),
    ("demo", "project list -f json"),
    ("demo", "server delete no-such-server"),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("user", "command"), COMMANDS)
def test_other_commands_answer_as_recorded(manager, user, command):
    check(manager, command, user)
