"""Whoever watches the service sees whether batch system and cloud answer, who waits, and how old things are."""

from __future__ import annotations

from balancer.clock import micros
from balancer.drivers.base import NodeStatus, UnclearError


def sample(http, name):
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith(name + " ")]
    assert len(lines) == 1, name
    return float(lines[0].split()[1])


def test_the_status_of_a_quiet_service(api):
    w, http = api(nodes=3, reserve=1)
    status = http.get("/v1/status").json
    assert status["nodes"] == {
        "OD_RESERVE": 1, "OD_ALLOC": 0, "OA_IDLE": 2, "OA_BUSY": 0, "DOWN": 0, "RECLAIMING": 0, "RESTORING": 0,
        "QUARANTINED": 0,
    }  # fmt: skip
    assert status["waiting"] == {"requests": 0, "nodes": 0, "oldest_s": None}
    assert status["batch"] == {"name": "fake", "reachable": True, "age_s": 0, "error": None}
    assert status["cloud"]["reachable"]
    assert (status["problem"], status["leader"], status["read_only"], status["frozen"]) == (
        None,
        True,
        False,
        None,
    )
    assert status["ledger_bytes"] > 4096
    assert status["newest_event"] == w.engine.ledger.last_seq()


def test_the_age_of_the_last_hook_is_shown(api):
    w, http = api(nodes=2)
    assert (http.get("/v1/status").json["last_hook_s"], sample(http, "balancer_hook_age_seconds")) == (
        None,
        float("inf"),
    )
    w.engine.update_nodes(busy=("n01",), job="1.server")
    w.clock.advance_to(w.clock.now_us() + micros(40))
    assert http.get("/v1/status").json["last_hook_s"] == 40
    assert sample(http, "balancer_hook_age_seconds") == 40


def test_jobs_that_no_hook_told_of_are_shown(api):
    w, http = api(nodes=2)
    w.start_job("1", "n02", hook=False)
    for _ in range(2):
        w.clock.advance_to(w.clock.now_us() + micros(20))
        w.engine.reconcile()
    assert (http.get("/v1/status").json["unannounced"], sample(http, "balancer_nodes_unannounced")) == (
        ["n02"],
        1,
    )


def test_a_batch_system_that_cannot_be_reached_is_shown_at_once_and_ends_readiness_after_its_bound(api):
    w, http = api(nodes=2, unreachable_s=90)
    w.batch.fails = dict.fromkeys(("status", "status all"), UnclearError("pbsnodes did not end in time"))
    w.clock.advance_to(w.clock.now_us() + micros(60))
    w.engine.reconcile()
    assert http.get("/v1/status").json["batch"] == {
        "name": "fake", "reachable": False, "age_s": 60, "error": "pbsnodes did not end in time",
    }  # fmt: skip
    assert sample(http, 'balancer_reachable{system="batch"}') == 0
    assert sample(http, 'balancer_reading_age_seconds{system="batch"}') == 60
    assert http.get("/readyz").status_code == 200
    w.clock.advance_to(w.clock.now_us() + micros(31))
    w.engine.reconcile()
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert answer.text == "the batch system has not answered for 91 s: pbsnodes did not end in time\n"
    assert (http.get("/healthz").status_code, http.get("/livez").status_code) == (503, 200)
    assert sample(http, "balancer_ready") == 0
    w.batch.fails = {}
    w.engine.reconcile()
    assert http.get("/readyz").status_code == 200


def test_a_cloud_that_cannot_be_reached_is_shown_and_does_not_end_readiness(api):
    w, http = api(nodes=2)
    w.cloud.hosts = None
    w.engine.reconcile()
    assert http.get("/v1/status").json["cloud"]["error"] == "the cloud did not answer in time"
    assert sample(http, 'balancer_reachable{system="cloud"}') == 0
    assert http.get("/readyz").status_code == 200


def test_the_metrics_say_who_waits_and_how_long_and_how_old_grants_are(api):
    w, http = api(nodes=2, wait_s=600)
    w.engine.submit_request(1)
    w.settled()
    w.clock.advance_to(w.clock.now_us() + micros(30))
    w.start_job("1", "n02")
    w.engine.submit_request(1)
    w.clock.advance_to(w.clock.now_us() + micros(10))
    assert http.get("/v1/status").json["waiting"] == {"requests": 1, "nodes": 1, "oldest_s": 10}
    assert sample(http, "balancer_waiting_requests") == 1
    assert sample(http, "balancer_oldest_wait_seconds") == 10
    assert sample(http, "balancer_oldest_grant_seconds") == 40
    assert (sample(http, "balancer_read_only"), sample(http, "balancer_frozen")) == (0, 0)
    assert sample(http, "balancer_ledger_size_bytes") > 4096


def test_the_metrics_tell_nodes_that_sleep_from_those_that_are_broken(api):
    w, http = api(nodes=4)
    asleep = NodeStatus("down", note="asleep", is_asleep=True)
    w.batch.reports = {"n01": asleep, "n02": NodeStatus("down"), "n03": asleep, "n04": NodeStatus("idle")}
    w.engine.reconcile()
    assert (
        sample(http, 'balancer_nodes{pool="batch",state="DOWN"}'),
        sample(http, "balancer_nodes_asleep"),
    ) == (3, 2)
    assert http.get("/v1/nodes/n01").json["reported"] == {"state": "down", "jobs": [], "note": "asleep"}
