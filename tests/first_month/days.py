"""Ordinary days: requests, hooks, an operator's own drains, a node that fails, the brake, tokens, other settings."""

from __future__ import annotations

import json

from first_month import cluster, install, service
from first_month.machine import StepError, command, edit, eventually, is_so, run, says
from first_month.service import CONFIG, TOKEN, ask

OURS = "balancer: lent to on-demand"


def a_request_is_granted_drained_and_comes_home() -> None:
    granted = service.request(3)
    is_so(len(granted), 3)
    is_so(cluster.drained(), granted)
    for node in granted:
        says(cluster.reason(node), f"^{OURS} ")
    give_back(granted)


def give_back(granted: list[str]) -> None:
    """All but the reserve is batch's again."""
    ask(f"release {' '.join(granted)}")
    all_home()


def all_home() -> None:
    """One node is in reserve, as configured, and the others are batch's and idle. Raises StepError."""
    eventually(lambda: sorted(service.nodes().values()), ["OA_IDLE"] * 7 + ["OD_RESERVE"])
    is_so(cluster.drained(), service.nodes_in("OD_RESERVE"))


def a_job_is_seen_by_its_hook_and_its_node_is_not_taken() -> None:
    node = service.nodes_in("OA_IDLE")[0]
    number = cluster.submit(node, "sleep 600")
    eventually(lambda: service.state(node), "OA_BUSY")
    says(ask("status"), r"^hooks +seen \d+ s ago")
    others = service.request(7)
    is_so(node in others, False)
    is_so(cluster.state(node), "ALLOCATED")
    says(ask("request 1 --wait-s 0", status=1), "balancer:")
    run(f"scancel {number}")
    eventually(lambda: service.state(node), "OA_IDLE")
    give_back(others)


def a_node_that_the_operator_drains_is_left_to_the_operator() -> None:
    node = service.nodes_in("OA_IDLE")[0]
    run(f"scontrol update nodename={node} state=drain reason='fan loud'")
    granted = service.request(7)
    is_so(node in granted, False)
    says(ask("nodes"), rf"^{node} +DOWN .*fan loud")
    give_back_beside(granted, node)
    is_so((cluster.state(node), cluster.reason(node)), ("IDLE+DRAIN", "fan loud"))
    run(f"scontrol update nodename={node} state=resume")
    all_home()


def give_back_beside(granted: list[str], node: str) -> None:
    ask(f"release {' '.join(granted)}")
    eventually(lambda: sorted(set(service.nodes().values())), ["DOWN", "OA_IDLE", "OD_RESERVE"])
    is_so(cluster.drained(), sorted([node, *service.nodes_in("OD_RESERVE")]))


def a_node_that_goes_down_is_told_and_comes_back() -> None:
    (granted,) = service.request(1)
    run(f"systemctl stop slurmd@{granted}")
    run(f"scontrol update nodename={granted} state=down reason='power supply'")
    eventually(lambda: "failed" in ask("status"), True)
    says(ask("status"), rf"^failed {granted} +granted, and down since")
    run(f"systemctl start slurmd@{granted}")
    run(f"scontrol update nodename={granted} state=resume", status=None)
    eventually(lambda: "failed" in ask("status"), False)
    give_back([granted])


def the_brake_stops_all_moves_and_lets_them_go_on() -> None:
    reserve = service.nodes_in("OD_RESERVE")
    line = command("tutorials/operator.md", "balancer freeze")
    says(run(line), "^frozen, by /var/lib/balancer/ledger.db.frozen")
    try:
        says(ask("status"), "^frozen +by root@head .*moving a rack")
        is_so(service.request(1), reserve)
        says(ask("request 1 --wait-s 0", status=1), "not available at once")
        is_so(cluster.drained(), reserve)
    finally:
        run(command("tutorials/operator.md", "balancer thaw"))
    says(run(command("tutorials/operator.md", "balancer thaw"), status=2), "nothing is frozen")
    give_back(reserve)


def a_node_is_set_aside_and_given_back() -> None:
    node = "n001"
    run(command("tutorials/operator.md", "balancer node n001 set quarantined"), BALANCER_TOKEN_FILE=TOKEN)
    is_so(service.state(node), "QUARANTINED")
    says(ask("status"), f"^quarantined {node} +.*its disk is being changed")
    run(
        command("balancer/runbook.md", "balancer node n003 set batch").replace("n003", node),
        BALANCER_TOKEN_FILE=TOKEN,
    )
    all_home()


def a_token_serves_at_once_and_ends_with_its_revocation() -> None:
    says(run("balancer status", status=None), "token")
    token = install.make_token("read-only", "monitoring").strip()
    run("balancer status", BALANCER_TOKEN=token)
    says(run("balancer request 1", status=None, BALANCER_TOKEN=token), "read-only")
    listed = run(command("balancer/security.md", "balancer token list"), user="balancer")
    number = next(line.split()[0] for line in listed.splitlines() if "monitoring" in line)
    run(
        command("balancer/security.md", "balancer token revoke").replace("1f0c2a9b7d3e", number),
        user="balancer",
    )
    says(run("balancer status", status=2, BALANCER_TOKEN=token), "token")


def a_reload_takes_a_larger_reserve_and_a_smaller_one() -> None:
    edit(CONFIG, "^reserve: 1$", "reserve: 2")
    run("systemctl reload balancer")
    eventually(lambda: len(cluster.drained()), 2)
    edit(CONFIG, "^reserve: 2$", "reserve: 1")
    run("systemctl reload balancer")
    all_home()


def the_journal_rotates_under_the_running_service() -> None:
    since = service.now()
    run("journalctl --rotate && journalctl --vacuum-time=1s")
    give_back(service.request(1))
    lines = [json.loads(line) for line in service.journal(since).splitlines() if line.startswith("{")]
    if not any(each.get("path") == "/v1/request_nodes" for each in lines):
        raise StepError(f"no call in the journal: {lines}")


STEPS = (
    a_reload_takes_a_larger_reserve_and_a_smaller_one,
    a_request_is_granted_drained_and_comes_home,
    a_job_is_seen_by_its_hook_and_its_node_is_not_taken,
    a_node_that_the_operator_drains_is_left_to_the_operator,
    a_node_that_goes_down_is_told_and_comes_back,
    the_brake_stops_all_moves_and_lets_them_go_on,
    a_node_is_set_aside_and_given_back,
    a_token_serves_at_once_and_ends_with_its_revocation,
    the_journal_rotates_under_the_running_service,
)
