"""What the manager does about failed hosts, on a clock that is moved by hand; and what collect makes of the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from balancer.clock import SystemClock
from balancer.lifecycle.records import Lost, RequestRecord, RequestStatus
from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.lease_history import LeaseHistories
from emulator.live.ondemand.cloud import Cloud
from emulator.live.ondemand.failed_hosts import FailedHosts
from emulator.live.ondemand.nodes import Granted
from emulator.live.ondemand.servers import Reservation, Server, ServerSpec
from emulator.live.replay_log import LeaseResult
from emulator.record.run_record import NodePool

NAMES = ("n001", "n002", "n003")


class Source:
    """A Balancer that says of each request what a test wants."""

    def __init__(self) -> None:
        self.says: dict[str, dict[str, Any]] = {}
        self.released: list[tuple[str, ...]] = []
        self.withdrawn: list[str] = []

    def request(self, count: int, key: str, exclude: tuple[str, ...] = ()) -> Granted:
        self.says["r1"] = granted(NAMES[:count])
        self.key = key
        return Granted(NAMES[:count])

    def request_of(self, key: str) -> str | None:
        return "r1" if key == self.key else None

    def status_of(self, request_id: str) -> dict[str, Any]:
        return self.says[request_id]

    def withdraw(self, request_id: str) -> None:
        self.withdrawn.append(request_id)

    def release(self, nodes: tuple[str, ...], key: str) -> None:
        self.released.append(nodes)


def granted(nodes: tuple[str, ...], **more: Any) -> dict[str, Any]:
    return {"state": "granted", "nodes": list(nodes), "down": [], "lost": [], "ended_at": None} | more


def lost(node: str, by: str) -> dict[str, str]:
    return {"node": node, "since": "1970-01-01T00:00:00", "replaced_by": by}


@pytest.fixture
def site() -> Any:
    """A cloud with a create of two servers; `look` looks once."""
    source, clock, watching = Source(), SystemClock(), []
    cloud = Cloud(source, clock, release_linger_s=0.01)  # type: ignore[arg-type]
    spec = ServerSpec(account=None, name="lease", count=2)  # type: ignore[arg-type]
    reservation = cloud.create(spec)

    def look(*, replace: bool) -> tuple[Source, Reservation, list[Server]]:
        if not watching:
            watching.append(FailedHosts(cloud, source, clock, period_us=10**15, replace=replace))
        with clock.paused():
            watching[0].look()
        return source, reservation, reservation.servers

    while not reservation.decided:
        pass
    yield look
    for each in watching:
        each.close()
    cloud.close()


def test_a_host_that_was_replaced_is_another_host(site: Any) -> None:
    source, _, servers = site(replace=True)
    source.says["r1"]["lost"] = [lost("n001", "r1.2")]
    source.says["r1.2"] = granted(("n003",))
    site(replace=True)
    assert [server.host for server in servers] == ["n003", "n002"]


def test_a_replacement_that_waits_is_taken_when_it_is_granted(site: Any) -> None:
    source, _, servers = site(replace=True)
    source.says["r1"]["lost"] = [lost("n001", "r1.2")]
    source.says["r1.2"] = {"state": "waiting", "nodes": []}
    site(replace=True)
    assert [server.host for server in servers] == [None, "n002"]
    source.says["r1.2"] = granted(("n003",))
    site(replace=True)
    assert [server.host for server in servers] == ["n003", "n002"]


def test_a_replacement_of_a_replacement_is_followed(site: Any) -> None:
    source, _, servers = site(replace=True)
    source.says["r1"]["lost"] = [lost("n001", "r1.2")]
    source.says["r1.2"] = granted(("n003",))
    site(replace=True)
    source.says["r1.2"]["lost"] = [lost("n003", "r1.3")]
    source.says["r1.3"] = granted(("n001",))
    site(replace=True)
    assert [server.host for server in servers] == ["n001", "n002"]


def test_without_any_host_the_create_ends(site: Any) -> None:
    source, _, servers = site(replace=True)
    source.says["r1"]["lost"] = [lost("n001", "r1.2"), lost("n002", "r1.2")]
    source.says["r1.2"] = {"state": "rejected", "nodes": []}
    site(replace=True)
    assert all(server.deleted_us is not None for server in servers)


def test_a_user_who_ends_it_gives_all_hosts_back(site: Any) -> None:
    source, reservation, servers = site(replace=False)
    source.says["r1"]["down"] = [{"node": "n002", "since": "1970-01-01T00:00:00"}]
    site(replace=False)
    assert all(server.deleted_us is not None for server in servers)
    assert reservation.returned.wait(10)
    assert sorted(node for nodes in source.released for node in nodes) == ["n001", "n002"]


# What the ledger says afterwards.


def request(request_id: str, nodes: tuple[str, ...], at_us: int, **more: Any) -> RequestRecord:
    given: dict[str, Any] = {"status": RequestStatus.GRANTED, "decided_us": at_us} | more
    return RequestRecord(
        request_id=request_id,
        count=len(nodes),
        arrived_us=at_us,
        deadline_us=at_us,
        order=1,
        nodes=nodes,
        **given,
    )


LEASE = LeaseResult(1, granted=True, decided_us=10, ended_us=100)


def test_a_lease_that_nothing_happened_to_is_as_the_replayer_says() -> None:
    whole = LeaseHistories([request("1", ("n001",), 10, ended_us=100)], NAMES)
    assert whole.of(LEASE, ("n001",)) is None


def test_a_replaced_node_makes_a_second_row() -> None:
    grants = [
        request("1", ("n001", "n002"), 10, ended_us=100, lost=(Lost("n001", 30, "1.5"),)),
        request("1.5", ("n003",), 40, ended_us=100, replaces="1"),
    ]
    found = LeaseHistories(grants, NAMES).of(LEASE, ("n001", "n002"))
    assert found is not None
    assert found.rows == [(10, 40, RunOutcome.RESIZED, (0, 1)), (40, 100, RunOutcome.FINISHED, (1, 2))]
    assert (found.state, [move.pool for move in found.moves][:2]) == (
        JobState.ENDED,
        [NodePool.OD_ALLOC, NodePool.OD_RESERVE],
    )


def test_a_lease_that_went_back_early_was_cut() -> None:
    found = LeaseHistories([request("1", ("n001", "n002"), 10, ended_us=60)], NAMES).of(
        LEASE, ("n001", "n002")
    )
    assert found is not None
    assert (found.state, found.rows) == (JobState.CANCELLED, [(10, 60, RunOutcome.CANCELLED, (0, 1))])


def test_a_lease_without_a_node_is_over_and_lacks_the_rest() -> None:
    grants = [
        request("1", ("n001",), 10, ended_us=40, lost=(Lost("n001", 30, "1.5"),)),
        request("1.5", (), 40, status=RequestStatus.REJECTED, replaces="1"),
    ]
    whole = LeaseHistories(grants, NAMES)
    found = whole.of(LEASE, ("n001",))
    assert found is not None
    assert found.rows == [(10, 40, RunOutcome.CANCELLED, (0,))]
