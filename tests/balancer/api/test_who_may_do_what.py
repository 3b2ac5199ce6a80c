"""Who may do what, written down from what each role is for, and held against every route of the service.

This table knows nothing of `balancer/auth/policy.py`: a change there that is meant is made here as well.
"""

from __future__ import annotations

import pytest

from balancer.api.service import Access
from balancer.auth.gate import Gate
from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Role
from balancer.auth.rates import Rates
from balancer.auth.tokens import TokenFile
from balancer.clock import US
from balancer.http.app import create_app

NOW_US = 1_800_000_000 * US

TABLE = """
                                    operator on-demand hook read-only nobody
POST   /v1/request_nodes               yes      yes     -       -       -
POST   /v1/release_nodes               yes      yes     -       -       -
POST   /v1/add_reserve                 yes      yes     -       -       -
DELETE /v1/requests/<request_id>       yes      yes     -       -       -
POST   /v1/requests/<request_id>/confirm yes    yes     -       -       -
POST   /v1/requests/<request_id>/renew yes      yes     -       -       -
POST   /v1/update_nodes                yes      -       yes     -       -
POST   /v1/adopt                       yes      -       -       -       -
POST   /v1/adopt_nodes                 yes      -       -       -       -
POST   /v1/hold_nodes                  yes      -       -       -       -
POST   /v1/quarantine_nodes            yes      -       -       -       -
GET    /v1/nodes                       yes      yes     -       yes     -
GET    /v1/nodes/<name>                yes      yes     -       yes     -
GET    /v1/requests                    yes      yes     -       yes     -
GET    /v1/requests/<request_id>       yes      yes     -       yes     -
DELETE /v1/reserves/<reserve_id>       yes      yes     -       -       -
GET    /v1/reserves                    yes      yes     -       yes     -
GET    /v1/history                     yes      yes     -       yes     -
GET    /v1/usage                       yes      yes     -       yes     -
GET    /v1/events                      yes      yes     -       yes     -
GET    /v1/status                      yes      yes     -       yes     -
GET    /dashboard/now                  yes      yes     -       yes     -
GET    /dashboard/nodes                yes      yes     -       yes     -
GET    /dashboard/pools                yes      yes     -       yes     -
GET    /metrics                        yes      yes     -       yes     -
GET    /                               yes      yes     -       yes     -
GET    /login                          yes      yes     yes     yes     yes
POST   /session                        yes      yes     yes     yes     yes
DELETE /session                        yes      yes     yes     yes     yes
GET    /assets/<name>                  yes      yes     yes     yes     yes
GET    /v1/                            yes      yes     yes     yes     yes
GET    /openapi.json                   yes      yes     yes     yes     yes
GET    /docs                           yes      yes     yes     yes     yes
GET    /livez                          yes      yes     yes     yes     yes
GET    /readyz                         yes      yes     yes     yes     yes
GET    /healthz                        yes      yes     yes     yes     yes
GET    /healthcheck                    yes      yes     yes     yes     yes
"""

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


def rows():
    header, *lines = TABLE.strip().splitlines()
    for line in lines:
        method, route, *words = line.split()
        yield method, route, dict(zip(header.split(), (word == "yes" for word in words), strict=True))


@pytest.fixture
def site(world, tmp_path):
    w = world(nodes=3, reserve=1)
    w.settled()
    tokens = TokenFile(tmp_path / "tokens")
    gate = Gate(
        tokens, HookKeyFile(tmp_path / "keys"), skew_s=60, failures=Rates(0, 1), now_us=lambda: NOW_US + US
    )
    app = create_app(w.engine, access=Access(gate))
    texts = {role.value: tokens.create(role, role.value, now_us=NOW_US)[1] for role in Role}
    return app, texts


def test_every_route_of_the_service_has_a_row(site):
    app, texts = site
    served = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert served == {(method, route) for method, route, _ in rows()}
    assert {*texts, "nobody"} == set(next(rows())[2])


@pytest.mark.parametrize(
    ("method", "route", "may"), list(rows()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_each_role_may_do_what_the_table_says_and_nothing_else(site, method, route, may):
    app, texts = site
    path = route.replace("<request_id>", "r1").replace("<name>", "n01")
    for role, allowed in may.items():
        headers = {"Authorization": f"Bearer {texts[role]}"} if role in texts else {}
        more = {"json": BODIES.get(path, {})} if method == "POST" else {}
        answer = app.test_client().open(path, method=method, headers=headers, **more)
        refusal = 401 if role == "nobody" else 403
        assert (answer.status_code in (401, 403)) is not allowed, (role, answer.status_code)
        assert allowed or answer.status_code == refusal, (role, answer.status_code)


def test_asking_for_the_head_of_an_answer_is_asking_for_the_answer(site):
    app, texts = site
    for role, allowed in next(
        may for method, route, may in rows() if (method, route) == ("GET", "/v1/status")
    ).items():
        headers = {"Authorization": f"Bearer {texts[role]}"} if role in texts else {}
        assert (app.test_client().head("/v1/status", headers=headers).status_code == 200) is allowed, role
