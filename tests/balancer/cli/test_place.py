"""The brake and the tokens: commands on files find the service that is meant, or refuse."""

from __future__ import annotations

import json
import os

import pytest

from balancer import secret_files as files
from balancer.console import places as place
from command_line import balance

FREEZE = ("freeze", "--reason", "moving a rack")
TOKEN = ("token", "create", "--role", "operator")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder in which commands run, without a service's configuration on the machine."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(place, "DEFAULT_CONFIG", tmp_path / "balancer.yaml")
    return here


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("command", [FREEZE, ("thaw",), TOKEN, ("token", "list"), ("hook-key", "n01")])
def test_without_a_service_nothing_is_written_and_what_to_do_is_said(folder, command):
    ended = balance(*command)
    assert (ended.exit_code, names(folder)) == (2, [])
    assert "--config FILE" in ended.stderr


@pytest.mark.parametrize("command", [FREEZE, ("thaw",)])
def test_a_ledger_that_does_not_exist_is_not_frozen(folder, command):
    config = folder.parent / "other.yaml"
    config.write_text("nodes: n[1-2]\n", encoding="utf-8")
    for where in (("--db", "nowhere.db"), ("--config", str(config))):
        ended = balance(*command, *where)
        assert (ended.exit_code, names(folder)) == (2, [])
        assert "no service would see this order" in ended.stderr


def test_the_configuration_of_the_unit_is_found_and_read_back(folder):
    ledger = folder.parent / "balancer.db"
    ledger.touch()
    place.DEFAULT_CONFIG.write_text(f"nodes: n[1-2]\ndb: {ledger}\n", encoding="utf-8")
    ended = balance(*FREEZE)
    order = folder.parent / "balancer.db.frozen"
    assert (ended.exit_code, str(order) in ended.stdout) == (0, True)
    assert json.loads(order.read_text(encoding="utf-8"))["reason"] == "moving a rack"
    assert balance(*TOKEN).exit_code == 0
    assert (folder.parent / "balancer.db.tokens").exists()
    assert balance("thaw").exit_code == 0
    assert not order.exists()
    assert names(folder) == []


def test_somebody_elses_freeze_stands_as_it_is(folder):
    (folder / "balancer.db").touch()
    assert balance(*FREEZE).exit_code == 0
    order = folder / "balancer.db.frozen"
    for text, said in (
        (order.read_text(encoding="utf-8"), "moving a rack"),
        ("{", "not of `balancer freeze`"),
    ):
        order.write_text(text, encoding="utf-8")
        ended = balance("freeze", "--reason", "looking at it")
        assert (ended.exit_code, order.read_text(encoding="utf-8")) == (2, text)
        assert said in ended.stderr


def test_a_freeze_has_a_reason(folder):
    (folder / "balancer.db").touch()
    ended = balance("freeze", "--reason", " ")
    assert (ended.exit_code, names(folder)) == (2, ["balancer.db"])
    assert ended.stderr.startswith("balancer: --reason: say why")


def test_of_tokens_of_which_one_is_unknown_none_is_revoked(folder):
    (folder / "balancer.db").touch()
    assert balance(*TOKEN).exit_code == 0
    (made,) = json.loads(balance("token", "list", "--json").stdout)
    before = (folder / "balancer.db.tokens").read_bytes()
    ended = balance("token", "revoke", made["id"], "nobodys")
    assert (ended.exit_code, (folder / "balancer.db.tokens").read_bytes()) == (2, before)
    assert "there is no token nobodys; none is revoked" in ended.stderr
    assert balance("token", "revoke", made["id"]).exit_code == 0
    assert json.loads(balance("token", "list", "--json").stdout) == []


def test_a_key_for_a_node_that_the_configuration_does_not_have_is_remarked(folder):
    ledger = folder.parent / "balancer.db"
    ledger.touch()
    place.DEFAULT_CONFIG.write_text(f"nodes: n[1-2]\ndb: {ledger}\n", encoding="utf-8")
    ended = balance("hook-key", "n[2-4]")
    assert (ended.exit_code, [line.split()[0] for line in ended.stdout.splitlines()]) == (
        0,
        ["n2", "n3", "n4"],
    )
    assert ended.stderr.startswith("balancer: not in `nodes` of the configuration: n3, n4;")
    assert balance("hook-key", "n2").stderr == ""


def test_a_ledger_in_this_folder_is_found(folder):
    (folder / "balancer.db").touch()
    assert balance(*FREEZE).exit_code == 0
    assert names(folder) == ["balancer.db", "balancer.db.frozen"]


def test_two_services_that_could_be_meant_are_a_wrong_call(folder):
    (folder / "balancer.db").touch()
    place.DEFAULT_CONFIG.write_text("nodes: n[1-2]\ndb: /var/lib/balancer/balancer.db\n", encoding="utf-8")
    ended = balance(*FREEZE)
    assert (ended.exit_code, names(folder)) == (2, ["balancer.db"])
    assert "there are both" in ended.stderr


def test_a_token_before_the_first_start_is_made_where_the_service_will_look_for_it(folder):
    config = folder.parent / "other.yaml"
    config.write_text(f"nodes: n[1-2]\ndb: {folder}/later.db\n", encoding="utf-8")
    ended = balance(*TOKEN, "--config", str(config))
    assert (ended.exit_code, "there is no ledger" in ended.stderr) == (0, True)
    assert "later.db.tokens" in names(folder)


def test_a_token_for_a_path_that_depends_on_the_folder_is_refused(folder):
    config = folder.parent / "other.yaml"
    config.write_text("nodes: n[1-2]\n", encoding="utf-8")
    ended = balance(*TOKEN, "--config", str(config))
    assert (ended.exit_code, names(folder)) == (2, [])


def test_what_root_writes_belongs_to_whoever_has_the_folder(folder, monkeypatch):
    given = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, uid, gid: given.append((uid, gid)))
    with files.locked(folder / "tokens"):
        files.replace(folder / "tokens", "")
    owner = folder.stat()
    assert given == [(owner.st_uid, owner.st_gid)] * 2


def test_the_order_can_be_read_by_the_service_whoever_gave_it(folder):
    (folder / "balancer.db").touch()
    balance(*FREEZE)
    assert (folder / "balancer.db.frozen").stat().st_mode & 0o777 == 0o644
