"""Recorded exchanges with real services, sent to the manager: same status, same headers, same body keys.

Identifiers of the recording are replaced by ours as they appear. What is left out, and why, is in LEFT_OUT.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import pytest
import requests

from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.fixed_services import image_id
from emulator.live.ondemand.http import stable_id
from emulator.live.ondemand.server import OndemandServer
from emulator.live.ondemand.site import provider_id, service_id
from testdata import RECORDED

pytestmark = pytest.mark.live

PREFIX = {5000: "/identity", 8774: "/compute", 9292: "/image", 8778: "/placement", 9696: "/network"}
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# file -> who sends, with exceptions by position; positions that are not sent
FILES: dict[str, tuple[str, dict[int, str], set[int]]] = {
    "01-connect-and-authorize": ("demo", {}, set()),
    "02-first-compute-call": ("demo", {}, set()),
    "03-first-image-call": ("demo", {}, {1}),
    "04-first-network-call": ("demo", {}, set()),
    "05-first-placement-call": ("demo", {}, set()),
    "06-service-catalog": ("demo", {}, set()),
    "07-token-validate-and-revoke": ("admin", {}, set()),
    "08-auth-wrong-password": ("demo", {}, set()),
    "11-auth-bad-application-credential": ("demo", {}, set()),
    "12-auth-unscoped-and-versionless": ("demo", {}, {2}),
    "13-no-token": ("nobody", {}, set()),
    "14-version-documents": ("nobody", {}, {7}),
    "20-flavors": ("demo", {}, {6, 7, 8, 9, 11}),
    "21-images": ("demo", {}, set()),
    "22-server-lifecycle": ("demo", {}, {11, 13, 14, 15}),
    "23-server-lifecycle-admin": ("admin", {}, {4}),
    "25-no-valid-host": ("demo", {14: "admin"}, {16, 17, 18, 19}),
    "27-freed-capacity": ("demo", {7: "admin"}, {1}),
    "28-multi-create": ("demo", {}, set()),
    "30-create-errors": ("demo", {}, {13}),
    "31-services": ("admin", {3: "demo"}, set()),
    "35-hypervisors": ("admin", dict.fromkeys((0, 1, 2, 3, 12, 14), "demo"), {9, 10, 13}),
    "36-quotas-limits": ("admin", {0: "demo", 11: "demo"}, {7}),
    "38-placement": ("admin", dict.fromkeys((0, 1, 2, 3, 14, 16), "demo"), {10, 11, 12, 13, 15}),
}
# file -> file that was recorded just before, whose servers it goes on with
BEFORE = {"27-freed-capacity": "25-no-valid-host"}
LEFT_OUT = {
    "lists that were empty, or not, when recorded": "a position of 03",
    "09, 10, 40": "a real Nova's work: no application credentials, no networks; so are flavors that are made",
    "statistics, histories, candidates": "calls that only a real Nova has; test_refusals.py says what is answered",
    "29, 37": "hosts cannot be chosen and there are no aggregates: the Balancer decides",
    "32-34": "disabled and forced-down services are shown, but do not change who gets nodes",
    "39": "its actions are in test_states.py",
    "24, 26, 50": "in test_sdk.py and test_cli.py, with the real clients",
    "60-62, 70": "experiments with Nova's inside",
    "deleting, DELETED": "a deleted server is gone at once",
    "flavors by administrators": "there is one flavor",
}
# Bodies that may differ: the recording has more than one network, zone, trait or version here.
OPEN_KEYS = {"cpu_info"}


def load(name):
    return json.loads((RECORDED / "nova" / f"{name}.json").read_text())["exchanges"]


def shape(value):
    """Keys and kinds of a JSON document; of a list the shapes of its elements, without repetition."""
    if isinstance(value, dict):
        return {UUID.sub("UUID", key): shape(part) for key, part in value.items() if key not in OPEN_KEYS}
    if isinstance(value, list):
        shapes = {json.dumps(shape(part), sort_keys=True) for part in value}
        return sorted(shapes)
    return None if value is None else type(value).__name__


class Session:
    """Sends recorded requests to the manager, with our identifiers for theirs."""

    def __init__(self, manager):
        self.manager = manager
        self.ours = {
            "e6e262f9-a3ed-4488-92c0-3dbbcaecdc6c": image_id("tiny"),
            "41435e8de1734a09bf2efddf81c80f98": stable_id("user", "demo"),
            "5203a89bba81497b9ef6e39577d9440c": stable_id("project", "demo"),
        }
        hosts = ("7672a7da-83e8-5796-b854-30d449ef755e", "30c074ce-f989-5d2a-9846-232cd37ad1bb")
        hosts += ("33e2bd39-ffd0-5de8-836c-6182ac9f87e9", "6644b1cc-4e42-5b63-a32f-d11e49b3c802")
        for number, theirs in enumerate(hosts, 1):
            self.ours[theirs] = provider_id(f"node{number:03d}")
        self.ours["0d68d641-a1dd-4b52-a190-318f5c7db112"] = service_id("nova-compute", "node002")
        self.http = requests.Session()

    def token(self, user):
        if user == "nobody":
            return None
        login = {"user": {"name": user, "password": "secret", "domain": {"id": "default"}}}
        auth = {"identity": {"methods": ["password"], "password": login}}
        response = self.http.post(f"{self.manager.auth_url}/auth/tokens", json={"auth": auth})
        return response.headers["X-Subject-Token"]

    def translate(self, text):
        for theirs, our in self.ours.items():
            text = text.replace(theirs, our)
        return text

    def send(self, exchange, user):
        parts = urlsplit(exchange["url"])
        query = f"?{parts.query}" if parts.query else ""
        url = f"{self.manager.url}{PREFIX[parts.port]}{self.translate(parts.path + query)}"
        headers = dict(exchange["request_headers"])
        for name in ("X-Auth-Token", "X-Subject-Token"):
            if headers.get(name) == "TOKEN":
                subject = "demo" if name == "X-Subject-Token" else user
                headers[name] = self.tokens[subject]
        body = exchange.get("request_body")
        data = None if body is None else self.translate(json.dumps(body))
        response = self.http.request(
            exchange["method"], url, headers=headers, data=data, allow_redirects=False
        )
        self.learn(exchange.get("response_body"), response)
        return response

    def learn(self, theirs, response):
        """Servers and actions that were made get the recording's identifiers."""
        ours = (
            response.json()
            if "json" in response.headers.get("Content-Type", "") and response.content
            else None
        )
        self.pair(theirs, ours)

    def pair(self, theirs, ours):
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in theirs.keys() & ours.keys():
                if key in {"id", "request_id"} and isinstance(theirs[key], str) and len(theirs[key]) > 30:
                    self.ours.setdefault(theirs[key], ours[key])
                self.pair(theirs[key], ours[key])
        elif isinstance(theirs, list) and isinstance(ours, list):

            def name(row):
                return row.get("name", "") if isinstance(row, dict) else ""

            for one, other in zip(sorted(theirs, key=name), sorted(ours, key=name), strict=False):
                self.pair(one, other)


def wanted_status(exchange):
    body = exchange.get("response_body")
    return body.get("server", {}).get("status") if isinstance(body, dict) else None


@pytest.mark.parametrize("name", FILES)
def test_the_recorded_exchanges_get_answers_of_the_same_shape(name):
    # The recorded scheduler began with the last host.
    with OndemandServer(OndemandConfig(pool=("node004", "node003", "node002", "node001"))) as manager:
        check(manager, name)


def check(manager, name):
    session = Session(manager)
    session.tokens = {who: session.token(who) for who in ("demo", "admin")}
    for file in filter(None, (BEFORE.get(name), name)):
        replay(session, file)


def replay(session, name):
    user, others, unsent = FILES[name]
    for position, exchange in enumerate(load(name)):
        if position in unsent:
            continue
        where = f"{name}[{position}] {exchange['method']} {exchange['url']}"
        if wanted_status(exchange) == "BUILD":
            continue  # a matter of timing: building takes no time here
        response = session.send(exchange, others.get(position, user))
        assert response.status_code == exchange["status"], f"{where}: {response.text}"
        compare_headers(where, exchange["response_headers"], response.headers)
        compare_bodies(where, exchange.get("response_body"), response)


def compare_headers(where, theirs, ours):
    ignored = {"content-length", "location"}
    missing = {name.lower() for name in theirs} - {name.lower() for name in ours} - ignored
    assert not missing, where
    for name in ("OpenStack-API-Version", "X-OpenStack-Nova-API-Version", "Vary", "Content-Type"):
        if name in theirs:
            assert ours[name].replace("; charset=utf-8", "") == theirs[name].replace("; charset=utf-8", ""), (
                where
            )


def compare_bodies(where, theirs, response):
    if theirs is None:
        assert response.content == b"", where
    elif isinstance(theirs, str):
        assert response.text.startswith("<html"), where
    else:
        ours = response.json()
        error = next(iter(theirs.values())) if len(theirs) == 1 else None
        if isinstance(error, dict) and "code" in error:
            ours_error = next(iter(ours.values()))
            assert (list(ours), ours_error["code"]) == (list(theirs), error["code"]), where
            return
        assert shape(ours) == shape(theirs), where
