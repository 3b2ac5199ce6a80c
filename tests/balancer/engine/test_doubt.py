"""A ledger that is older than the marks, or another one: nodes in doubt are quarantined until somebody settles it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from balancer.drivers.base import NodeStatus, UnreachableError
from balancer.drivers.cloud import CloudStatus
from balancer.drivers.marks import Stamp
from balancer.http.app import create_app
from balancer.ledger.backup import back_up, restore
from balancer.ledger.errors import UnprovenError
from balancer.lifecycle.errors import Refused
from balancer.service.calls import Caller

_SIDES = ("", "-wal", "-shm", ".head")


def granted(w, count=1):
    return w.engine.wait_for_request(w.engine.submit_request(count).request_id).record.nodes


def replaced(w, change):
    """Stop, do this to the files of the ledger, start."""
    w.engine.stop()
    change()
    w.engine = w._started()


def lent_to_somebody(w):
    return {name for name, state in w.states().items() if state in ("OD_ALLOC", "OD_RESERVE")}


def marks(w):
    return {name for name, marked in w.batch.marked.items() if marked}


@pytest.fixture
def backed_up(world, tmp_path):
    """One grant, a backup, five more: one from the reserve, four from batch."""

    def make(**options):
        w = world(nodes=12, reserve=2, **options)
        w.settled()
        first = granted(w)
        back_up(str(w.db), tmp_path / "backup.db")
        return w, {*first, *(name for _ in range(5) for name in granted(w))}

    return make


def test_after_a_restore_nothing_is_granted_twice_and_nothing_is_given_back(backed_up, tmp_path):
    w, lent = backed_up()
    commands, before = len(w.batch.commands()), marks(w)
    replaced(w, lambda: restore(str(w.db), tmp_path / "backup.db"))
    assert lent <= w.engine.quarantined().keys()
    assert lent_to_somebody(w) & lent == set()  # the reserve is filled with others
    assert before <= marks(w)
    assert [name for name, _ in w.batch.commands()[commands:] if name == "restore"] == []
    got = {*granted(w), *granted(w)}
    assert not got & lent
    with pytest.raises(Refused, match="QUARANTINED"):
        w.engine.release_nodes((next(iter(lent)),))
    w.restart()
    assert lent <= w.engine.quarantined().keys()
    assert got == lent_to_somebody(w) & got


@pytest.mark.parametrize("on_demand", [True, False], ids=["to on-demand", "to batch"])
def test_a_node_that_is_adopted_after_a_restore_is_not_doubted_again_for_the_mark_it_had(
    world, tmp_path, on_demand
):
    w = world(nodes=4, has_cloud=False)
    (early,) = granted(w)
    w.settled()
    back_up(str(w.db), tmp_path / "backup.db")
    (late,) = granted(w)
    w.settled()
    w.batch.stamps[early] = w.batch.stamps[late]  # its mark was renewed before the end of the service
    replaced(w, lambda: restore(str(w.db), tmp_path / "backup.db"))
    assert w.engine.quarantined().keys() == {early, late}
    w.batch.without_effect = {"reclaim", "restore"}  # the mark stays for a while
    w.engine.adopt_nodes((early,), on_demand=on_demand)
    w.engine.reconcile()
    assert w.engine.quarantined().keys() == {late}


def test_quarantined_nodes_are_told_with_their_doubt_in_the_status_and_on_the_dashboard(backed_up, tmp_path):
    w, lent = backed_up()
    replaced(w, lambda: restore(str(w.db), tmp_path / "backup.db"))
    http = create_app(w.engine).test_client()
    doubts = w.engine.quarantined()
    assert lent <= doubts.keys()
    status = http.get("/v1/status").json
    assert (status["quarantined"], status["nodes"]["QUARANTINED"]) == (doubts, len(doubts))
    rows = http.get("/dashboard/nodes").json["nodes"]
    assert {row[0]: row[6] for row in rows if row[1] == "QUARANTINED"} == doubts


def test_a_restore_of_a_backup_after_which_nothing_was_stored_quarantines_nothing(world, tmp_path):
    w = world(nodes=3)
    lent = granted(w)
    w.settled()
    w.engine.stop()
    back_up(str(w.db), tmp_path / "backup.db")
    restore(str(w.db), tmp_path / "backup.db")
    w.engine = w._started()
    assert (w.engine.quarantined(), lent_to_somebody(w)) == ({}, set(lent))


@pytest.mark.parametrize("keeps_note", [True, False], ids=["with the note of the head", "without"])
def test_an_old_copy_of_the_file_is_noticed_by_the_note_beside_it_or_by_the_marks(
    world, tmp_path, keeps_note
):
    w = world(nodes=6)
    first = granted(w)
    w.engine.stop()
    for side in _SIDES[:1]:
        shutil.copy(f"{w.db}{side}", tmp_path / f"old{side}")
    w.engine = w._started()
    later = granted(w)

    def put_back():
        for side in _SIDES[1:]:
            if side != ".head" or not keeps_note:
                Path(f"{w.db}{side}").unlink(missing_ok=True)
        shutil.copy(tmp_path / "old", w.db)

    replaced(w, put_back)
    assert w.engine.quarantined().keys() == {*first, *later}


def test_another_ledger_does_not_take_over_what_the_marks_say_is_not_its_own(world):
    w = world(nodes=4)
    lent = granted(w, 2)
    before = marks(w)
    replaced(w, lambda: [Path(f"{w.db}{side}").unlink(missing_ok=True) for side in _SIDES])
    assert w.engine.quarantined().keys() == set(lent)
    assert all("this is ledger" in why for why in w.engine.quarantined().values())
    assert before <= marks(w)
    assert granted(w, 2) == ()
    assert marks(w) == before


def test_a_second_balancer_marks_no_node_that_the_first_gives_back(world):
    w = world(nodes=4, has_cloud=False)
    others = ("n01", "n02")
    w.batch.marked |= dict.fromkeys(others, True)
    w.batch.ours |= set(others)
    w.batch.stamps |= dict.fromkeys(others, Stamp("ffffffff", 7, "00000000"))
    w.engine.reconcile()
    assert w.engine.quarantined().keys() == set(others)
    commands = w.batch.commands()
    w.batch.marked |= dict.fromkeys(others, False)  # the first one gives them back
    w.batch.jobs["n02"] = "1.server"
    w.engine.reconcile()
    assert w.settled() == {"n01": "OA_IDLE", "n02": "OA_BUSY", "n03": "OA_IDLE", "n04": "OA_IDLE"}
    assert (w.batch.commands(), marks(w)) == (commands, set())
    w.batch.marked["n01"] = True  # and takes one again, with the very same mark
    w.engine.reconcile()
    assert w.engine.quarantined().keys() == {"n01"}


def claims(w):
    """The ledgers whose marks are on the nodes."""
    return {w.batch.stamps[name].ledger_id for name in marks(w)}


@pytest.fixture
def second(world, tmp_path):
    """`second(w, ...)`: another service with a ledger of its own on the nodes of `w`, started by mistake."""

    def make(w, **options):
        (tmp_path / "second").mkdir()
        options = {"nodes": len(w.names), "has_cloud": False, "driver": lambda _, __: w.batch} | options
        made = world(folder=tmp_path / "second", **options)
        made.batch = w.batch
        return made

    return make


def test_a_second_balancer_started_by_mistake_moves_no_node_and_says_why(world, second):
    w = world(nodes=8, reserve=2, idle_reserve_s=0, has_cloud=False)
    w.settled()
    lent = {*granted(w), *granted(w)}
    w.settled()
    before = marks(w)
    assert lent <= before
    b = second(w, reserve=3)
    assert b.settled() == {name: "QUARANTINED" if name in before else "OA_IDLE" for name in b.names}
    assert granted(b) == ()
    http = create_app(b.engine).test_client()
    why = (
        f"{len(before)} nodes ({min(before)}, ...) have a mark of another ledger, and this one, "
        f"{b.engine.ledger.ledger_id}, has lent nothing: it moves no node. Another Balancer may be running: stop one "
        "of the two. Only if no other runs: `balancer adopt`"
    )
    assert http.get("/v1/status").json["problem"] == why
    assert http.get("/readyz").text.startswith(why)
    assert "balancer_ready 0.0" in http.get("/metrics").text
    w.engine.release_nodes(tuple(lent))
    w.settled()
    b.engine.reconcile()
    b.settled()
    assert (len(marks(w)), claims(w)) == (2, {w.engine.ledger.ledger_id})
    assert w.engine.problem() is None


def test_the_second_goes_on_when_an_operator_says_that_the_first_is_gone(world, second):
    w = world(nodes=4, reserve=2, has_cloud=False)
    w.settled()
    b = second(w, reserve=1)
    w.engine.stop()
    b.engine.adopt_nodes(tuple(b.engine.quarantined()), on_demand=False)
    b.settled()
    b.engine.reconcile()
    assert sorted(b.settled().values()) == ["OA_IDLE", "OA_IDLE", "OA_IDLE", "OD_RESERVE"]
    assert (b.engine.problem(), claims(w)) == (None, {b.engine.ledger.ledger_id})


def test_a_service_that_has_lent_nodes_goes_on_when_another_marks_some(world, second):
    """Whoever is there first is not stopped by a second one, also when all its nodes have come back."""
    w = world(nodes=4, wait_s=0, idle_reserve_s=0, has_cloud=False)
    w.settled()
    (lent,) = granted(w)
    w.engine.reconcile()
    w.engine.release_nodes((lent,))
    w.settled()
    b = second(w, reserve=1)  # finds no mark, and takes a node
    (taken,) = (name for name, state in b.settled().items() if state == "OD_RESERVE")
    w.engine.reconcile()
    assert (w.engine.quarantined().keys(), w.engine.problem()) == ({taken}, None)
    assert len(granted(w, 2)) == 2


def test_an_operator_says_whose_they_are_and_is_asked_once(world, kit):
    w = world(nodes=4)
    one, two = granted(w, 2)
    replaced(w, lambda: [Path(f"{w.db}{side}").unlink(missing_ok=True) for side in _SIDES])
    with pytest.raises(Refused, match="its owner is not in doubt"):
        w.engine.adopt_nodes((one, next(name for name in w.names if name not in (one, two))), on_demand=True)
    w.engine.adopt_nodes((one,), on_demand=True)
    w.engine.adopt_nodes((two,), on_demand=False)
    assert w.settled() == dict.fromkeys(w.names, "OA_IDLE") | {one: "OD_ALLOC"}
    assert marks(w) == {one}
    w.engine.reconcile()
    kit.until(lambda: w.batch.stamps[one].ledger_id == w.engine.ledger.ledger_id)
    w.restart()
    assert (w.engine.quarantined(), w.states()[one]) == ({}, "OD_ALLOC")
    w.engine.release_nodes((one,))
    assert w.states()[one] in ("OD_RESERVE", "RESTORING")


def test_the_cloud_says_whose_they_are(world):
    w = world(nodes=4, quarantine_s=100)
    used, unused = granted(w, 2)
    replaced(w, lambda: [Path(f"{w.db}{side}").unlink(missing_ok=True) for side in _SIDES])
    w.cloud.hosts = {used: CloudStatus(False, ("vm",)), unused: CloudStatus(False)}
    w.engine.reconcile()
    assert (w.states()[used], w.states()[unused]) == ("OD_ALLOC", "QUARANTINED")
    w.clock.advance_to(w.clock.now_us() + 101_000_000)
    w.engine.reconcile()
    assert w.settled()[unused] == "OA_IDLE"


def test_without_a_reading_a_ledger_that_nothing_vouches_for_decides_nothing(world):
    w = world(nodes=4, reserve=1, reconcile_period_s=0)
    w.settled()
    granted(w)
    w.engine.stop()
    Path(f"{w.db}.head").unlink()
    w.batch.fails["status all"] = UnreachableError("no answer")
    commands = len(w.batch.commands())
    w.engine = w._started()
    assert "has not been compared" in w.engine.problem()
    with pytest.raises(UnprovenError):
        w.engine.submit_request(1)
    assert w.batch.commands()[commands:] == []
    del w.batch.fails["status all"]
    w.engine.reconcile()
    assert w.engine.problem() is None
    assert granted(w)


def test_a_mark_is_renewed_after_its_node_changed(world, kit):
    w = world(nodes=3, reserve=1, reconcile_period_s=0)
    w.settled()
    (lent,) = granted(w)

    def renewed():
        w.settled()  # the reserve is filled up again, and a node under way has its mark renewed later
        newest = w.engine.ledger.last_seq()
        w.engine.reconcile()
        kit.until(lambda: w.batch.stamps[lent].seq >= newest)

    renewed()
    w.engine.release_nodes((lent,))
    renewed()
    w.settled()
    commands = len(w.batch.commands())
    w.engine.reconcile()
    w.settled()
    assert w.batch.commands()[commands:] == []


def test_a_mark_is_not_renewed_by_the_look_that_gives_the_node_back(world, kit):
    """Seed 200083: a reserved node with an outdated mark ran a job; it was marked again after it had been given up."""
    w = world(nodes=1, reserve=1, reconcile_period_s=0)
    w.settled()
    (lent,) = granted(w)
    w.engine.release_nodes((lent,))  # the mark on it is older than this
    stamp = w.batch.stamps[lent]
    w.batch.reports = {lent: NodeStatus("offline", jobs=("1.server",), marked=True, stamp=stamp)}
    commands = len(w.batch.commands())
    w.engine.reconcile()
    kit.until(lambda: w.batch.commands()[commands:])
    assert w.batch.commands()[commands] == ("restore", (lent,))


def test_an_operator_holds_a_node_in_any_state_and_says_whose_it_is(world, kit):
    w = world(nodes=4, reserve=1, has_cloud=False)
    w.settled()
    (lent,) = granted(w)
    idle = next(name for name, state in w.settled().items() if state == "OA_IDLE")
    operator = Caller("root", is_operator=True)
    with pytest.raises(Refused, match="there is no node n99"):
        w.engine.quarantine_nodes((lent, "n99"), "strange", caller=operator)
    for _ in range(2):
        w.engine.quarantine_nodes((lent, idle), "nobody knows what runs there", caller=operator)
        assert {*w.engine.quarantined()} == {lent, idle}
        assert all("root" in why and "nobody knows" in why for why in w.engine.quarantined().values())
        kit.until(lambda: {lent, idle} <= marks(w))  # batch starts no job there
        w.engine.adopt_nodes((lent,), on_demand=True, caller=operator, reason="its server is there")
        w.engine.adopt_nodes((idle,), on_demand=False, caller=operator, reason="it is empty")
        assert (w.settled()[lent], w.states()[idle]) == ("OD_ALLOC", "OA_IDLE")
    bodies = [json.loads(event.body) for event in w.engine.ledger.events(0, 1000)]
    assert [body["by"] for body in bodies if body.get("reason") == "it is empty"] == ["root", "root"]


def test_a_request_that_waits_with_a_quarantined_node_gets_another(world, kit):
    w = world(nodes=2, reserve=0, wait_s=600, has_cloud=False)
    w.batch.jobs = {"n02": "1.server"}
    w.engine.update_nodes(busy=("n02",), job="1.server")
    waiting = w.engine.submit_request(2).request_id
    kit.until(lambda: w.states()["n01"] == "OD_RESERVE")
    w.engine.quarantine_nodes(("n01",), "strange", caller=Caller("root", is_operator=True))
    record = w.engine.ledger.request(waiting)
    assert (record.status, w.states()["n01"]) == ("waiting", "QUARANTINED")


def test_an_order_to_take_the_mark_off_ends_when_its_node_is_quarantined(world, kit):
    w = world(nodes=1, idle_reserve_s=0)
    nodes = granted(w)
    w.batch.without_effect.add("restore")
    w.engine.release_nodes(nodes)
    kit.until(lambda: ("restore", nodes) in w.batch.commands())
    w.batch.stamps["n01"] = Stamp("ffffffff", 7, "00000000")
    w.engine.reconcile()
    assert w.settled() == {"n01": "QUARANTINED"}
    w.batch.without_effect.clear()
    w.engine.reconcile()
    assert (w.settled(), marks(w)) == ({"n01": "QUARANTINED"}, {"n01"})
