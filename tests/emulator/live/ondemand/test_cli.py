"""The unmodified `openstack` command against the manager: output of the recorded shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nova_kit.commands import Clients
from testdata import RECORDED

pytestmark = pytest.mark.live

OPENSTACK = Path(sys.executable).with_name("openstack")


def recorded(command):
    """Exit code and output of the recorded command."""
    for entry in json.loads((RECORDED / "nova" / "50-cli.json").read_text())["commands"]:
        if entry["command"] == f"openstack {command}":
            return entry
    raise AssertionError(f"not recorded: {command}")


@pytest.fixture
def ask(manager):
    """`ask(command, user)`: what one process of the client for each user, which is started once, makes of it."""

    def account(user):
        told = {
            "auth-url": manager.auth_url, "username": user, "password": "secret", "project-name": user,
            "user-domain-id": "default", "project-domain-id": "default", "region-name": "RegionOne",
            "identity-api-version": "3",
        }  # fmt: skip
        return [word for name, value in told.items() for word in (f"--os-{name}", value)]

    with Clients({user: account(user) for user in ("demo", "admin")}) as clients:
        yield lambda command, user="demo": clients.run(user, command)


def keys(output):
    """Column names of a row or of every row."""
    return sorted(output) if isinstance(output, dict) else sorted({key for row in output for key in row})


def check(command, answer):
    """The answer's output, after a look at its exit code and columns, or its errors if there should be no output."""
    theirs, (status, output, errors) = recorded(command), answer
    assert status == theirs["exit_code"], errors
    if not theirs["stdout"]:
        return errors
    found = json.loads(output)
    assert keys(found) == keys(theirs["stdout"])
    return found


@pytest.mark.slow
def test_the_command_itself_is_unmodified_and_answers_as_recorded(manager):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "OS_AUTH_URL": manager.auth_url,
        "OS_USERNAME": "demo",
        "OS_PASSWORD": "secret",
        "OS_PROJECT_NAME": "demo",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": "RegionOne",
        "OS_IDENTITY_API_VERSION": "3",
    }
    command = "flavor list -f json"
    done = subprocess.run(
        [str(OPENSTACK), *command.split()],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    check(command, (done.returncode, done.stdout, done.stderr))


@pytest.mark.slow
def test_a_user_creates_lists_shows_and_deletes_servers(ask):
    def told(command):
        return check(command, ask(command))

    for name in ("cli-1", "cli-2"):
        net = "--no-network --wait" if name == "cli-1" else "--nic none"
        told(f"server create --image tiny --flavor node {net} {name} -f json")
    told("server create --image tiny --flavor node --no-network --max 2 --wait cli-m -f json")
    over = told("server create --image tiny --flavor node --no-network --wait cli-over -f json")
    assert "Error creating server: cli-over" in over
    rows = {row["Name"]: row["Status"] for row in told("server list -f json")}
    assert rows == {
        "cli-1": "ACTIVE",
        "cli-2": "ACTIVE",
        "cli-m-1": "ACTIVE",
        "cli-m-2": "ACTIVE",
        "cli-over": "ERROR",
    }
    assert told("server show cli-1 -f json")["status"] == "ACTIVE"
    told("server delete --wait cli-1 cli-2 cli-m-1 cli-m-2 cli-over")
    assert json.loads(ask("server list -f json")[1]) == []


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
    ("demo", "project list -f json"),
    ("demo", "server delete no-such-server"),
]


@pytest.mark.slow
def test_other_commands_answer_as_recorded(ask, subtests):
    for user, command in COMMANDS:
        with subtests.test(command):
            check(command, ask(command, user))
