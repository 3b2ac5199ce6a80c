"""The alert rules and the dashboard name only metrics and labels that the service has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from balancer.api import status
from balancer.http.app import create_app
from balancer.service.metrics import Metrics

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus/balancer.rules.yml").read_text(encoding="utf-8"))
GRAFANA = json.loads((DEPLOY / "grafana/balancer.json").read_text(encoding="utf-8"))

ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = {panel["title"]: panel for panel in GRAFANA["panels"]}
EXPRESSIONS = [rule["expr"] for rule in ALERTS] + [
    target["expr"] for panel in PANELS.values() for target in panel["targets"]
]
# The few functions and words of PromQL that stand beside metrics here.
WORDS = {"up", "sum", "max", "min", "rate", "increase", "histogram_quantile", "or"}
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@pytest.fixture(scope="module")
def metrics():
    """Name -> the labels that it is declared with, after everything was counted once."""
    made = Metrics("torque")
    made.request_answered("granted")
    made.node_moved("batch", "on_demand", "done", 1.0)
    made.command_done("reclaim", "ok", 1.0)
    made.hook_event("prologue", "accepted")
    made.http_done("GET", "/", 200, 0.1)
    made.denied(401)
    made.nodes({})
    found: dict[str, set[str]] = {}
    for family in made.registry.collect():
        kinds = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "info": ["_info"]}
        for suffix in kinds.get(family.type, [""]):
            found[family.name + suffix] = {"le"} if suffix == "_bucket" else set()
    for collector in made.registry._collector_to_names:
        for name in made.registry._collector_to_names[collector]:
            if name in found:
                found[name] |= set(getattr(collector, "_labelnames", ()))
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_exists(metrics, expression):
    bare = re.sub(r'"[^"]*"', '""', expression)
    labels = set()
    for inside in re.findall(r"\{([^}]*)\}", bare) + re.findall(r"by \(([^)]*)\)", bare):
        labels |= set(NAME.findall(inside))
    outside = re.sub(r"\{[^}]*\}|by \([^)]*\)|\[[^\]]*\]|\b[0-9.]+(e[0-9]+)?\b", " ", bare)
    names = {name for name in NAME.findall(outside) if name not in WORDS}
    assert names <= set(metrics)
    assert all(name.startswith("balancer_") for name in names)
    known = {"job"}.union(*(metrics[name] for name in names))
    assert labels <= known


TELL_NO_TROUBLE = {
    "balancer_build_info",
    "balancer_driver_command_duration_seconds",
    "balancer_hook_age_seconds",  # where no job begins, no hook comes
    "balancer_hook_events_total",  # a job on a lent node is contested
    "balancer_http_request_duration_seconds",
    "balancer_ledger_newest_event",
    "balancer_move_duration_seconds",
    "balancer_reconcile_last_success_timestamp_seconds",  # the reading's age has an alert
    "balancer_requests_total",
    "balancer_reserves",
    "balancer_waiting_request_nodes",
    "balancer_waiting_requests",
}


def families(expressions):
    found = {name for each in expressions for name in re.findall(r"\bbalancer_\w+", each)}
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def test_every_metric_that_tells_of_trouble_has_an_alert(metrics):
    alerted = families(rule["expr"] for rule in ALERTS)
    assert families(metrics) - alerted == TELL_NO_TROUBLE


def test_what_has_an_alert_is_on_the_dashboard():
    shown = families(target["expr"] for panel in PANELS.values() for target in panel["targets"])
    assert families(rule["expr"] for rule in ALERTS) - shown == set()


def test_every_alert_says_what_is_wrong_how_bad_it_is_and_what_to_do():
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]


def test_no_two_panels_of_the_dashboard_overlap():
    taken: dict[tuple[int, int], str] = {}
    for title, panel in PANELS.items():
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert x < 24
                assert taken.setdefault((x, y), title) == title


def test_what_the_status_says_is_a_metric_too(world):
    http = create_app(world(nodes=2).engine).test_client()
    text = http.get("/metrics").text
    for name in ("ready", "read_only", "frozen", "waiting_requests", "oldest_wait_seconds", "oldest_grant_seconds",
                 "ledger_size_bytes", "ledger_newest_event"):  # fmt: skip
        assert f"\nbalancer_{name} " in text
    assert set(status.Status.model_fields) >= {"problem", "read_only", "frozen", "waiting", "batch", "cloud"}


def test_the_unit_starts_the_command_as_a_user_of_its_own_and_may_write_its_state_only():
    text = (DEPLOY / "systemd/balancer.service").read_text(encoding="utf-8")
    settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] not in "#;")
    assert settings["ExecStart"].endswith("/balancer serve --config /etc/balancer/balancer.yaml")
    assert (settings["User"], settings["ProtectSystem"], settings["StateDirectory"]) == (
        "balancer", "strict", "balancer",
    )  # fmt: skip
    assert (settings["NoNewPrivileges"], settings["CapabilityBoundingSet"]) == ("true", "")
    # A standby is starting for as long as another one leads.
    assert (settings["Type"], settings["TimeoutStartSec"]) == ("notify", "infinity")
    # A configuration that cannot be used ends with 2; a core would hold tokens.
    assert (settings["RestartPreventExitStatus"], settings["LimitCORE"]) == ("2", "0")
