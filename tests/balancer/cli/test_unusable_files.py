"""A file or folder that cannot be used is one clear line and exit status 2, whichever command it is."""

from __future__ import annotations

import errno

import pytest

from balancer.console import freeze
from balancer.console_kit import file_error
from command_line import balance

COMMANDS = {
    "freeze": ["freeze", "--reason", "disk", "--db", "{}"],
    "thaw": ["thaw", "--db", "{}"],
    "token": ["token", "create", "--role", "operator", "--db", "{}"],
    "hook-key": ["hook-key", "n01", "--db", "{}"],
    "verify": ["ledger", "verify", "--db", "{}"],
    "replay": ["ledger", "replay", "--db", "{}"],
    "story": ["ledger", "story", "n01", "--db", "{}"],
    "backup": ["ledger", "backup", "--db", "{}", "{}-copy"],
    "restore": ["ledger", "restore", "--db", "{}", "{here}"],
    "check": ["check", "--config", "{}"],
    "check nodes": ["check", "--nodes", "{}"],
    "predict": ["predict", "--once", "--before", "{}"],
    "backtest": ["predictor", "backtest", "--history", "{}"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("name", ["n" * 300, "file/x", "no/x"], ids=["too long", "in a file", "no folder"])
def test_each_command_says_so_in_one_line(tmp_path, command, name):
    (tmp_path / "file").touch()
    words = [word.format(tmp_path / name, here=tmp_path / "file") for word in command]
    done = balance(*words)
    assert isinstance(done.exception, SystemExit), repr(done.exception)
    assert "Traceback" not in done.output
    assert (done.exit_code, "balancer: " in done.output or "Error: " in done.output) == (2, True)


def test_a_right_that_is_missing_says_whose_it_is():
    told = file_error(PermissionError(errno.EACCES, "Permission denied", "/var/lib/balancer/ledger.db"))
    assert told == "/var/lib/balancer/ledger.db: Permission denied; run this as the service's user"
    assert file_error(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"


def test_a_token_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    done = balance("status", env={"BALANCER_TOKEN_FILE": str(tmp_path / "token")})
    assert (done.exit_code, "BALANCER_TOKEN_FILE cannot be read" in done.output) == (2, True)


@pytest.mark.parametrize("content", ["", "secret-1\nsecret-2\n", "secret\u00e9"])
def test_a_token_file_without_one_token_is_told_and_never_shown(tmp_path, content):
    (tmp_path / "token").write_text(content, encoding="utf-8")
    done = balance("status", env={"BALANCER_TOKEN_FILE": str(tmp_path / "token")})
    assert (done.exit_code, done.output) == (
        2,
        "balancer: $BALANCER_TOKEN_FILE holds no token: one line is expected, as `balancer token create` prints it\n",
    )


def test_nodes_in_a_file_that_is_no_text_are_told_with_its_name(tmp_path):
    (tmp_path / "nodes").write_bytes(b"\xff\xfe")
    done = balance("check", "--nodes", tmp_path / "nodes")
    assert (done.exit_code, f"{tmp_path / 'nodes'} cannot be read" in done.output) == (2, True)


def test_a_user_without_a_name_may_freeze(tmp_path, monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(freeze.getpass, "getuser", nobody)
    (tmp_path / "ledger.db").touch()
    done = balance("freeze", "--reason", "disk", "--db", tmp_path / "ledger.db")
    assert done.exit_code == 0, done.output
    assert '"uid ' in (tmp_path / "ledger.db.frozen").read_text(encoding="utf-8")
