"""openstacksdk's own functional tests of what leases need, unmodified, against the manager.

They are made for a devstack: the manager has its users, a flavor and an image of that kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from emulator.live.ondemand.config import Flavor, OndemandConfig, User
from emulator.live.ondemand.server import OndemandServer

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
]
TESTS = "openstack.tests.functional."
ASKED = tuple(f"compute.v2.test_{name}" for name in ("hypervisor", "limits", "service"))
RUN = """
import json, sys, unittest
class Result(unittest.TestResult):
    passed = []
    def addSuccess(self, test):
        self.passed.append(test.id())
found = Result()
unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:]).run(found)
failed = {test.id(): text for test, text in found.failures + found.errors}
json.dump({"passed": found.passed, "failed": failed}, open(sys.argv[1], "w"))
"""


@pytest.fixture
def devstack():
    users = [
        User(name=name, password="secret", project=name, admin=name == "admin")
        for name in ("demo", "alt", "admin")
    ]
    largest = Flavor(id="5", name="m1.xlarge", vcpus=8, ram_mb=16_384, disk_gb=160)
    nodes = tuple(f"node{number:03d}" for number in range(1, 9))
    config = OndemandConfig(pool=nodes, users=tuple(users), flavor=largest, image="cirros-0.6.2-x86_64-uec")
    with OndemandServer(config) as manager:
        yield manager


def test_those_that_need_only_what_leases_need_pass(devstack, tmp_path):
    def cloud(user):
        account = {
            "auth_url": devstack.auth_url,
            "username": user,
            "password": "secret",
            "project_name": user,
        }
        domains = {"user_domain_id": "default", "project_domain_id": "default"}
        return {"auth": account | domains, "region_name": "RegionOne", "identity_api_version": "3"}

    names = {
        "devstack": "demo",
        "devstack-alt": "alt",
        "devstack-admin": "admin",
        "devstack-system-admin": "admin",
    }
    clouds = {"clouds": {name: cloud(user) for name, user in names.items()}}
    (tmp_path / "clouds.yaml").write_text(json.dumps(clouds))
    captured = {
        "OS_LOG_CAPTURE": "1",
        "OS_STDERR_CAPTURE": "1",
        "OS_STDOUT_CAPTURE": "1",
        "OS_TEST_TIMEOUT": "300",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, str(tmp_path / "found.json"), *(TESTS + each for each in ASKED)],
        env=os.environ | captured | {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    failed = {name.removeprefix(TESTS): text for name, text in found["failed"].items()}
    assert failed == {}
    assert len(found["passed"]) >= len(ASKED)
