"""All commands of openstackclient that concern this manager, unmodified; the page says which there are not."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from nova_kit.commands import Clients, Step, read

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = read(Path(__file__).with_name("openstackclient.txt").read_text(encoding="utf-8"))
PAGE = Path(__file__).parents[4] / "docs" / "live-ondemand.md"
GROUPS = ("common", "cli", "compute.v2", "image.v2", "identity.v3")


COMMANDS = {
    each.name.replace("_", " ") for group in GROUPS for each in entry_points(group=f"openstack.{group}")
}


def command_of(step: Step) -> str:
    """The longest command that its line begins with."""
    return max((name for name in COMMANDS if f"{step.line} ".startswith(f"{name} ")), key=len)


def not_there() -> dict[str, set[str]]:
    """Each name of the table -> the commands that it stands for."""
    table = Path(__file__).with_name("not_there.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \| .+ \|$", table, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".+")) for name in names}
    return {
        name: {each for each in COMMANDS if pattern.fullmatch(each)} for name, pattern in patterns.items()
    }


def account(manager, user, version):
    told = {
        "auth-url": manager.auth_url, "username": user, "password": "secret", "project-name": user,
        "user-domain-id": "default", "project-domain-id": "default", "region-name": "RegionOne",
        "identity-api-version": "3", "compute-api-version": version,
    }  # fmt: skip
    return [word for name, value in told.items() for word in (f"--os-{name}", value)]


def test_the_page_says_of_each_command_whether_it_is_there():
    found = not_there()
    assert [name for name, meant in found.items() if not meant] == []
    absent, works = set().union(*found.values()), {command_of(step) for step in SCRIPT if step.works}
    assert works & absent == set()
    assert {command_of(step) for step in SCRIPT if not step.works} <= absent
    assert COMMANDS - works - absent == set()
    assert f"{len(works)} of {len(COMMANDS)} commands" in PAGE.read_text(encoding="utf-8")


def test_each_works_or_is_refused_as_the_script_has_it(manager):
    accounts = {
        "demo": account(manager, "demo", "2.97"),
        "admin": account(manager, "admin", "2.97"),
        "old": account(manager, "admin", "2.50"),
    }
    with Clients(accounts) as clients:
        wrong = [found for step in SCRIPT if (found := clients.wrong(step))]
    assert wrong == []
