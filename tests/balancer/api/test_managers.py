"""The page for other managers: its Python and its curl do what it says, against a running service."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from balancer.client import Balancer
from polling import until
from service_kit import running

PAGE = (Path(__file__).parents[3] / "docs" / "balancer" / "managers.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def manager():
    """The class of the page."""
    (text,) = blocks("python")
    assert len(text.splitlines()) <= 40
    names = {}
    exec(compile(text, "managers.md", "exec"), names)  # noqa: S102 - our own page
    return names["Manager"]


def states(world):
    return sorted(world.settled().values())


def test_the_python_of_the_page_requests_confirms_renews_and_releases(served, manager):
    w, url = served(nodes=3, confirm_s=60, idle_reserve_s=0)
    w.settled()
    odrm = manager(url, "odrm")
    request = odrm.request(2, wait_s=0, lease_s=600)
    assert (request["owner"], request["confirmed"], len(request["nodes"])) == ("odrm", True, 2)
    assert states(w) == ["OA_IDLE", "OD_ALLOC", "OD_ALLOC"]
    assert odrm.renew(request, 3600)
    assert odrm.request(5, wait_s=0, lease_s=600) is None, "there are three"
    assert odrm.release(request["nodes"])
    assert states(w) == ["OA_IDLE"] * 3
    assert not odrm.renew(request, 3600), "it has gone back"


def test_it_waits_while_jobs_hold_the_nodes(served, manager):
    w, url = served(nodes=2, confirm_s=60, wait_s=600)
    w.settled()
    w.start_job("1.server", "n01")
    with running(lambda: manager(url, "odrm").request(2, wait_s=600, lease_s=600)) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        w.end_job("1.server")
    assert sorted(result[0]["nodes"]) == ["n01", "n02"]


@pytest.mark.live
@pytest.mark.needs("curl", "jq")
def test_the_curl_of_the_page_does_the_same(served):
    w, url = served(nodes=3, confirm_s=60, idle_reserve_s=0)
    w.settled()
    on_demand, batch = blocks("bash")
    for script in (on_demand, batch):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=os.environ | {"BALANCER_URL": url},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
    with Balancer(url) as client:
        (request,) = client.requests()
        assert (request.owner, request.confirmed, request.ended_s is not None) == ("curl", True, True)
        assert [reserve.count for reserve in client.reserves()] == [1]
