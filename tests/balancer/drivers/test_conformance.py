"""Every driver and every fake through the one suite of conformance.py (T9)."""

from __future__ import annotations

import pytest

from balancer.clock import wall_us
from balancer.drivers.base import UnreachableError

SYSTEMS = ("torque", "openpbs", "slurm")


@pytest.fixture
def site(request, kit, tmp_path, monkeypatch):
    return kit.Site(request.param, tmp_path, monkeypatch)


every_system = pytest.mark.parametrize("site", SYSTEMS, indirect=True)


@pytest.mark.slow
@every_system
def test_a_driver_lends_and_gives_back(site, kit):
    kit.contract(site, "free", "other")


def test_the_batch_system_in_memory_lends_and_gives_back(kit, memory_site):
    kit.contract(memory_site, "free", "other")


@pytest.mark.sample(8)
@every_system
@pytest.mark.parametrize("kind", ["read", "jobs"])
def test_a_reading_under_a_fault_is_right_or_unknown(site, kit, kind, read_fault):
    site.change("other", jobs=["18" if site.system == "slurm" else "18.server"])
    driver = site.fault(kind, read_fault)
    start_us = wall_us()
    for read in (
        lambda: driver.get_status_of_nodes(["free", "busy", "lent", "draining", "down", "other"]),
        driver.get_status_of_all_nodes,
    ):
        kit.check_reading(site, kit.fails_well(read) or {}, stale=read_fault == "stale")
    if read_fault.startswith("hang"):
        assert wall_us() - start_us < 30_000_000
    site.fault(kind, "")
    reading = site.driver.get_status_of_all_nodes()
    assert {node: kit.name_of(status) for node, status in reading.items()} == {
        node: site.truth(node) for node in site.nodes()
    }


@pytest.mark.sample(8)
@every_system
@pytest.mark.parametrize("command", ["reclaim", "restore"])
def test_a_command_under_a_fault_does_all_or_nothing_and_may_be_repeated(site, kit, command, change_fault):
    node, goal = ("free", "offline") if command == "reclaim" else ("lent", "idle")
    before = {each: site.truth(each) for each in site.nodes()}
    driver = site.fault("change", change_fault)
    kit.fails_well(lambda: getattr(driver, f"{command}_nodes")([node]))
    after = {each: site.truth(each) for each in site.nodes()}
    assert after in (before, before | {node: goal})
    # The state that is read back is the outcome, whatever the command said.
    assert kit.name_of(site.driver.get_status_of_nodes([node])[node]) == after[node]
    site.fault("change", "")
    for _ in range(2):
        getattr(site.driver, f"{command}_nodes")([node])
        assert {each: site.truth(each) for each in site.nodes()} == before | {node: goal}


@every_system
@pytest.mark.sample(4)
@pytest.mark.parametrize("command", ["reclaim", "restore"])
@pytest.mark.parametrize("kind", ["read", "kick"])
def test_a_command_whose_helpers_hang_ends_all_the_same(site, kit, command, kind):
    driver = site.fault(kind, "hang")
    start_us = wall_us()
    kit.fails_well(lambda: getattr(driver, f"{command}_nodes")(["free", "lent"]))
    assert wall_us() - start_us < 30_000_000


@every_system
def test_a_server_that_is_down_is_unreachable(site):
    for kind, call in (
        ("read", lambda driver: driver.get_status_of_all_nodes()),
        ("change", lambda driver: driver.reclaim_nodes(["free"])),
        ("change", lambda driver: driver.restore_nodes(["lent"])),
    ):
        with pytest.raises(UnreachableError):
            call(site.fault(kind, "restarted"))


@every_system
def test_a_forgotten_mark_is_seen(site):
    site.change("lent", marked=False, reason="")
    status = site.driver.get_status_of_nodes(["lent"])["lent"]
    assert (status.state, status.marked) == ("idle", False)


@every_system
def test_a_server_that_came_back_older_is_believed_as_it_is(site, kit):
    site.driver.reclaim_nodes(["free"])
    site.state["nodes"] = site.nodes() | {"free": site.state["snapshot"]["free"]}  # up to 5 s older
    site._save()
    assert kit.name_of(site.driver.get_status_of_nodes(["free"])["free"]) == "idle"
    site.driver.reclaim_nodes(["free"])
    assert site.driver.get_status_of_nodes(["free"])["free"].is_handed_over
