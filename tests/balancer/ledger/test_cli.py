"""`balancer ledger`: verify, replay and story, also while a service writes."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from balancer.console.ledger import ledger
from balancer.ledger.reader import open_to_read
from balancer.lifecycle.records import RequestStatus
from balancer.lifecycle.states import NodeState
from command_line import balance
from ledger_kit.places import Place, entry, node, request


@pytest.fixture
def asked(place):
    """A ledger in use, with a short history; asks it."""
    opened = place.open()
    lent = node(state=NodeState.OD_ALLOC, reserved_for="r1", generation=1)
    granted = request(1, status=RequestStatus.GRANTED, generation=1)
    opened.commit(
        [
            entry(1, nodes=(node(), node("n2"))),
            entry(2, requests=(request(1),)),
            entry(3, nodes=(lent,), requests=(granted,)),
        ]
    )

    def ask(*arguments):
        return balance("ledger", arguments[0], "--db", place.target, *arguments[1:])

    return ask


def test_a_sound_ledger_is_verified_while_it_is_in_use(asked, place):
    done = asked("verify")
    with closing(open_to_read(place.target)) as reader:
        ledger_id = reader.writer().ledger_id
    assert (done.exit_code, done.output) == (
        0,
        f"ok: events to 3 give the stored state of 2 nodes (ledger {ledger_id}, epoch 1)\n",
    )


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("DELETE FROM events WHERE seq = 2", "event 2 is missing: 3 follows 1"),
        ("DELETE FROM events WHERE seq = 3", "the log ends at event 2, and the newest is 3"),
        ("UPDATE nodes SET state = 'OA_IDLE' WHERE name = 'n2'", "node 'n2' does not read as it was written"),
        ("UPDATE nodes SET generation = 7 WHERE name = 'n1'", "node 'n1' does not read as it was written"),
        ("UPDATE requests SET status = 'waiting'", "request 'r1' does not read as it was written"),
        ("UPDATE events SET epoch = 9 WHERE seq = 1", "event 1 is not what was written"),
    ],
)
def test_a_ledger_that_was_tampered_with_is_not_verified(asked, place, harm, said):
    place.sql(harm)
    done = asked("verify")
    assert done.exit_code == 1
    assert said in done.output


def test_the_state_after_any_event_can_be_shown(asked):
    at = json.loads(asked("replay", "--to", "2").output)
    assert (at["seq"], [each["state"] for each in at["nodes"]]) == (2, ["OA_BUSY", "OA_BUSY"])
    assert [each["request_id"] for each in at["requests"]] == ["r1"]
    now = json.loads(asked("replay").output)
    assert (now["seq"], now["nodes"][0]["reserved_for"]) == (3, "r1")
    assert [(each["request_id"], each["status"]) for each in now["requests"]] == [("r1", "granted")]


def test_an_event_that_is_not_there_is_refused(asked):
    done = asked("replay", "--to", "4")
    assert (done.exit_code, done.output) == (2, "balancer: there is no event 4 yet: 3 is the newest\n")


def test_a_node_has_a_story(asked):
    lines = asked("story", "n1").output.splitlines()
    assert [line.split() for line in lines] == [
        ["NUMBER", "TIME", "EPOCH", "EVENT", "CAUSE", "CHANGE"],
        ["1", "1970-01-01T00:00:00Z", "1", "test", "e1", "OA_BUSY", "(generation", "0)"],
        [
            "3",
            "1970-01-01T00:00:00Z",
            "1",
            "test",
            "e3",
            "OA_BUSY",
            "->",
            "OD_ALLOC,",
            "for",
            "r1",
            "(generation",
            "1)",
        ],
    ]


def test_an_unknown_node_is_named(asked):
    done = asked("story", "n9")
    assert (done.exit_code, done.output) == (2, "balancer: no event in this ledger names node n9\n")


def test_a_ledger_that_is_not_there_is_named(tmp_path):
    done = balance("ledger", "verify", "--db", tmp_path / "no.db")
    assert (done.exit_code, done.output) == (2, f"balancer: there is no ledger {tmp_path / 'no.db'}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_backup_is_made_while_the_ledger_is_in_use_and_is_put_back(sqlite_place, tmp_path):
    opened, backup = sqlite_place.open(), tmp_path / "backup.db"
    opened.commit([entry(1, nodes=(node(),))])

    def ask(*arguments):
        return balance("ledger", arguments[0], "--db", sqlite_place.target, *arguments[1:])

    done = ask("backup", str(backup))
    assert (done.exit_code, done.output.split(" (")[0]) == (
        0,
        f"{backup}: events to 1 give the stored state of 1 nodes",
    )
    assert backup.stat().st_mode & 0o777 == 0o600
    again = ask("backup", str(backup))
    assert (again.exit_code, again.output) == (
        2,
        f"balancer: {backup} is there already: a backup does not replace a file\n",
    )
    assert "another Balancer uses the ledger" in ask("restore", str(backup)).output
    opened.commit([entry(2, nodes=(node("n2"),))])
    sqlite_place.close()
    done = ask("restore", str(backup))
    assert done.exit_code == 0
    assert f"{sqlite_place.target}.replaced-1" in done.output
    found = ask("verify")
    assert found.exit_code == 1
    assert "it was put back from backup.db, as of event 1" in found.output
    assert "ledger.db.head knows event 2" in found.output
    assert sqlite_place.open(writes=False).last_seq() == 1


def test_a_damaged_backup_is_not_put_back(sqlite_place, tmp_path):
    opened, backup = sqlite_place.open(), tmp_path / "backup.db"
    opened.commit([entry(1, nodes=(node(),))])
    sqlite_place.close()
    runner = CliRunner()
    runner.invoke(ledger, ["backup", "--db", str(sqlite_place.target), str(backup)])
    Place(backup).sql("UPDATE nodes SET state = 'OA_IDLE'")
    before = sqlite_place.target.read_bytes()
    done = runner.invoke(ledger, ["restore", "--db", str(sqlite_place.target), str(backup)])
    assert (done.exit_code, "is not sound" in done.output) == (2, True)
    assert sqlite_place.target.read_bytes() == before


def test_the_files_of_a_ledger_are_not_for_everybody(sqlite_place):
    sqlite_place.open().commit([entry(1)])
    folder = sqlite_place.target.parent
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.glob("ledger.db*")}
    assert modes == dict.fromkeys(modes, 0o600)
    assert {"ledger.db", "ledger.db-wal", "ledger.db.head"} <= modes.keys()
    sqlite_place.close()
    sqlite_place.target.chmod(0o664)
    sqlite_place.open().close()
    assert sqlite_place.target.stat().st_mode & 0o777 == 0o660
