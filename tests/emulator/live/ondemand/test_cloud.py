"""Servers and their nodes, without HTTP."""

from __future__ import annotations

import re
from threading import Event

import pytest

from balancer.clock import SystemClock
from emulator.config.cloud_faults import CloudFaults, read_faults
from emulator.live.ondemand.background import RetryQueue
from emulator.live.ondemand.cloud import Cloud
from emulator.live.ondemand.http import Account
from emulator.live.ondemand.nodes import (
    FixedPool,
    Granted,
    Refused,
    SourceRefusedError,
    SourceUnreachableError,
    Waiting,
)
from emulator.live.ondemand.servers import Memory, ServerSpec
from manual_clock import ManualClock
from polling import until

DEMO = Account("demo", "secret", "u", "demo", "p", admin=False)


def spec(count=1):
    return ServerSpec(account=DEMO, name="lease", count=count)


class ScriptedSource:
    """Answers what the test says, and notes what it is told."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.verdict = Waiting("r1")
        self.told = []
        self.heard = Event()
        self.is_away = False
        self.in_vain = 0

    def request(self, count, key, exclude=()):
        if self.is_away:
            self.in_vain += 1
            raise SourceUnreachableError("away")
        self.told.append(("request", count, *exclude))
        return self.answers.pop(0)

    def ask_for_fewer(self, request_id, count, key, exclude=()):
        if self.is_away:
            self.in_vain += 1
            raise SourceUnreachableError("away")
        self.told.append(("fewer than", request_id, count, *exclude))
        self.heard.set()  # who polls for the larger request is answered
        return self.answers.pop(0)

    def poll(self, request_id, wait_s):
        if isinstance(self.verdict, Waiting) and wait_s:
            self.heard.wait(120)
        return self.verdict

    def decide(self, verdict):
        self.verdict = verdict
        self.heard.set()

    def withdraw(self, request_id):
        self.told.append(("withdraw", request_id))
        self.decide(Refused("withdrawn"))

    def release(self, nodes, key):
        if self.is_away:
            raise SourceUnreachableError("away")
        self.told.append(("release", nodes))


def settled(cloud, reservation, status):
    """Wait until all servers of the reservation are in this state."""
    until(lambda: {server.status(cloud.clock.now_us()) for server in reservation.servers} == {status})


@pytest.fixture
def build():
    """build(source, **options) -> a cloud on a clock that stands at one second."""
    clouds = []

    def build(source, **options):
        cloud = Cloud(source, ManualClock(1_000_000), retries=RetryQueue(retry_s=0.01), **options)
        clouds.append((cloud, source))
        return cloud

    yield build
    for cloud, source in clouds:
        if isinstance(source, ScriptedSource):
            source.heard.set()
        cloud.close()


def test_the_whole_shortage_is_asked_for_at_once(build):
    source = ScriptedSource(Granted(("n1", "n2", "n3"), 900_000))
    cloud = build(source)
    reservation = cloud.create(spec(3))
    settled(cloud, reservation, "ACTIVE")
    assert source.told == [("request", 3)]
    assert [(s.name, s.host, s.launched_us) for s in reservation.servers] == [
        ("lease-1", "n1", 900_000),
        ("lease-2", "n2", 900_000),
        ("lease-3", "n3", 900_000),
    ]


def test_building_takes_the_time_it_is_told_to(build):
    cloud = build(ScriptedSource(Granted(("n1",))), boot_us=60_000_000)
    (server,) = cloud.create(spec()).servers
    settled(cloud, server.reservation, "BUILD")
    assert server.status(60_999_999) == "BUILD"
    settled_us = 61_000_000
    while server.launched_us is None:
        SystemClock().alarm().wait(0.005)
    assert (server.launched_us, server.status(settled_us)) == (settled_us, "ACTIVE")


def test_the_servers_of_a_waiting_request_are_built_when_it_is_granted(build):
    source = ScriptedSource(Waiting("r1"))
    cloud = build(source)
    reservation = cloud.create(spec(2))
    assert {server.status(cloud.clock.now_us()) for server in cloud.servers()} == {"BUILD"}
    source.decide(Granted(("n1", "n2"), 1_000_000))
    settled(cloud, reservation, "ACTIVE")


def test_a_look_at_a_waiting_server_asks_the_source(build):
    source = ScriptedSource(Waiting("r1"))
    cloud = build(source)
    reservation = cloud.create(spec())
    while reservation.waiting_id is None:
        SystemClock().alarm().wait(0.005)
    source.verdict = Granted(("n1",), 1_000_000)  # the long poll has not come back yet
    assert cloud.server(reservation.servers[0].id).status(1_000_000) == "ACTIVE"


def test_deleting_all_servers_of_a_waiting_request_withdraws_it(build):
    source = ScriptedSource(Waiting("r1"))
    cloud = build(source)
    reservation = cloud.create(spec(2))
    while reservation.waiting_id is None:
        SystemClock().alarm().wait(0.005)
    for server in reservation.servers:
        cloud.delete(server)
    assert source.told == [("request", 2), ("withdraw", "r1")]
    assert cloud.servers() == []


def waiting(cloud, count):
    """A reservation whose request waits."""
    reservation = cloud.create(spec(count))
    until(lambda: reservation.waiting_id is not None)
    return reservation


def test_where_one_of_three_that_wait_is_deleted_two_nodes_are_asked_for(build):
    source = ScriptedSource(Waiting("r1"), Waiting("r2"), Granted(("n1",), 1_000_000))
    cloud = build(source)
    reservation = waiting(cloud, 3)
    cloud.delete(reservation.servers[0])
    until(lambda: reservation.waiting_id == "r2")
    cloud.delete(reservation.servers[1])
    until(lambda: reservation.decided)
    assert source.told == [("request", 3), ("fewer than", "r1", 2), ("fewer than", "r2", 1)]
    assert [(server.name, server.host) for server in cloud.servers()] == [("lease-3", "n1")]


def test_nodes_that_were_granted_for_a_server_that_is_deleted_go_back(build):
    source = ScriptedSource(Waiting("r1"), Granted(("n1", "n2", "n3"), 1_000_000))
    cloud = build(source)
    reservation = waiting(cloud, 3)
    cloud.delete(reservation.servers[0])
    until(lambda: len(source.told) == 3)
    assert source.told == [("request", 3), ("fewer than", "r1", 2), ("release", ("n3",))]
    assert [(server.name, server.host) for server in cloud.servers()] == [
        ("lease-3", "n2"),
        ("lease-2", "n1"),
    ]


def test_others_wait_on_while_the_source_that_is_to_hear_of_fewer_is_away(build):
    source = ScriptedSource(Waiting("r1"), Waiting("r2"))
    cloud = build(source)
    reservation = waiting(cloud, 2)
    source.is_away = True
    cloud.delete(reservation.servers[0])
    until(lambda: source.in_vain > 5)
    source.is_away = False
    until(lambda: reservation.waiting_id == "r2")
    assert [server.status(cloud.clock.now_us()) for server in cloud.servers()] == ["BUILD"]
    source.decide(Granted(("n1",), 1_000_000))
    until(lambda: reservation.decided)
    assert source.told == [("request", 2), ("fewer than", "r1", 1)]


def test_a_manager_that_was_stopped_asks_for_fewer_again(build, tmp_path):
    source = ScriptedSource(Waiting("r1"), Granted(("n1",), 1_000_000))
    stopped = build(source, memory=Memory(tmp_path / "memory"))
    reservation = waiting(stopped, 2)
    source.is_away = True
    stopped.delete(reservation.servers[0])
    until(lambda: source.in_vain)
    stopped.close()
    source.is_away = False
    cloud = build(source, memory=Memory(tmp_path / "memory"))
    cloud.resume()
    until(lambda: all(server.host for server in cloud.servers()))
    assert source.told == [("request", 2), ("fewer than", "r1", 1)]
    assert [(server.name, server.host) for server in cloud.servers()] == [("lease-2", "n1")]


def test_servers_that_are_deleted_together_give_their_nodes_back_in_one_call(build):
    source = ScriptedSource(Granted(("n1", "n2", "n3")))
    cloud = build(source, release_linger_s=20)
    reservation = cloud.create(spec(3))
    settled(cloud, reservation, "ACTIVE")
    for server in reversed(reservation.servers):
        cloud.delete(server)
    assert source.told == [("request", 3), ("release", ("n1", "n2", "n3"))]


def test_a_server_that_is_deleted_alone_gives_its_node_back_alone(build):
    source = ScriptedSource(Granted(("n1", "n2")))
    cloud = build(source, release_linger_s=0.01)
    reservation = cloud.create(spec(2))
    settled(cloud, reservation, "ACTIVE")
    cloud.delete(reservation.servers[0])
    assert reservation.returned.wait(120)
    assert source.told == [("request", 2), ("release", ("n1",))]
    cloud.delete(reservation.servers[1])
    assert source.told[2:] == [("release", ("n2",))]


def wait_for_retries(cloud):
    retries = cloud._retries
    with retries._changed:
        assert retries._changed.wait_for(lambda: not retries._open, 120)


def test_nodes_that_cannot_be_returned_now_are_returned_later(build):
    source = ScriptedSource(Granted(("n1",)))
    cloud = build(source)
    reservation = cloud.create(spec())
    settled(cloud, reservation, "ACTIVE")
    source.is_away = True
    cloud.delete(reservation.servers[0])
    assert source.told == [("request", 1)]
    source.is_away = False
    wait_for_retries(cloud)
    assert source.told == [("request", 1), ("release", ("n1",))]


def test_a_request_whose_answer_was_lost_is_undone_when_the_source_is_back(build):
    source = ScriptedSource(Granted(("n1",)))
    source.is_away = True
    cloud = build(source)
    reservation = cloud.create(spec())
    settled(cloud, reservation, "ERROR")
    source.is_away = False
    wait_for_retries(cloud)
    assert source.told == [("request", 1), ("release", ("n1",))]


def test_a_manager_that_is_killed_before_it_could_undo_a_request_undoes_it_in_its_next_life(build, tmp_path):
    source = ScriptedSource(Granted(("n1",)))
    source.is_away = True
    killed = build(source, memory=Memory(tmp_path / "memory"))
    settled(killed, killed.create(spec()), "ERROR")
    assert killed._retries.close() != ()
    source.is_away = False
    for told in ([("request", 1), ("release", ("n1",))], []):
        source.told.clear()
        cloud = build(source, memory=Memory(tmp_path / "memory"))
        cloud.resume()
        wait_for_retries(cloud)
        assert source.told == told


def test_deleting_takes_the_time_it_is_told_to(build):
    source = ScriptedSource(Granted(("n1", "n2")))
    cloud = build(source, delete_us=30_000_000)
    reservation = cloud.create(spec(2))
    settled(cloud, reservation, "ACTIVE")
    for server in reservation.servers:
        cloud.delete(server)
        cloud.delete(server)
    assert [(server.status(cloud.clock.now_us()), server.host) for server in cloud.servers()] == [
        ("ACTIVE", "n2"),
        ("ACTIVE", "n1"),
    ]
    assert source.told == [("request", 2)]
    cloud.clock.advance_to(31_000_000)
    until(lambda: len(source.told) > 1)
    assert source.told[1:] == [("release", ("n1", "n2"))]
    assert [server.deleted_us for server in cloud.past()] == [31_000_000] * 2
    assert cloud.servers() == []


def test_a_waiting_server_is_deleted_at_once_however_long_others_take(build):
    cloud = build(ScriptedSource(Waiting("r1")), delete_us=30_000_000)
    (server,) = cloud.create(spec()).servers
    cloud.delete(server)
    assert cloud.servers() == []


def failing(**step):
    return CloudFaults.of(read_faults([{"at_s": 0, "do": "fail_boots", "nodes": "n2"} | step]))


def test_a_server_that_does_not_start_is_in_error_and_its_node_goes_back_while_the_others_run(build):
    source = ScriptedSource(Granted(("n1", "n2"), 1_000_000))
    cloud = build(source, boot_us=5_000_000, faults=failing())
    reservation = cloud.create(spec(2))
    until(lambda: reservation.decided)
    assert [server.status(5_999_999) for server in reservation.servers] == ["BUILD", "BUILD"]
    cloud.clock.advance_to(6_000_000)
    until(lambda: len(source.told) > 1)
    assert source.told == [("request", 2), ("release", ("n2",))]
    assert [(server.status(6_000_000), server.host) for server in reservation.servers] == [
        ("ACTIVE", "n1"),
        ("ERROR", None),
    ]
    for server in reservation.servers:
        cloud.delete(server)
    assert source.told[2:] == [("release", ("n1",))]


@pytest.mark.parametrize(
    ("step", "status"),
    [({}, "ERROR"), ({"for_s": 1}, "ACTIVE"), ({"for_s": 1.5}, "ERROR"), ({"at_s": 2}, "ACTIVE")],
    ids=str,
)
def test_starts_fail_for_as_long_as_the_step_lasts(build, step, status):
    cloud = build(ScriptedSource(Granted(("n2",))), faults=failing(**step))
    settled(cloud, cloud.create(spec()), status)


def test_hosts_that_are_down_or_disabled_are_not_asked_for(build):
    source = ScriptedSource(Granted(("n1",)))
    cloud = build(source, faults=failing(do="fail_hosts"))
    settled(cloud, cloud.create(spec(), exclude={"n4"}), "ACTIVE")
    assert source.told == [("request", 1, "n2", "n4")]
    pool = FixedPool(["n1", "n2"])
    assert pool.request(1, "k", ("n1",)) == Granted(("n2",))
    assert isinstance(pool.request(1, "other", ("n1",)), Refused)


def test_a_manager_that_is_killed_amid_a_deletion_ends_it_in_its_next_life(build, tmp_path):
    source = ScriptedSource(Granted(("n1", "n2")))
    killed = build(source, delete_us=30_000_000, memory=Memory(tmp_path / "memory"))
    reservation = killed.create(spec(2))
    settled(killed, reservation, "ACTIVE")
    killed.delete(reservation.servers[0])
    cloud = build(source, delete_us=30_000_000, memory=Memory(tmp_path / "memory"))
    cloud.resume()
    assert len(cloud.servers()) == 2
    cloud.clock.advance_to(31_000_000)
    until(lambda: len(source.told) > 1)
    assert source.told[1:] == [("release", ("n1",))]
    assert [server.host for server in cloud.servers()] == ["n2"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"do": "fail_all"}, "cloud_faults.0.do: must be 'fail_boots' or 'fail_hosts'"),
        ({"for": 3}, "cloud_faults.0.for: there is no such key"),
        ({"nodes": "n[1"}, "cloud_faults: nodes: "),
    ],
    ids=str,
)
def test_a_wrong_step_is_named(step, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        failing(**step)


def test_a_request_whose_manager_was_stopped_waits_for_a_source_that_comes_up_after_the_manager(
    build, tmp_path
):
    source = ScriptedSource(Waiting("r1"), Granted(("n1",), 1_000_000))
    stopped = build(source, memory=Memory(tmp_path / "memory"))
    stopped.create(spec())
    until(lambda: source.told)
    stopped.close()
    source.is_away = True
    for is_back in (False, True):  # the first of the two lives is stopped before the source is there
        source.in_vain = 0
        cloud = build(source, memory=Memory(tmp_path / "memory"))
        cloud.resume()
        until(lambda: source.in_vain > 5)
        (server,) = cloud.servers()
        assert (server.status(cloud.clock.now_us()), source.told) == ("BUILD", [("request", 1)])
        source.is_away = not is_back
        if not is_back:
            cloud.close()
    settled(cloud, server.reservation, "ACTIVE")
    assert source.told == [("request", 1), ("request", 1)]


def test_an_answer_that_comes_after_the_stop_is_asked_for_again_in_the_next_life(build, tmp_path):
    source = ScriptedSource(Waiting("r1"), Granted(("n1",), 1_000_000))
    stopped = build(source, memory=Memory(tmp_path / "memory"))
    reservation = waiting(stopped, 1)
    stopped.close()
    stopped.changed(reservation.servers[0])  # by a worker that was on its way
    cloud = build(source, memory=Memory(tmp_path / "memory"))
    cloud.resume()
    until(lambda: all(server.host for server in cloud.servers()))
    assert source.told == [("request", 1), ("request", 1)]


def test_a_fixed_pool_gives_the_node_that_was_idle_the_longest_and_takes_back_only_its_own():
    pool = FixedPool(["a", "b", "c"])
    assert pool.request(2, "first") == Granted(("a", "b"))
    assert pool.request(2, "first") == Granted(("a", "b"))
    assert isinstance(pool.request(2, "second"), Refused)
    pool.release(("b",), "k1")
    assert pool.request(2, "third") == Granted(("c", "b"))
    with pytest.raises(SourceRefusedError, match="not given by this pool: d"):
        pool.release(("d",), "k2")
