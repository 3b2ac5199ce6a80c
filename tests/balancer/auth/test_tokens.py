"""Tokens and hook keys in their files."""

from __future__ import annotations

import json
import re
import stat

import pytest

from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Denied, Role
from balancer.auth.sessions import make_session, token_of
from balancer.auth.signature import Signature, node_key, sign
from balancer.auth.tokens import TokenFile
from balancer.secret_files import AuthFileError

NOW_US = 1_800_000_000_000_000


@pytest.fixture
def tokens(tmp_path):
    return TokenFile(tmp_path / "tokens")


def test_a_token_is_found_by_its_text_and_by_nothing_else(tokens):
    made, text = tokens.create(Role.OPERATOR, "alice", now_us=NOW_US)
    assert tokens.find(text) == made
    assert (made.created_us, made.expires_us) == (NOW_US, None)
    for wrong in (
        "",
        "bal_",
        text[:-1],
        text + "x",
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        made.sha256,
    ):
        assert tokens.find(wrong) is None


def test_the_file_holds_digests_and_only_its_owner_reads_it(tokens):
    _, text = tokens.create(Role.HOOK, "hook", now_us=NOW_US)
    secret = text.split("_", 2)[2]
    assert secret not in tokens.path.read_text(encoding="utf-8")
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600


def test_another_process_sees_a_new_and_a_revoked_token_at_once(tokens):
    service = TokenFile(tokens.path)
    assert service.find("bal_000000000000_" + "a" * 43) is None
    made, text = tokens.create(Role.OPERATOR, "alice", now_us=NOW_US)
    assert service.find(text) == made
    assert tokens.revoke(made.id)
    assert service.find(text) is None
    assert not tokens.revoke(made.id)


def test_a_token_expires_at_its_time(tokens):
    made, _ = tokens.create(Role.OPERATOR, "alice", now_us=NOW_US, expires_us=NOW_US + 10)
    assert [made.is_expired(NOW_US + age) for age in (0, 9, 10)] == [False, False, True]


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "../x", "a\nb"])
def test_a_name_is_one_word(tokens, name):
    with pytest.raises(ValueError, match="cannot be a token's name"):
        tokens.create(Role.OPERATOR, name, now_us=NOW_US)
    assert not tokens.path.exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{}]}', "\udc80"]
)
def test_a_damaged_file_is_an_error_and_not_an_empty_one(tokens, text):
    tokens.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(AuthFileError, match="tokens"):
        tokens.find("bal_000000000000_" + "a" * 43)
    with pytest.raises(AuthFileError):
        tokens.create(Role.OPERATOR, "alice", now_us=NOW_US)


def test_an_unknown_role_in_the_file_is_an_error(tokens):
    tokens.create(Role.OPERATOR, "alice", now_us=NOW_US)
    content = json.loads(tokens.path.read_text(encoding="utf-8"))
    content["tokens"][0]["role"] = "root"
    tokens.path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(AuthFileError):
        tokens.tokens()


def test_every_node_has_a_key_of_its_own_that_does_not_change(tmp_path):
    keys = HookKeyFile(tmp_path / "keys")
    assert keys.keys_of("n01") == ()
    first = keys.issue("n01")
    assert keys.issue("n01") == first != keys.issue("n02")
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_a_new_master_key_leaves_the_old_ones_good_until_they_are_removed(tmp_path):
    keys = HookKeyFile(tmp_path / "keys")
    old = keys.issue("n01")
    new = keys.issue("n01", rotate=True)
    assert keys.keys_of("n01") == (new, old)
    keys.path.write_text(keys.path.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    assert keys.keys_of("n01") == (new,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("xyz", "a line is not hexadecimal; restore the file"),
        ("abcd", "a key is shorter than 32 bytes; restore the file"),
        ("00" * 31, "a key is shorter than 32 bytes; restore the file"),
    ],
)
def test_a_damaged_master_key_is_an_error_that_names_the_file(tmp_path, text, problem):
    keys = HookKeyFile(tmp_path / "keys")
    keys.path.write_text(text, encoding="utf-8")
    with pytest.raises(AuthFileError, match=f"^{re.escape(str(keys.path))}: {problem}$"):
        keys.keys_of("n01")


def test_a_session_is_over_at_its_end_and_one_with_a_longer_end_was_never_made_here(tokens):
    made, _ = tokens.create(Role.READ_ONLY, "wall", now_us=NOW_US)
    session = make_session(made, NOW_US + 10)
    assert [token_of(session, tokens, NOW_US + age) for age in (0, 9, 10)] == [made, made, None]
    token_id, until_us, signature = session.split(".")
    for wrong in (
        f"{token_id}.{int(until_us) + 1}.{signature}",
        f"{token_id}.{'9' * 19}.{signature}",
        f"{token_id}.\u0661.{signature}",  # a digit, and no number of ours
        f"{token_id}.x.{signature}",
        f"{token_id}.{signature}",
    ):
        assert token_of(wrong, tokens, NOW_US) is None


def test_a_refusal_says_why_to_whoever_prints_it():
    denied = Denied(403, "balancer.forbidden", "ask an operator", retry_after_s=2.0)
    assert (str(denied), denied.detail, denied.status, denied.code, denied.retry_after_s) == (
        "ask an operator",
        "ask an operator",
        403,
        "balancer.forbidden",
        2.0,
    )


def test_a_signature_is_of_one_node_one_time_one_path_and_one_body():
    key = node_key(b"m" * 32, "n01")
    signature = sign(key, "n01", 5, "/p", b"body")
    assert Signature.parse(signature.header()) == signature
    assert signature.is_of(key, "/p", b"body")
    assert not signature.is_of(node_key(b"m" * 32, "n02"), "/p", b"body")
    assert not signature.is_of(key, "/q", b"body")
    assert not signature.is_of(key, "/p", b"other")
    assert not Signature("n01", 6, signature.digest).is_of(key, "/p", b"body")
    assert not Signature("n02", 5, signature.digest).is_of(key, "/p", b"body")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Balancer-Hook",
        "Balancer-Hook node=n01",
        "Bearer x",
        "Balancer-Hook node=-,sequence=1,signature=" + "0" * 64,
    ],
)
def test_half_a_signature_is_none(header):
    assert Signature.parse(header) is None
