"""`balancer check`: what is not so in batch system and cloud is a line each, before the service runs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from balancer.auth.identity import Role
from balancer.auth.tokens import TokenFile
from balancer.drivers.base import NodeStatus, SiteCheck
from balancer.drivers.marks import Stamp
from balancer.drivers.torque import TorqueDriver
from balancer.ledger import filesystem
from balancer.ledger.home import lock
from balancer.ledger.store import Ledger
from balancer.lifecycle.states import NodeState
from command_line import balance
from ledger_kit.places import entry, node

OWN = ("ok      the ledger can be opened", "ok      127.0.0.1:0 can be listened on")


@pytest.fixture
def check(service, monkeypatch, tmp_path):
    """`check(*arguments)` beside a fake Torque with the nodes n01 to n03: exit status and lines."""
    site = service(3)
    monkeypatch.setenv("PATH", site.environment["PATH"])
    monkeypatch.setattr(TorqueDriver, "read_claims", lambda _: {})
    monkeypatch.chdir(tmp_path)

    def run(*arguments, nodes="n[01-03]", **keys):
        (tmp_path / "check.yaml").write_text(yaml.safe_dump({"port": 0, **keys}))
        ended = balance("check", "--config", "check.yaml", "--nodes", nodes, *arguments)
        return ended.exit_code, ended.output.splitlines()

    return run


def test_a_site_at_which_all_is_well(check):
    assert check() == (
        0,
        [
            *OWN,
            "ok      torque answers",
            "ok      torque lists the nodes",
            "ok      what it says of them can be read",
            "ok      no other Balancer's marks are on them",
            "ok      no other Balancer claims the nodes",
        ],
    )


def test_nodes_that_the_batch_system_does_not_know_are_named(check):
    status, lines = check(nodes="n[01-08]")
    assert status == 1
    assert lines[3] == (
        "not so  torque lists the nodes: n04, n05, n06 and 2 more not known to torque: mend `nodes`, or add them there"
    )


def test_marks_of_another_ledger_are_told_and_ones_own_are_none(check, monkeypatch):
    def marked_by(ledger):
        read = dict.fromkeys(("n01", "n02"), NodeStatus("offline", stamp=Stamp(ledger, 7, "00000000")))
        read["n03"] = NodeStatus("idle")
        monkeypatch.setattr(TorqueDriver, "get_status_of_all_nodes", lambda _: read)

    marked_by("5f3a9c01")
    told = (
        "not so  no other Balancer's marks are on them: n01, n02 are marked by ledger 5f3a9c01, this one {}: another "
        "Balancer may be running. Stop one of the two; a service that has lent nothing moves no node beside the "
        "other's marks. Only if no other runs: `balancer adopt`"
    )
    status, lines = check()
    assert (status, lines[5]) == (1, told.format("does not exist yet"))
    assert not Path("balancer.db").exists()
    with closing(Ledger("balancer.db")) as ledger:
        ours = ledger.ledger_id
    assert check()[1][5] == told.format(f"is {ours}")
    marked_by(ours)
    assert check()[1][5] == "ok      no other Balancer's marks are on them"


def test_the_ledger_of_the_release_before_is_well_and_its_marks_are_ours(check, monkeypatch):
    with closing(Ledger("balancer.db")) as ledger:
        ours = ledger.ledger_id
    with closing(sqlite3.connect("balancer.db")) as file, file:
        file.execute("UPDATE alembic_version SET version_num = '0005'")
    read = dict.fromkeys(("n01", "n02", "n03"), NodeStatus("offline", stamp=Stamp(ours, 7, "00000000")))
    monkeypatch.setattr(TorqueDriver, "get_status_of_all_nodes", lambda _: read)
    status, lines = check()
    assert (status, [line for line in lines if line.startswith("not so")]) == (0, [])


def test_another_ledgers_claim_is_told_and_ones_own_is_none(check, monkeypatch):
    monkeypatch.setattr(TorqueDriver, "read_claims", lambda _: {"5f3a9c01": "balancer claim 5f3a9c01-7"})
    told = (
        "not so  no other Balancer claims the nodes: ledger 5f3a9c01 does, this one {}: stop that service. A claim "
        "whose service is gone counts no more after 300 s, or at once with `balancer adopt`"
    )
    status, lines = check()
    assert (status, lines[6]) == (1, told.format("does not exist yet"))
    with closing(Ledger("balancer.db")) as ledger:
        ours = ledger.ledger_id
        ledger.home.take()
    assert check()[1][6] == told.format(f"is {ours}")
    monkeypatch.setattr(TorqueDriver, "read_claims", lambda _: {ours: f"balancer claim {ours}-7"})
    assert check()[1][6] == "ok      no other Balancer claims the nodes"
    shutil.copy("balancer.db", "copy.db")
    shutil.copy("balancer.db.lock", "copy.db.lock")
    assert check(db="copy.db")[1][6].startswith(
        f"not so  no other Balancer claims the nodes: ledger {ours} does, and this file of it was copied"
    )
    assert len(check(driver={"torque": {"claim": False}})[1]) == 6


def test_what_the_driver_finds_is_told_and_fails(check, monkeypatch):
    found = (SiteCheck("may drain nodes", "root is asleep: wake root"), SiteCheck("sees all jobs", ""))
    monkeypatch.setattr(TorqueDriver, "check_site", lambda *_: found, raising=False)
    status, lines = check()
    assert (status, lines[7:]) == (
        1,
        ["not so  may drain nodes: root is asleep: wake root", "ok      sees all jobs"],
    )


def test_a_batch_system_that_does_not_answer(check, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    status, (*_, line) = check()
    assert (status, line.startswith("not so  torque answers: pbsnodes cannot be started")) == (1, True)
    assert line.endswith("Nodes, marks and claims were not looked at")


def test_as_json(check):
    status, lines = check("--json")
    assert (status, json.loads("\n".join(lines))[2]) == (0, {"what": "torque answers", "problem": ""})


@pytest.mark.parametrize("is_there", [False, True], ids=["a new ledger", "one that is there"])
def test_a_ledger_on_a_disk_that_serve_refuses(check, monkeypatch, is_there):
    if is_there:
        Ledger("balancer.db").close()
    full = os.statvfs_result((4096, 4096, 1000, 0, 0, 0, 0, 0, 0, 255))
    with monkeypatch.context() as patch:
        patch.setattr(filesystem.os, "statvfs", lambda _: full)
        assert check()[1][0].endswith("/balancer.db is full (0 bytes are free)")
    monkeypatch.setattr(filesystem, "file_system_of", lambda *_: "nfs4")
    assert "is on nfs4" in check()[1][0]


def test_a_wrong_configuration_is_a_wrong_call(check):
    status, lines = check(nodes="n[3-1]")
    assert (status, lines[0].startswith("balancer: ")) == (2, True)


def test_a_site_that_asks_for_tokens_has_one(check):
    assert check(auth=True)[1][0] == (
        "not so  the token file can be read and has a token: there is no token yet in balancer.db.tokens: make one "
        "with `balancer token create --config FILE --role operator` (FILE: this configuration)"
    )
    TokenFile(Path("balancer.db.tokens")).create(Role.OPERATOR, "root", now_us=0)
    assert check(auth=True)[1][0] == "ok      the token file can be read and has a token"
    Path("balancer.db.tokens").write_text("{")
    status, lines = check(auth=True)
    assert (status, lines[0].startswith("not so  the token file"), "balancer.db.tokens" in lines[0]) == (
        1,
        True,
        True,
    )


def test_tls_files_that_cannot_be_used_are_told(check):
    status, lines = check(tls_cert="no.pem", tls_key="no.key")
    assert (status, lines[0].startswith("not so  the TLS files can be used: tls_cert, tls_key: no.pem")) == (
        1,
        True,
    )


def test_a_ledger_that_serve_could_not_open_is_told_and_left_as_it_is(check):
    Path("balancer.db").write_bytes(b"this is no ledger" * 100)
    status, lines = check()
    assert (status, lines[0].startswith("not so  the ledger can be opened: ")) == (1, True)
    assert Path("balancer.db").read_bytes() == b"this is no ledger" * 100
    folder = Path("away").absolute()
    assert (
        check(db="away/balancer.db")[1][0]
        == f"not so  the ledger can be opened: db: there is no folder {folder}: make it"
    )


def test_an_address_that_another_process_listens_on_is_told_and_ones_own_service_is_none(check):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert check(port=port)[1][1] == (
            f"not so  127.0.0.1:{port} can be listened on: host, port: 127.0.0.1:{port}: Address already in use; "
            "choose another `port`"
        )
        held = lock(Path("balancer.db"), 0)
        assert check(port=port)[1][1] == f"ok      127.0.0.1:{port} can be listened on"
        os.close(held)


def test_what_is_no_socket_is_told_before_it_is_in_the_way(check):
    Path("balancer.sock").write_text("")
    lines = check(unix_socket="balancer.sock", ready_file="run/ready")[1]
    assert lines[2:4] == [
        (
            "not so  balancer.sock can be listened on: unix_socket: balancer.sock is there and is no socket: "
            "choose another path"
        ),
        f"not so  the ready file can be written: ready_file: there is no folder {Path('run').absolute()}: make it",
    ]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"algorithm": "basics"}, "algorithm: there is no algorithm 'basics'; did you mean 'basic'?"),
        ({"algorithm": {"basic": {"a": 1}}}, "algorithm: algorithm basic has no parameter 'a'; it has none"),
        ({"clock": "sun"}, "clock: there is no clock 'sun'; there are: shared, wall"),
        ({"reserve": 4}, "a reserve of 4 nodes cannot be made of 3 nodes"),
        ({"ready_file": ""}, "check.yaml: ready_file: must name a file, not ''"),
        ({"host": ""}, "check.yaml: host: must have at least 1 character, not ''"),
        ({"db": "a\0b"}, "check.yaml: db: must match pattern '^[^\\x00]+$', not 'a\\x00b'"),
    ],
)
def test_what_serve_would_refuse_is_a_wrong_configuration(check, keys, said):
    assert check(**keys) == (2, [f"balancer: {said}"])


def test_nodes_that_are_lent_and_no_longer_listed_are_told(check):
    with closing(Ledger("balancer.db")) as ledger:
        ledger.take_epoch(0.0)
        ledger.commit([entry(1, nodes=(node("n03", NodeState.OD_RESERVE),))])
    assert check(nodes="n[01-02]")[1][0] == (
        "not so  the ledger can be opened: node n03 is OD_RESERVE in the ledger and missing from the configured nodes: "
        "list it until it has been given back"
    )


def test_a_folder_is_no_file_to_write(check):
    lines = check(ready_file=".", freeze_file=".")[1]
    assert lines[2:4] == [
        "not so  the ready file can be written: ready_file: . is a folder: name a file in it",
        "not so  the freeze file can be written: freeze_file: . is a folder: name a file in it",
    ]
