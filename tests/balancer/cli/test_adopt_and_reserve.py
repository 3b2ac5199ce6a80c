"""`balancer adopt` and `balancer reserve --every`, against a service in this process."""

from __future__ import annotations

import re

import pytest

import service_kit
from balancer.client import Balancer, Refused
from command_line import balance


@pytest.fixture
def asked(served, tmp_path):
    """`asked(command, ...)`: exit status and output, of a service on nodes that ledger 5f3a9c01 claims, or nobody."""

    def make(*, claimed):
        batch = service_kit.ClaimingBatch([f"n{number:02d}" for number in range(1, 5)])
        if claimed:
            batch.claims["5f3a9c01"] = "1"
        w, url = served(nodes=4, reserve=1, has_cloud=False, driver=lambda *_: batch)
        w.settled()

        def run(*arguments, said=""):
            ended = balance(*arguments, "--url", url, input=said)
            # Without what the service logs meanwhile.
            return ended.exit_code, "".join(x for x in ended.output.splitlines(True) if "\x1b[" not in x)

        return w, batch, run

    return make


def test_adopt_says_what_it_means_asks_and_then_nodes_move(asked):
    w, batch, run = asked(claimed=True)
    status, said = run("status")
    assert re.search(
        r"^claimed +by another Balancer: nothing is moved, see `balancer adopt`$", said, re.MULTILINE
    )
    status, said = run("adopt", "--reason", "its disk is dead", said="n\n")
    assert (status, batch.claims.keys()) == (2, {"5f3a9c01"})
    assert said.startswith("ledger 5f3a9c01 claims the nodes")
    assert "both give the same node to two owners" in said
    status, said = run("adopt", "--reason", "its disk is dead", said="y\n")
    assert (status, batch.claims.keys()) == (0, {w.engine.ledger.ledger_id})
    assert [*w.settled().values()].count("OD_RESERVE") == 1
    assert run("adopt", "--reason", "again", "--yes") == (
        2,
        "balancer: no other Balancer claims the nodes: there is nothing to adopt\n",
    )


def test_adopt_with_yes_does_not_ask(asked):
    w, batch, run = asked(claimed=True)
    assert run("adopt", "--reason", "its disk is dead", "--yes")[0] == 0
    assert batch.claims.keys() == {w.engine.ledger.ledger_id}


def test_a_state_that_no_node_can_have_is_a_wrong_call(asked):
    _, _, run = asked(claimed=False)
    status, said = run("nodes", "--state", "ALLOCATED")
    assert (status, said.startswith("balancer: --state ALLOCATED: a node is OD_RESERVE, ")) == (2, True)
    assert run("node", "n02", "set", "quarantined", "--reason", "it hangs", "--yes")[0] == 0
    assert "n02" in run("nodes", "--state", "HELD")[1]
    assert "n02" not in run("nodes", "--state", "OA_IDLE")[1]


def test_a_quarantined_node_gets_the_reason_that_is_given_last(asked):
    w, _, run = asked(claimed=False)
    for reason in ("it hangs", "its disk is dead"):
        assert run("node", "n02", "set", "quarantined", "--reason", reason, "--yes")[0] == 0
        assert w.engine.quarantined()["n02"].endswith(f": {reason}")


def test_a_node_that_is_set_halfway_says_where_it_stands(asked, monkeypatch):
    def refused(*_, **__):
        raise Refused(409, "balancer.conflict", "another call has the node")

    monkeypatch.setattr(Balancer, "adopt_nodes", refused)
    _, _, run = asked(claimed=False)
    to_batch = ("node", "n02", "set", "on-demand", "--reason", "it is well")
    assert run(*to_batch[:3], "quarantined", *to_batch[4:], "--yes")[0] == 0
    status, said = run(*to_batch, "--yes")
    assert (status, said.splitlines()[0]) == (2, "balancer: another call has the node (balancer.conflict)")
    assert "n02 is quarantined now; give the command again" in said


def test_a_reserve_that_comes_again_is_made_listed_and_withdrawn(asked):
    _, _, run = asked(claimed=False)
    every = ("--every", "Mon-Fri 20:00-06:00", "--zone", "Europe/Berlin", "--except", "1969-12-31")
    status, said = run("reserve", "--nodes", "2", *every)
    row = said.splitlines()[1]
    assert (status, row.split()[1:4]) == (0, ["2", "1970-01-01T19:00:00Z", "1970-01-02T05:00:00Z"])
    assert row.endswith("Mon-Fri 20:00-06:00 Europe/Berlin, not on 1969-12-31")
    assert run("reserves") == (0, said)
    assert run("withdraw", row.split()[0]) == (0, said)
    assert run("reserves")[1].splitlines()[1:] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("3", "--nodes", "3", "--in-s", "60"), "say how many nodes, as COUNT or with --nodes"),
        (("--in-s", "60"), "say how many nodes, as COUNT or with --nodes"),
        (("3",), "say when: --in-s, or --every"),
        (("3", "--in-s", "60", "--zone", "UTC"), "say when: --in-s, or --every"),
        (("3", "--every", "at night"), "every: 'at night' is no window"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_status_2(asked, arguments, said):
    _, _, run = asked(claimed=False)
    status, output = run("reserve", *arguments)
    assert (status, output.count("\n"), said in output) == (2, 1, True)
