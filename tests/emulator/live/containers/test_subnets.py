"""The addresses of a fleet's network are nobody else's."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from emulator.live.containers.docker_engine import FleetError
from emulator.live.containers.fleet import automatic_part, choose_subnet, host_routes

TABLE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
br-5f3a\t00004D0A\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0
"""


def network(text):
    return IPv4Network(text)


def test_the_routes_of_the_machine_are_those_of_the_kernels_table(tmp_path):
    (tmp_path / "route").write_text(TABLE)
    assert host_routes(tmp_path / "route") == [("br-5f3a", network("10.77.0.0/22"))]
    assert host_routes(tmp_path / "none") == []


def test_the_bridge_that_a_dead_engine_left_behind_is_avoided():
    routes = [("br-5f3a", network("10.77.0.0/22"))]
    assert choose_subnet(8, None, [], []) == network("10.77.0.0/22")
    assert choose_subnet(8, None, [], routes) == network("10.78.0.0/22")
    assert choose_subnet(8, None, [network("10.78.0.0/16")], routes) == network("10.79.0.0/22")


def test_a_wider_route_of_the_site_is_no_obstacle():
    assert choose_subnet(8, None, [], [("eth0", network("10.0.0.0/8"))]) == network("10.77.0.0/22")


def test_a_subnet_that_was_asked_for_and_is_not_free_is_named_with_what_has_it():
    with pytest.raises(
        FleetError, match=r"no free network among 10\.77\.0\.0/22; br-5f3a .* `ip link delete`"
    ):
        choose_subnet(8, "10.77.0.0/22", [], [("br-5f3a", network("10.77.0.0/22"))])
    with pytest.raises(FleetError, match=r"no free network among 10\.77\.0\.0/22: give another --subnet$"):
        choose_subnet(8, "10.77.0.0/22", [network("10.0.0.0/8")], [])


def test_addresses_that_an_engine_chooses_are_none_of_those_that_nodes_have():
    subnet = choose_subnet(372 + 16, None, [], [])
    fixed = list(subnet.hosts())[: 372 + 16]
    assert not any(address in automatic_part(subnet) for address in fixed)
    assert automatic_part(subnet) == network("10.77.3.0/24")


def test_more_nodes_get_a_wider_subnet():
    assert choose_subnet(766, None, [], []) == network("10.77.0.0/22")
    assert choose_subnet(767, None, [], []) == network("10.77.0.0/21")


def test_a_subnet_that_is_too_small_or_none_is_refused():
    with pytest.raises(
        FleetError, match=r"--subnet must be like 10\.77\.0\.0/22: 10\.77\.0\.1/22 has host bits set"
    ):
        choose_subnet(8, "10.77.0.1/22", [], [])
    with pytest.raises(FleetError, match=r"10\.5\.0\.0/28 has no room for 24 addresses"):
        choose_subnet(24, "10.5.0.0/28", [], [])
