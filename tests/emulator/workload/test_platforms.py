"""`nodes: FILE`: AccaSim's system files and Batsim's platforms, where all nodes are of one kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from emulator.runs.platforms import Platform, load_platform
from emulator.runs.preparation import prepare
from emulator.runs.scenario import ScenarioError, load
from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from pathlib import Path


def system_of(**keys: Any) -> str:
    """A system file of AccaSim: 120 nodes of two cores, but for `keys`."""
    return json.dumps({"groups": {"g0": {"core": 2, "mem": 4096}}, "resources": {"g0": 120}, **keys})


def platform_of(*elements: str) -> str:
    """A platform of Batsim: these elements in a zone."""
    inside = "\n".join(elements)
    return f"<?xml version='1.0'?>\n<platform version='4.1'>\n<zone id='z'>\n{inside}\n</zone>\n</platform>\n"


MASTER = "<host id='master_host' speed='5Mf'/>"
CLUSTER = "<cluster id='c' prefix='a' suffix='' radical='0-3,8' speed='1Gf'/>"


def read(tmp_path: Path, text: str) -> Platform:
    path = tmp_path / "machine"
    path.write_text(text)
    return load_platform(path)


def test_a_system_of_accasim_has_nodes_of_cores(tmp_path: Path) -> None:
    assert read(tmp_path, system_of()) == Platform(120, 2)


def test_groups_that_are_alike_are_added_and_one_without_nodes_does_not_count(tmp_path: Path) -> None:
    groups = {"a": {"core": 8, "mem": 9}, "b": {"core": 8, "mem": 9}, "c": {"core": 64}}
    assert read(tmp_path, system_of(groups=groups, resources={"a": 3, "b": 4, "c": 0})) == Platform(7, 8)


def test_a_processor_of_the_log_may_be_several_cores(tmp_path: Path) -> None:
    assert read(tmp_path, system_of(equivalence={"processor": {"core": 2}})) == Platform(120, 1)


def test_a_platform_of_batsim_has_hosts_and_clusters_without_the_master(tmp_path: Path) -> None:
    hosts = [f"<host id='h{k}' speed='1000Mf' core='16'/>" for k in range(3)]
    assert read(tmp_path, platform_of(MASTER, CLUSTER, *hosts)) == Platform(8)


def test_hosts_with_a_role_do_not_compute_nor_does_a_cluster_of_masters(tmp_path: Path) -> None:
    cluster = "<cluster id='m' prefix='master_host' suffix='' radical='0-0' speed='2f'>"
    cluster += "<prop id='role' value='master'/></cluster>"
    disk = "<host id='d' speed='3f'><prop id='role' value='storage'/></host>"
    node = "<host id='n' speed='100Mf, 50Mf'><prop id='role' value='compute_node'/></host>"
    assert read(tmp_path, platform_of(cluster, disk, node)) == Platform(1)


def test_a_document_type_above_and_older_words_are_understood(tmp_path: Path) -> None:
    text = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM 'http://simgrid.org/simgrid.dtd'>\n"
    text += "<platform version='3'><AS id='0' routing='Full'>"
    text += "<host id='a' power='1E9'/><host id='b' power='1e9'/></AS></platform>"
    assert read(tmp_path, text) == Platform(2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            system_of(groups={"a": {"core": 2}, "b": {"core": 4}}, resources={"a": 1, "b": 1}),
            "a node of group a is {'core': 2}, a node of group b is {'core': 4}: schedulers of whole nodes",
        ),
        (system_of(resources={"g0": 0}), "there is no node to compute on"),
        (system_of(resources={"g1": 3}), "resources.g1: `groups` does not say"),
        (system_of(resources={"g0": 2.5}), "resources.g0 must be a whole number from 0 on, not 2.5"),
        (system_of(resources=[3]), "`resources` must be an object"),
        (system_of(groups={"g0": {"mem": 3}}), "groups.g0.core must be a whole number from 1 on, not None"),
        (system_of(equivalence={"processor": {"core": 4}}), "2 cores are not processors of 4"),
        (system_of()[:-1], "not valid JSON"),
        (
            platform_of("<host id='a' speed='76.3Mf'/>", "<host id='b' speed='48.5Mf'/>"),
            "host 'a' is speed 7.63e\\+07, host 'b' is speed 4.85e\\+07: schedulers of whole nodes",
        ),
        (platform_of(MASTER), "there is no node to compute on"),
        (platform_of("<host id='a'/>"), "host 'a': speed must be as in 1Gf"),
        (
            platform_of("<cluster id='c' radical='9-0' speed='1f'/>"),
            "cluster 'c': radical must be as in 0-511",
        ),
        (platform_of("<include file='more.xml'/>"), "files that it includes are not read"),
        (platform_of("<host id='a' speed='1f'>"), "not valid XML: mismatched tag: line 5"),
        ("n001\nn002\n", "not a machine in a known format"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        read(tmp_path, text)


def scenario_of(folder: Path, machine: str, **workload: Any) -> Path:
    """A scenario of one job on four processors, and the machine beside it."""
    (folder / "log.swf").write_text("1 0 0 60 4 -1 -1 4 60 -1 1 -1 -1 -1 3 7 -1 -1\n")
    (folder / "machine").write_text(machine)
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({"nodes": "machine", "workload": {"trace": "log.swf", **workload}}))
    return path


def test_a_scenario_names_the_file_and_keeps_what_is_in_it(tmp_path: Path) -> None:
    found = load(scenario_of(tmp_path, system_of()))
    prepared = prepare(found)
    assert (prepared.nodes, prepared.jobs.nodes.tolist()) == (120, [2])
    assert (found.as_json()["nodes"], found.as_json()["workload"]["procs_per_node"]) == (120, 2)
    assert prepare(load(scenario_of(tmp_path, system_of(), procs_per_node=4))).jobs.nodes.tolist() == [1]
    prepared = prepare(load(scenario_of(tmp_path, platform_of(MASTER, CLUSTER))))
    assert (prepared.nodes, prepared.jobs.nodes.tolist()) == (5, [4])


def test_a_number_in_quotes_is_a_number_and_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = scenario_of(tmp_path, "")
    assert load(path, ("nodes='16'",)).nodes == 16
    with pytest.raises(
        ScenarioError, match=r"scenario.yaml: nodes: 'nowhere.xml' is neither a number nor a file"
    ):
        load(path, ("nodes=nowhere.xml",))
    with pytest.raises(
        ScenarioError, match=r"scenario.yaml: nodes: .*machine: not a machine in a known format"
    ):
        load(path)
