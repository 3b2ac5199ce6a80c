"""What people see of a granted node that has failed: status, nodes, requests and the client."""

from __future__ import annotations

from balancer.client import Balancer
from balancer.client_records import DownNode
from balancer.timestamps import parse_iso
from command_line import balance


def lines(*command):
    done = balance(*command)
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.output.splitlines()]


def test_status_nodes_requests_and_client_name_a_failed_node(served):
    w, url = served(nodes=2, has_cloud=False, reconcile_period_s=0)
    with Balancer(url) as balancer:
        granted = balancer.request_nodes(1)
        since = w.fails(*granted.nodes)
        found = balancer.request(granted.id)
        assert found.down == (DownNode(node="n01", since_s=parse_iso(since) / 1_000_000),)
        assert balancer.node("n01").down_since_s == found.down[0].since_s
    said = f"failed n01 granted, and down since {since}".split()
    assert said in lines("status", "--url", url)
    assert any("failed," in line and line[0] == "n01" for line in lines("nodes", "--url", url))
    assert any({"1", "down"} < {*line} for line in lines("requests", "--url", url))


def test_request_replace_gets_another_node_by_a_request_of_its_own(served):
    w, url = served(nodes=2, has_cloud=False, reconcile_period_s=0)
    assert lines("request", "1", "--replace", "--url", url)
    with Balancer(url) as balancer:
        (granted,) = balancer.requests()
        assert (granted.replace, granted.lost) == (True, ())
        w.fails(*granted.nodes)
        (lost,) = balancer.request(granted.id).lost
        other = balancer.wait_for_request(lost.replaced_by)
        assert (other.nodes, other.replaces, other.confirmed) == (("n02",), granted.id, True)
