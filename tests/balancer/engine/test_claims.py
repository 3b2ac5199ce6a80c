"""Two services by mistake: the one that meets another's living claim commands nothing until an operator says so."""

from __future__ import annotations

import shutil

import pytest

import balancer.ledger.home
import balancer.service.claims
import service_kit
from balancer.drivers.base import RefusedError, UnclearError, UnreachableError
from balancer.http.app import create_app
from balancer.ledger.backup import back_up, restore
from balancer.service.claims import LIVES_S, WATCH_S, Claims

US = 1_000_000


def granted(w, count=1):
    return w.engine.wait_for_request(w.engine.submit_request(count).request_id).record.nodes


def owners(batch):
    """Node -> the ledger whose mark is on it."""
    return {name: batch.stamps[name].ledger_id for name, marked in batch.marked.items() if marked}


def looks(w, batch):
    """The service looks at claim and nodes, as it does by itself twice a minute."""
    w.engine._claims.due_us = 0
    w.engine.reconcile()
    w.settled()


@pytest.fixture
def batch():
    return service_kit.ClaimingBatch([f"n{number:02d}" for number in range(1, 9)])


@pytest.fixture
def service(world, tmp_path, batch):
    """`service("a", reserve=2)`: a service with a ledger of its own on the same nodes."""

    def make(name, **options):
        (tmp_path / name).mkdir(exist_ok=True)
        options = {"nodes": 8, "has_cloud": False, "driver": lambda _, __: batch} | options
        made = world(folder=tmp_path / name, **options)
        made.batch = batch
        made.settled()
        return made

    return make


@pytest.fixture
def wall(monkeypatch):
    """`wall(s)`: the steady clock of the claims, so long after it was first asked."""
    began_us, now_us = balancer.service.claims.wall_us(), [0]
    monkeypatch.setattr(balancer.service.claims, "wall_us", lambda: began_us + now_us[0])
    return lambda after_s: now_us.__setitem__(0, int(after_s * US))


def test_a_service_alone_claims_its_nodes_and_renews_the_claim(service, batch):
    w = service("a", reserve=2)
    mine = w.engine.ledger.ledger_id
    before = batch.claims
    looks(w, batch)
    assert (before.keys(), batch.claims.keys()) == ({mine}, {mine})
    assert batch.claims != before
    assert (w.engine.problem(), len(owners(batch))) == (None, 2)


@pytest.mark.parametrize("lent_first", [0, 2], ids=["the first has lent nothing", "the first has lent two"])
def test_the_second_commands_nothing_and_the_first_goes_on(service, batch, lent_first):
    a = service("a", idle_reserve_s=0)
    lent = granted(a, lent_first) if lent_first else ()
    commands = len(batch.commands())
    b = service("b", reserve=3)
    assert granted(b, 2) == ()
    looks(b, batch)
    assert (batch.commands()[commands:], set(owners(batch))) == ([], set(lent))
    if lent:
        a.engine.release_nodes(lent)
        a.settled()
    looks(b, batch)
    more = granted(a, 3)
    looks(a, batch)
    looks(b, batch)
    assert owners(batch) == dict.fromkeys(more, a.engine.ledger.ledger_id)
    assert (a.engine.problem(), a.engine.claimed, granted(b, 1)) == (None, "", ())


def test_the_second_says_so_in_status_readiness_and_metrics(service):
    a = service("a")
    b = service("b")
    http = create_app(b.engine).test_client()
    status = http.get("/v1/status").json
    assert status["claimed"] == status["problem"]
    assert status["claimed"].startswith(
        f"ledger {a.engine.ledger.ledger_id} claims the nodes, and this is ledger"
    )
    assert http.get("/readyz").text.startswith(status["claimed"])
    assert "balancer_claimed_by_another 1.0" in http.get("/metrics").text
    first = create_app(a.engine).test_client()
    assert first.get("/v1/status").json["claimed"] is None
    assert "balancer_claimed_by_another 0.0" in first.get("/metrics").text


def test_an_operator_says_that_the_other_is_gone_and_if_it_is_not_it_yields(service, batch):
    a = service("a", reserve=2)
    b = service("b", reserve=1)
    marked = owners(batch).keys()
    told = create_app(b.engine).test_client().post("/v1/adopt", json={"reason": "a burnt down"}).json
    assert (told["claimed"], told["quarantined"].keys()) == (None, marked)
    assert batch.claims.keys() == {b.engine.ledger.ledger_id}
    b.settled()
    looks(a, batch)
    assert a.engine.claimed.startswith(f"ledger {b.engine.ledger.ledger_id} claims the nodes")
    commands = len(batch.commands())
    looks(a, batch)
    assert granted(a, 3) == ()  # its reserve is there, and no more comes to it
    batch.marked[min(marked)] = False  # somebody resumes a node of its reserve: it would be marked again
    looks(a, batch)
    assert batch.commands()[commands:] == []
    assert sorted(owners(batch).values()).count(b.engine.ledger.ledger_id) == 1


def test_a_claim_that_nobody_renews_ends(service, batch, wall):
    a = service("a")
    a.engine.stop()
    b = service("b", reserve=1)
    assert b.engine.claimed
    wall(LIVES_S - 10)
    looks(b, batch)
    assert (b.engine.claimed != "", owners(batch)) == (True, {})
    wall(LIVES_S + 10)
    looks(b, batch)
    assert (b.engine.problem(), batch.claims.keys()) == (None, {b.engine.ledger.ledger_id})
    assert list(owners(batch).values()) == [b.engine.ledger.ledger_id]


def test_the_same_ledger_goes_on_at_once_after_a_restart(service, batch):
    w = service("a", reserve=1)
    w.restart()
    assert (w.settled().keys(), w.engine.problem()) == (batch.marked.keys(), None)


@pytest.fixture
def cloned(service, tmp_path):
    """`cloned(a)`: a second service on a copy of the files of `a`, which goes on: a restored machine."""

    def make(first):
        shutil.copytree(first.db.parent, tmp_path / "clone")
        return service("clone")

    return make


def test_a_copy_of_the_ledger_commands_nothing_while_the_first_service_lives(service, cloned, batch, wall):
    a = service("a", idle_reserve_s=0)
    lent = granted(a, 2)
    looks(a, batch)
    commands = batch.commands()
    b = cloned(a)
    for after_s in range(0, 600, 30):
        wall(after_s)
        looks(a, batch)
        looks(b, batch)
        assert (a.engine.claimed, b.engine.problem().split(", and ")[0]) == (
            "",
            f"ledger {a.engine.ledger.ledger_id} claims the nodes",
        )
    assert (granted(b, 1), batch.commands(), owners(batch).keys()) == ((), commands, {*lent})


def test_a_copy_goes_on_when_nobody_has_renewed_the_claim_for_a_while(service, cloned, batch, wall):
    a = service("a", reserve=1)
    a.engine.stop()
    b = cloned(a)
    wall(WATCH_S - 5)
    looks(b, batch)
    assert b.engine.claimed != ""
    wall(WATCH_S + 5)
    looks(b, batch)
    assert (b.engine.problem(), b.engine.ledger.home.is_left) == (None, True)
    b.restart()
    assert b.engine.problem() is None


def test_when_the_copy_takes_over_the_first_yields_and_its_next_start_too(service, cloned, batch, wall):
    a = service("a", reserve=1)
    b = cloned(a)
    assert b.engine.adopt() == ""
    for after_s in (0, 30, 60):
        wall(after_s)
        looks(a, batch)
        looks(b, batch)
        assert (a.engine.claimed != "", b.engine.claimed) == (True, "")
    a.restart()
    assert (a.engine.claimed != "", b.engine.claimed) == (True, "")


@pytest.mark.parametrize(
    ("boot", "is_free"),
    [("another", False), (None, True)],
    ids=["its machine was started again", "a unit that hides which boot it is"],
)
def test_a_ledger_of_another_boot_may_be_a_cloned_machines(service, monkeypatch, tmp_path, boot, is_free):
    w = service("a", reserve=1)
    boot_id = tmp_path / "boot_id"
    if boot is not None:
        boot_id.write_text(boot)
    monkeypatch.setattr(balancer.ledger.home, "_BOOT", boot_id)
    w.restart()
    assert (w.engine.claimed == "") == is_free


def test_a_backup_that_is_put_back_in_its_place_is_no_copy(service, batch, tmp_path):
    w = service("a", reserve=1)
    back_up(str(w.db), tmp_path / "backup.db")
    w.engine.stop()
    restore(str(w.db), tmp_path / "backup.db")
    w.restart()
    assert w.engine.claimed == ""


def test_a_renewal_whose_answer_was_lost_is_no_other_service(service, batch):
    w = service("a", reserve=1)
    renew = batch.renew_claim

    def lost(*arguments, **more):
        renew(*arguments, **more)
        raise UnclearError("no answer in time")

    batch.renew_claim = lost
    looks(w, batch)
    batch.renew_claim = renew
    looks(w, batch)
    assert w.engine.problem() is None


@pytest.mark.parametrize(
    "error", [RefusedError("no manager"), UnreachableError("no answer"), ValueError("a bug")]
)
def test_a_claim_that_cannot_be_kept_stops_nothing(service, batch, error):
    batch.fails["status renew"] = error
    w = service("a", reserve=1)
    assert (len(owners(batch)), w.engine.problem()) == (1, None)


@pytest.mark.parametrize("order", ["abab", "abba", "aabb"])
@pytest.mark.parametrize("fails", [(), ("status claims",), ("status renew",), ("status all",)], ids=str)
def test_whichever_looks_when_and_whatever_fails_no_node_has_two_owners(service, batch, order, fails):
    """Each way round, with answers that are lost: what one has lent the other neither marks nor clears."""
    services = {
        name: service(name, reserve=2, idle_reserve_s=0) for name in sorted(set(order), key=order.index)
    }
    for step, name in enumerate(order):
        before = owners(batch)
        batch.fails = dict.fromkeys(fails, UnreachableError("lost")) if step % 2 else {}
        commands = len(batch.commands())
        looks(services[name], batch)
        batch.fails = {}
        mine = services[name].engine.ledger.ledger_id
        touched = {node for _, nodes in batch.commands()[commands:] for node in nodes}
        assert not {node for node in touched if before.get(node, mine) != mine}
        assert len(owners(batch)) == 2
    assert sorted(bool(each.engine.claimed) for each in services.values()) == [False, True]


def test_before_the_claims_could_be_read_nothing_is_commanded(service, batch):
    a = service("a", reserve=2)
    batch.fails["status claims"] = UnclearError("no answer in time")
    b = service("b", reserve=3)
    assert (
        b.engine.problem()
        == "whose the nodes are has not been read from the batch system yet: no answer in time"
    )
    assert set(owners(batch).values()) == {a.engine.ledger.ledger_id}
    batch.fails["status claims"] = RefusedError(
        "qstat has no such option"
    )  # it never can be: marks alone tell
    looks(b, batch)
    assert "has a mark of another ledger" in b.engine.problem() or "have a mark" in b.engine.problem()


def test_answers_that_can_never_be_read_stop_nothing_for_ever(batch):
    batch.fails["status claims"] = UnclearError("quux")
    claims = Claims(batch, ledger_id=lambda: "0badcafe", check_writer=lambda: None)
    said = []
    for _ in range(12):
        claims.look()
        said.append(claims.why)
    assert said == ["whose the nodes are has not been read from the batch system yet: quux"] * 11 + [""]
    batch.fails.clear()
    batch.claims["5f3a9c01"] = "1"
    claims.look()
    assert claims.why.startswith("ledger 5f3a9c01 claims the nodes")


def test_without_a_note_on_the_batch_system_nothing_is_asked():
    claims = Claims(service_kit.FakeBatch(["n01"]), ledger_id=str, check_writer=lambda: None)
    claims.adopt()
    claims.look()
    assert claims.why == ""
