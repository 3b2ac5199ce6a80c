"""What Torque prints is read rightly or not at all."""

from __future__ import annotations

import re

import pytest

from balancer.drivers.base import NodeStatus, UnclearError
from balancer.drivers.torque_xml import parse_nodes

IDLE = NodeStatus("idle")
BUSY_ANSWER = {
    "n01": NodeStatus("busy", ("1.server",)),
    "n02": NodeStatus("busy", ("1.server",)),
    "n03": NodeStatus("busy", ("2.server",)),
    "n04": IDLE,
    "n05": IDLE,
    "n06": IDLE,
}


def node(inside: str, name: str = "n01") -> str:
    return f"<Data><Node><name>{name}</name>{inside}</Node></Data>"


def state_of(states: str, jobs: str = "") -> str:
    jobs_element = f"<jobs>{jobs}</jobs>" if jobs else ""
    return parse_nodes(node(f"<state>{states}</state>{jobs_element}"))["n01"].state


def test_a_busy_cluster_is_read_as_torque_printed_it(reference):
    assert parse_nodes(reference("pbsnodes-x-busy.txt")[0]) == BUSY_ANSWER


def test_an_idle_cluster_is_read_as_torque_printed_it(reference):
    assert parse_nodes(reference("pbsnodes-x-idle.txt")[0]) == {f"n0{i}": IDLE for i in range(1, 7)}


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        ("pbsnodes-o-busy-after.txt", {"n02": NodeStatus("offline", ("1.server",), marked=True)}),
        ("pbsnodes-o-with-note.txt", {"n06": NodeStatus("offline", (), "to on-demand", marked=True)}),
    ],
)
def test_an_offline_node_keeps_its_job_and_its_note(reference, recording, expected):
    xml = re.search(r"<Data>.*</Data>", reference(recording)[0])
    assert xml is not None
    assert parse_nodes(xml[0]) == expected


def test_every_prefix_of_an_answer_is_the_right_answer_or_unclear(reference):
    text = reference("pbsnodes-x-busy.txt")[0]
    whole = 0
    for length in range(len(text) + 1):
        try:
            assert parse_nodes(text[:length]) == BUSY_ANSWER
            whole += 1
        except UnclearError:
            continue
    assert whole == 2  # with and without the line's end


def test_an_answer_with_any_one_element_removed_never_makes_a_busy_node_idle(reference):
    text = reference("pbsnodes-x-busy.txt")[0]
    for match in re.finditer(r"<(\w+)>[^<]*</\1>", text):
        try:
            nodes = parse_nodes(text[: match.start()] + text[match.end() :])
        except UnclearError:
            continue
        # A node that loses its <jobs> still says job-exclusive; a partly used one says free, and that is all.
        for name in ("n01", "n02"):
            assert nodes[name].state in ("busy", "unknown")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "Warning: certificate expires\n<Data></Data>",
        "<Data></Data>",
        "<Data><Node><state>free</state></Node></Data>",
        "<Data><Node><name>n01</name></Node><Job/></Data>",
        "<Nodes/>",
        node("<state>free</state>") * 2,
        node("<state>free</state></Node><Node><name>n01</name><state>down</state>"),
        node("<state>free</state><state>down</state>"),
        node("<state>free</state><jobs>0-1</jobs>"),
        node("<state>free</state><jobs>0-1/</jobs>"),
        node("<state>free</state><jobs>x/1.server</jobs>"),
        '<!DOCTYPE Data [<!ENTITY a "b">]>' + node("<state>&a;</state>"),
    ],
)
def test_an_answer_that_cannot_be_right_is_unclear(text):
    with pytest.raises(UnclearError):
        parse_nodes(text)


@pytest.mark.parametrize(
    ("states", "jobs", "expected"),
    [
        ("free", "", "idle"),
        ("free", "0/2.server", "busy"),
        ("job-exclusive", "0-1/1.server", "busy"),
        ("busy", "", "busy"),
        ("offline", "", "offline"),
        ("offline,job-exclusive", "0-1/1.server", "offline"),
        ("down", "", "down"),
        ("down,job-exclusive", "0-1/1.server", "down"),
        ("down,offline,MOM-list-not-sent", "", "down"),
        ("MOM-list-not-sent", "", "unknown"),
        ("offline,state-unknown", "", "unknown"),
        ("free,offline", "", "unknown"),
        ("brand-new-state", "", "unknown"),
        ("", "", "unknown"),
    ],
)
def test_a_nodes_state_is_told_from_the_comma_list(states, jobs, expected):
    assert state_of(states, jobs) == expected


def test_a_node_that_is_down_may_carry_the_offline_mark_too():
    assert parse_nodes(node("<state>down,offline</state>"))["n01"] == NodeStatus("down", marked=True)


def test_a_sleeping_node_is_not_idle():
    assert parse_nodes(node("<state>free</state><power_state>Standby</power_state>"))["n01"].state == "down"


def test_a_node_with_an_empty_job_list_is_unknown():
    assert parse_nodes(node("<state>free</state><jobs></jobs>"))["n01"].state == "unknown"


def test_the_slots_of_a_job_may_be_a_list():
    jobs = parse_nodes(node("<state>free</state><jobs>0,2-3/7.server,4/8.server, 5/8.server</jobs>"))[
        "n01"
    ].jobs
    assert jobs == ("7.server", "8.server")
