"""Two real services share a PostgreSQL ledger: one leads, the other stands by and takes over (I12, T15)."""

from __future__ import annotations

import threading

import pytest

from balancer.clock import micros, wall_us
from balancer.ledger.lease import DURATION_S
from gates import GATE
from ledger_kit.postgresql import running as running_postgresql

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.needs("postgresql"),
]


def start_standby(service, url):
    """It prints no address and gets no ready file until it leads: whether it stands by is in its log."""
    service.ready.unlink(missing_ok=True)
    service.launch("--reserve", "2", "--db", url)
    service.wait_for_log("standing by")


def test_when_the_leader_is_killed_the_standby_takes_over_with_all_that_was_answered(service_in):
    with running_postgresql() as postgresql:
        url = postgresql.new_database()
        leader, standby = service_in("leader"), service_in("standby")
        standby.share_batch_of(leader)
        leader.start("--reserve", "2", "--db", url)
        with leader.client() as client:
            granted = client.request_nodes(1, idempotency_key="k1")
            client.add_reserve(1, 600.0)
            before = client.nodes(), client.reserves(), client.request(granted.id)
        start_standby(standby, url)
        assert not standby.ready.exists(), "it must not serve while another one leads"

        leader.kill()
        killed_us = wall_us()
        standby.wait_until_ready()
        took_s = (wall_us() - killed_us) / 1e6

        with standby.client() as client:
            now = client.nodes(), client.reserves(), client.request(granted.id)
            assert client.request_nodes(1, idempotency_key="k1") == granted
            kinds = [event.kind for event in client.events()]
        assert [(node.name, node.state) for node in now[0] if node.state == "OD_ALLOC"] == [
            (node.name, node.state) for node in before[0] if node.state == "OD_ALLOC"
        ]
        assert now[1:] == before[1:]
        assert kinds.count("started") == 2
        assert took_s > 5, "a lease that may still be renewed was not respected"
        print(f"the standby served {took_s:.1f} s after the kill")
        assert standby.stop() == 0


def test_when_the_leader_ends_in_an_orderly_way_the_standby_need_not_wait_for_the_lease(service_in):
    with running_postgresql() as postgresql:
        url = postgresql.new_database()
        leader, standby = service_in("leader"), service_in("standby")
        standby.share_batch_of(leader)
        leader.start("--reserve", "2", "--db", url)
        start_standby(standby, url)
        stopper = threading.Thread(target=leader.stop)
        stopper.start()
        limit_us = wall_us() + micros(60)
        standby.wait_until_ready()
        stopper.join()
        assert wall_us() < limit_us
        with standby.client() as client:
            assert len(client.nodes()) == standby.count
        assert standby.stop() == 0


def test_a_standby_outlives_an_outage_of_the_database_and_takes_over_when_the_leader_does_not_come_back(
    service_in,
):
    with running_postgresql() as postgresql:
        url = postgresql.new_database()
        leader, standby = service_in("leader"), service_in("standby")
        standby.share_batch_of(leader)
        leader.start("--reserve", "2", "--db", url)
        with leader.client() as client:
            granted = client.request_nodes(1, idempotency_key="k1")
        start_standby(standby, url)

        postgresql.stop()
        leader.kill()
        standby.wait_for_log("the database does not answer")
        assert GATE.database_outage_s > DURATION_S
        threading.Event().wait(GATE.database_outage_s)  # the outage itself: there is nothing else to wait for
        assert not standby.ready.exists()
        postgresql.start()
        standby.wait_until_ready()

        with standby.client() as client:
            assert client.request_nodes(1, idempotency_key="k1") == granted
            assert [node.name for node in client.nodes() if node.state == "OD_ALLOC"] == list(granted.nodes)
        assert standby.stop() == 0
