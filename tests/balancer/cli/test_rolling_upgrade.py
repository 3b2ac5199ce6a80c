"""Two services with one ledger come from the last release to this one, one after the other, as the page has it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from signal import SIGTERM

import pytest

from ledger_kit.postgresql import running as running_postgresql

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(300),
    pytest.mark.needs("postgresql"),
    pytest.mark.needs("git"),
]


@pytest.fixture
def last_release(tmp_path):
    """What is in the environment of a service of the last release: its code, as the commit of its version has it."""
    folder = tmp_path / "last-release"
    folder.mkdir()
    commit = _git("log", "-1", "--format=%H", "-G^version = ", "--", "pyproject.toml").decode().strip()
    subprocess.run(["tar", "-x", "-C", folder], input=_git("archive", commit, "balancer"), check=True)
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def _git(*words):
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_the_standby_is_upgraded_first_and_no_answer_is_lost_on_the_way(service_in, last_release):
    with running_postgresql() as postgresql:
        options = "--reserve", "2", "--db", postgresql.new_database()
        head1, head2 = service_in("head1"), service_in("head2")
        head2.share_batch_of(head1)
        new = head1.environment
        head1.environment = head2.environment = new | last_release
        head1.start(*options)
        _stand_by(head2, options)
        with head1.client() as client:
            before = client.request_nodes(1, idempotency_key="before")
            client.add_reserve(1, 600.0)

        assert head2.stop() == -SIGTERM  # it has nothing to end
        head2.environment = new
        _stand_by(head2, options)
        with head1.client() as client:
            meanwhile = client.request_nodes(1, idempotency_key="meanwhile")

        assert head1.stop() == 0
        head2.wait_until_ready()
        with head2.client() as client:
            assert client.request_nodes(1, idempotency_key="before").nodes == before.nodes
            assert client.request_nodes(1, idempotency_key="meanwhile").nodes == meanwhile.nodes
            assert len(client.reserves()) == 1
            lent = [node.name for node in client.nodes() if node.state == "OD_ALLOC"]
        assert lent == sorted([*before.nodes, *meanwhile.nodes])

        head1.launch(*options)
        assert head1.process.wait(60) == 2
        assert "newer" in head1.log.read_text(encoding="utf-8")
        head1.environment = new
        _stand_by(head1, options)
        assert head2.stop() == 0
        head1.wait_until_ready()
        with head1.client() as client:
            assert [node.name for node in client.nodes() if node.state == "OD_ALLOC"] == lent
        assert head1.stop() == 0


def _stand_by(service, options):
    service.ready.unlink(missing_ok=True)
    service.launch(*options)
    service.wait_for_log("standing by")
