"""Who gets in: every route of the document with no, wrong, expired, foreign and right credentials (T18, I15)."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3

import pytest
import structlog

from balancer.api.problems import MEDIA_TYPE
from balancer.api.service import Access
from balancer.auth.gate import Gate
from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Role
from balancer.auth.policy import ANYBODY, POLICY
from balancer.auth.rates import Rates
from balancer.auth.signature import sign
from balancer.auth.tokens import TokenFile
from balancer.clock import US
from balancer.http.app import create_app, openapi_text

START_US = 1_800_000_000 * US
SKEW_S = 60

BODIES = {
    "/v1/request_nodes": {"nodes": 1},
    "/v1/release_nodes": {"nodes": ["n01"]},
    "/v1/update_nodes": {"states": {"n02": "busy"}, "job": "1.server"},
    "/v1/add_reserve": {"nodes": 1, "notice_s": 60},
    "/v1/adopt": {"reason": "its disk is dead"},
    "/v1/adopt_nodes": {"nodes": ["n01"], "pool": "batch"},
    "/v1/hold_nodes": {"nodes": ["n01"], "reason": "nobody knows what runs there"},
    "/v1/quarantine_nodes": {"nodes": ["n01"], "reason": "nobody knows what runs there"},
}
OPERATIONS = [
    (method.upper(), path)
    for path, item in json.loads(openapi_text())["paths"].items()
    for method in item
    if method in ("get", "post", "delete", "put", "patch")
]
DASHBOARD = {"GET /", "GET /dashboard/now", "GET /dashboard/nodes", "GET /dashboard/pools"}
PAGES = DASHBOARD | {"GET /docs", "GET /login", "POST /session", "DELETE /session", "GET /assets/<name>"}
PROTECTED = [
    each
    for each in OPERATIONS
    if POLICY[f"{each[0]} {each[1].replace('{', '<').replace('}', '>')}"] != ANYBODY
]


class Site:
    """A service that authenticates, its callers' tokens, and a clock for them."""

    def __init__(self, world, folder, **options) -> None:
        self.world = world
        self.tokens = TokenFile(folder / "tokens")
        self.keys = HookKeyFile(folder / "keys")
        self.now_us = START_US
        self.text = {role: self.tokens.create(role, role.value, now_us=START_US)[1] for role in Role}
        self.expired = self.tokens.create(Role.OPERATOR, "old", now_us=START_US, expires_us=START_US)[1]
        self.start(**options)

    def start(self, *, rates: Rates | None = None, failures: Rates | None = None) -> None:
        """As after a restart: what was seen is forgotten."""
        gate = Gate(
            self.tokens,
            self.keys,
            skew_s=SKEW_S,
            failures=failures or Rates(0, 1),
            now_us=lambda: self.now_us,
        )
        self.http = create_app(self.world.engine, access=Access(gate, rates)).test_client()
        self.now_us += US

    def call(self, method: str, path: str, authorization: str | None = None, **more):
        path = path.replace("{request_id}", "r1").replace("{name}", "n01")
        headers = more.pop("headers", {}) | (
            {} if authorization is None else {"Authorization": authorization}
        )
        if method == "POST" and "data" not in more:
            more.setdefault("json", BODIES.get(path, {}))
        return self.http.open(path, method=method, headers=headers, **more)

    def hook(self, node: str = "n02", *, at_us: int | None = None, signer: str | None = None, body=None):
        """A signed report; returns the header and the body."""
        data = json.dumps(body or BODIES["/v1/update_nodes"]).encode()
        key = self.keys.issue(signer or node)
        at_us = self.now_us if at_us is None else at_us
        return sign(key, node, at_us, "/v1/update_nodes", data).header(), data

    def send(self, header: str, data: bytes):
        return self.call("POST", "/v1/update_nodes", header, data=data, content_type="application/json")

    def ledger_hash(self) -> str:
        """Of everything that is stored."""
        connection = sqlite3.connect(self.world.db)
        try:
            return hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()
        finally:
            connection.close()


@pytest.fixture
def site(world, tmp_path):
    def make(**options):
        w = world(nodes=3, reserve=1)
        w.settled()
        return Site(w, tmp_path, **options)

    return make


def refused(response, status: int, code: str) -> None:
    assert (response.status_code, response.content_type) == (status, MEDIA_TYPE)
    assert response.get_json()["code"] == code


def test_every_operation_of_the_document_has_a_row_in_the_policy():
    rows = {f"{method} {path.replace('{', '<').replace('}', '>')}" for method, path in OPERATIONS}
    assert rows | PAGES | {"GET /v1/", "GET /openapi.json"} == set(POLICY)


def test_every_route_of_the_application_has_a_row_in_the_policy(site):
    rules = {
        f"{method} {rule.rule}"
        for rule in site().http.application.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert rules == set(POLICY)


def test_a_route_without_a_row_is_refused_to_everybody(site, monkeypatch):
    s = site()
    monkeypatch.delitem(POLICY, "GET /v1/nodes")
    refused(s.call("GET", "/v1/nodes"), 401, "balancer.unauthenticated")
    for role in Role:
        refused(s.call("GET", "/v1/nodes", f"Bearer {s.text[role]}"), 403, "balancer.forbidden")


def test_nobody_gets_in_without_valid_credentials_and_nothing_changes(site):
    s = site()
    before = s.ledger_hash()
    made_up = "bal_000000000000_" + "a" * 43
    for method, path in PROTECTED:
        for authorization, code in (
            (None, "balancer.unauthenticated"),
            ("", "balancer.unauthenticated"),
            (f"Bearer {made_up}", "balancer.unauthenticated"),
            (f"Bearer {s.text[Role.OPERATOR]}x", "balancer.unauthenticated"),
            (s.text[Role.OPERATOR], "balancer.unauthenticated"),
            ("Basic ???", "balancer.unauthenticated"),
            (f"Bearer {s.expired}", "balancer.token_expired"),
            ("Balancer-Hook node=n02", "balancer.bad_signature"),
        ):
            response = s.call(method, path, authorization)
            refused(response, 401, code)
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert s.ledger_hash() == before


def test_a_role_does_what_the_policy_says_and_nothing_else(site):
    s = site()
    for method, path in PROTECTED:
        allowed = POLICY[f"{method} {path.replace('{', '<').replace('}', '>')}"]
        for role in Role:
            s.world.settled()
            before = s.ledger_hash()
            response = s.call(method, path, f"Bearer {s.text[role]}")
            if role in allowed:
                assert response.status_code not in (401, 403), (method, path, role)
            else:
                refused(response, 403, "balancer.forbidden")
                assert s.ledger_hash() == before


def test_what_needs_no_identity_asks_for_none(site):
    s = site()
    for method, path in [*OPERATIONS, ("GET", "/v1/"), ("GET", "/openapi.json")]:
        if (method, path) not in PROTECTED:
            assert s.call(method, path).status_code == 200
    assert s.call("OPTIONS", "/v1/nodes").headers["Allow"]
    refused(s.call("GET", "/v2"), 404, "balancer.not_found")
    assert s.call("PUT", "/v1/nodes").headers["Allow"]


def test_a_revoked_token_ends_with_the_next_call(site):
    s = site()
    made, text = s.tokens.create(Role.READ_ONLY, "tmp", now_us=s.now_us)
    assert s.call("GET", "/v1/nodes", f"Bearer {text}").status_code == 200
    s.tokens.revoke(made.id)
    refused(s.call("GET", "/v1/nodes", f"Bearer {text}"), 401, "balancer.unauthenticated")


def test_a_token_may_be_a_password_but_not_to_change_anything(site):
    s = site()
    basic = "Basic " + base64.b64encode(f"me:{s.text[Role.OPERATOR]}".encode()).decode()
    assert s.call("GET", "/", basic, headers={"Accept": "text/html"}).status_code == 200
    refused(s.call("POST", "/v1/request_nodes", basic), 401, "balancer.unauthenticated")


def test_a_browser_without_a_log_in_is_sent_to_the_page_that_asks_for_a_token(site):
    s = site()
    sent = s.call("GET", "/", headers={"Accept": "text/html"})
    assert (sent.status_code, sent.headers["Location"]) == (303, "/login")
    assert s.http.get("/login").status_code == 200
    refused(s.call("GET", "/", headers={"Accept": "application/json"}), 401, "balancer.unauthenticated")


def test_a_browser_logs_in_with_a_token_and_its_cookie_reads_and_changes_nothing(site):
    s = site()
    before = s.ledger_hash()
    made = s.http.post("/session", json={"token": s.text[Role.OPERATOR]})
    assert made.status_code == 204
    cookie = made.headers["Set-Cookie"]
    assert s.text[Role.OPERATOR] not in cookie
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    assert s.call("GET", "/v1/nodes").status_code == 200
    refused(s.call("POST", "/v1/request_nodes"), 401, "balancer.unauthenticated")
    refused(s.call("DELETE", "/v1/requests/{request_id}"), 401, "balancer.unauthenticated")
    assert s.ledger_hash() == before


def test_a_log_in_outlives_a_restart_and_ends_with_its_token_or_after_its_time(site):
    s = site()
    token, text = s.tokens.create(Role.READ_ONLY, "wall", now_us=START_US)
    s.http.post("/session", json={"token": text})
    session = s.http.get_cookie("balancer_session").value
    s.start()
    s.http.set_cookie("balancer_session", session)
    assert s.call("GET", "/v1/nodes").status_code == 200
    s.now_us += 12 * 3600 * US
    refused(s.call("GET", "/v1/nodes"), 401, "balancer.unauthenticated")
    s.now_us -= 12 * 3600 * US
    s.tokens.revoke(token.id)
    refused(s.call("GET", "/v1/nodes"), 401, "balancer.unauthenticated")


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1] + ("0" if c[-1] != "0" else "1"), lambda c: c + ".x", str.upper]
)
def test_a_cookie_that_was_not_made_here_is_refused(site, change):
    s = site()
    s.http.post("/session", json={"token": s.text[Role.READ_ONLY]})
    s.http.set_cookie("balancer_session", change(s.http.get_cookie("balancer_session").value))
    refused(s.call("GET", "/v1/nodes"), 401, "balancer.unauthenticated")


def test_a_later_end_written_into_the_cookie_is_noticed(site):
    s = site()
    s.http.post("/session", json={"token": s.text[Role.READ_ONLY]})
    name, until, signature = s.http.get_cookie("balancer_session").value.split(".")
    s.http.set_cookie("balancer_session", f"{name}.{int(until) + 1}.{signature}")
    refused(s.call("GET", "/v1/nodes"), 401, "balancer.unauthenticated")


def test_a_token_that_may_not_read_cannot_log_in(site):
    s = site()
    answer = s.http.post("/session", json={"token": s.text[Role.HOOK]})
    assert (answer.status_code, answer.headers.get("Set-Cookie")) == (403, None)
    assert s.http.post("/session", json={"token": "guess"}).status_code == 401


def test_an_unreadable_token_file_lets_nobody_in_and_says_so(site):
    s = site()
    s.tokens.path.write_text("{", encoding="utf-8")
    response = s.call("GET", "/v1/nodes", f"Bearer {s.text[Role.OPERATOR]}")
    refused(response, 503, "balancer.credentials_unreadable")
    assert response.headers["Retry-After"]


# Signed hooks


def test_a_node_reports_its_job_with_its_own_signature(site):
    s = site()
    assert s.send(*s.hook()).status_code == 200
    assert s.world.states()["n02"] == "OA_BUSY"


def test_a_forged_or_altered_report_changes_nothing(site):
    s = site()
    header, data = s.hook()
    before = s.ledger_hash()
    refused(s.send(header, data.replace(b"busy", b"idle")), 401, "balancer.bad_signature")
    refused(s.send(header.replace("n02", "n03"), data), 401, "balancer.bad_signature")
    refused(s.send(*s.hook("n02", signer="n03")), 401, "balancer.bad_signature")
    refused(s.send(header[:-1] + ("0" if header[-1] != "0" else "1"), data), 401, "balancer.bad_signature")
    refused(s.call("POST", "/v1/release_nodes", header), 401, "balancer.bad_signature")
    assert s.ledger_hash() == before


def test_a_node_cannot_report_jobs_of_other_nodes(site):
    s = site()
    before = s.ledger_hash()
    refused(s.send(*s.hook("n03")), 403, "balancer.wrong_node")
    assert s.ledger_hash() == before


def test_a_replayed_report_is_refused_also_after_a_restart(site):
    s = site()
    header, data = s.hook()
    assert s.send(header, data).status_code == 200
    before = s.ledger_hash()
    refused(s.send(header, data), 401, "balancer.replayed_hook")
    s.start()
    refused(s.send(header, data), 401, "balancer.replayed_hook")
    assert s.ledger_hash() == before


def test_a_report_is_refused_when_its_time_is_too_far_from_ours(site):
    s = site()
    s.now_us += 600 * US
    limit_us = SKEW_S * US
    for age_us, accepted in (
        (limit_us, True),
        (-limit_us, True),
        (limit_us + 1, False),
        (-limit_us - 1, False),
    ):
        response = s.send(*s.hook(at_us=s.now_us - age_us))
        if accepted:
            assert response.status_code == 200
        else:
            refused(response, 401, "balancer.stale_hook")


def test_what_was_seen_is_forgotten_only_when_it_is_stale(site):
    s = site()
    header, data = s.hook(at_us=s.now_us + SKEW_S * US)  # a clock that runs ahead
    assert s.send(header, data).status_code == 200
    s.now_us += 2 * SKEW_S * US
    s.send(*s.hook())
    refused(s.send(header, data), 401, "balancer.replayed_hook")
    s.now_us += 1
    s.send(*s.hook())
    refused(s.send(header, data), 401, "balancer.stale_hook")


# Limits


def test_a_caller_that_calls_too_often_is_told_when_to_come_again_and_others_are_not(site):
    s = site(rates=Rates(0.1, 3))
    operator, reader = (f"Bearer {s.text[role]}" for role in (Role.OPERATOR, Role.READ_ONLY))
    before = s.ledger_hash()
    assert [s.call("GET", "/v1/nodes", operator).status_code for _ in range(3)] == [200] * 3
    response = s.call("POST", "/v1/request_nodes", operator)
    refused(response, 429, "balancer.too_many_calls")
    assert 1 <= int(response.headers["Retry-After"]) <= 10
    assert s.call("GET", "/v1/nodes", reader).status_code == 200
    assert s.call("GET", "/livez").status_code == 200
    assert s.ledger_hash() == before


def test_whoever_guesses_is_slowed_down_and_valid_callers_from_there_are_not(site):
    s = site(failures=Rates(0.1, 2))
    assert [s.call("GET", "/v1/nodes", "Bearer x").status_code for _ in range(3)] == [401, 401, 429]
    assert s.call("GET", "/v1/nodes", f"Bearer {s.text[Role.OPERATOR]}").status_code == 200


def test_an_idempotency_key_is_its_owners(site):
    s = site()
    key = {"Idempotency-Key": "k1"}
    operator, manager = (f"Bearer {s.text[role]}" for role in (Role.OPERATOR, Role.ON_DEMAND))
    first = s.call("POST", "/v1/request_nodes", operator, headers=key).get_json()
    assert s.call("POST", "/v1/request_nodes", manager, headers=key).get_json()["id"] != first["id"]
    other = s.call("POST", "/v1/request_nodes", manager, headers=key, json={"nodes": 2})
    refused(other, 422, "balancer.idempotency_key_reused")
    assert "k1" in other.get_json()["detail"]
    _, renewed = s.tokens.create(Role.OPERATOR, Role.OPERATOR.value, now_us=s.now_us)
    again = s.call("POST", "/v1/request_nodes", f"Bearer {renewed}", headers=key).get_json()
    assert again == first, "a new token of the same name goes on where the old one was"


# Logs


def test_a_call_is_logged_with_its_id_and_caller_and_never_with_a_secret(site):
    s = site()
    request_id = "req-11111111-2222-3333-4444-555555555555"
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        for text in [*s.text.values(), s.expired]:
            for method, path in PROTECTED:
                s.call(method, path, f"Bearer {text}", headers={"X-OpenStack-Request-Id": request_id})
        header, data = s.hook()
        s.send(header, data)
        s.send(header, data)
        s.tokens.path.write_text("{", encoding="utf-8")
        s.call("GET", "/v1/nodes", f"Bearer {s.text[Role.OPERATOR]}")
    calls = [line for line in lines if line["event"] == "call"]
    granted = next(line for line in calls if line["path"] == "/v1/request_nodes" and line["status"] == 200)
    assert (granted["request_id"], granted["caller"]) == (request_id, "operator:operator")
    assert {line.get("code") for line in calls} > {"balancer.forbidden", "balancer.token_expired", None}
    everything = json.dumps(lines, default=repr) + "\n".join(
        map(str, s.world.engine.ledger.events(0, 10_000))
    )
    secrets = [text.split("_", 2)[2] for text in [*s.text.values(), s.expired]]
    secrets += [header.rpartition("=")[2], s.keys.issue("n02").hex(), s.keys.path.read_text("utf-8").strip()]
    assert not [secret for secret in secrets if secret in everything]
