"""The Torque driver against fake commands that answer as real Torque does."""

from __future__ import annotations

import pytest

from balancer.drivers.base import UNKNOWN, NodeStatus, RefusedError, UnclearError, UnreachableError
from balancer.drivers.torque import TorqueDriver, TorqueSettings


def quoted(text: str) -> str:
    return "cat <<'END'\n" + text.rstrip("\n") + "\nEND"


def answering(reference, name: str) -> str:
    stdout, stderr, status = reference(name)
    out = quoted(stdout) if stdout else ":"
    err = "{ " + quoted(stderr) + "\n} >&2" if stderr else ":"
    return f"{out}\n{err}\nexit {status}"


@pytest.fixture
def driver():
    return TorqueDriver(TorqueSettings(timeout_s=60))


def listing(**notes: str) -> str:
    """`pbsnodes -x` lists these idle nodes; anything else is done."""
    nodes = "".join(
        f"<Node><name>{name}</name><state>free</state><note>{note}</note></Node>"
        for name, note in notes.items()
    )
    return f'[ "$1" = -x ] && echo "<Data>{nodes}</Data>"; exit 0'


def changes(programs):
    return [call for call in programs.calls if " -x" not in call]


def test_reclaiming_takes_all_nodes_in_one_call_with_a_note(programs, driver):
    programs.put("pbsnodes", listing(n01="", n02=""))
    driver.reclaim_nodes(["n01", "n02"])
    assert changes(programs) == ["pbsnodes -o -N lent to on-demand by the Balancer n01 n02"]


def test_restoring_clears_the_note_and_asks_for_a_scheduling_cycle(programs, driver):
    programs.put("pbsnodes", listing(n01="lent to on-demand by the Balancer"))
    programs.put("qmgr", "exit 0")
    driver.restore_nodes(["n01"])
    assert changes(programs) == ["pbsnodes -c -N n n01", "qmgr -c set server scheduling = True"]


SERVER = "Server: s\n    server_state = Active\n{}    scheduling = True\n"


@pytest.mark.parametrize(
    ("comment", "found", "then"),
    [
        ("", {}, "balancer claim 0badcafe-1"),
        ("    comment = down on Monday\n", {}, "down on Monday | balancer claim 0badcafe-1"),
        (
            "    comment = balancer claim 5f3a9c01-41\n",
            {"5f3a9c01": "balancer claim 5f3a9c01-41"},
            "balancer claim 0badcafe-42",
        ),
        (
            "    comment = down on Monday, see the page of the\n\t cluster | balancer claim 0badcafe-7\n",
            {"0badcafe": "down on Monday, see the page of the cluster | balancer claim 0badcafe-7"},
            "down on Monday, see the page of the cluster | balancer claim 0badcafe-8",
        ),
    ],
)
def test_the_servers_comment_says_whose_the_nodes_are(programs, driver, comment, found, then):
    programs.put("qstat", quoted(SERVER.format(comment)))
    programs.put("qmgr", "exit 0")
    assert (driver.keeps_claims, driver.read_claims()) == (True, found)
    driver.renew_claim("0badcafe", instead_of=("5f3a9c01",))
    assert programs.calls[-1] == f'qmgr -c set server comment = "{then}"'


def test_without_qstat_no_claim_is_kept_and_that_is_said(programs, driver, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RefusedError, match="there is no qstat, and so no claim in the server's comment"):
        driver.read_claims()


def test_a_comment_that_cannot_be_quoted_stays_as_it_is(programs, driver):
    programs.put("qstat", quoted(SERVER.format('    comment = it\'s "down"\n')))
    with pytest.raises(RefusedError, match="both kinds of quotes"):
        driver.renew_claim("0badcafe")


def test_nodes_with_different_notes_are_taken_in_a_call_each(programs, driver):
    programs.put("pbsnodes", listing(n01="fan loud", n02="", n03="fan loud"))
    driver.reclaim_nodes(["n01", "n02", "n03"], why="ledger 0badcafe, event 7-01234567")
    assert changes(programs) == [
        "pbsnodes -o -N fan loud | lent to on-demand by the Balancer (ledger 0badcafe, event 7-01234567) n01 n03",
        "pbsnodes -o -N lent to on-demand by the Balancer (ledger 0badcafe, event 7-01234567) n02",
    ]


def test_a_site_without_notes_and_cycles_gets_the_plain_commands(programs):
    programs.put("pbsnodes", "exit 0")
    driver = TorqueDriver(TorqueSettings(note="", ask_for_cycle=False))
    driver.reclaim_nodes(["n01"])
    driver.restore_nodes(["n01"])
    assert programs.calls == ["pbsnodes -o n01", "pbsnodes -c n01"]


@pytest.mark.parametrize("recording", ["pbsnodes-o-unknown.txt", "pbsnodes-o-as-user.txt"])
def test_exit_status_0_with_a_message_is_a_refusal(programs, reference, driver, recording):
    programs.put("pbsnodes", f'[ "$1" = -x ] && echo "<Data><Node><name>n01</name><state>free</state></Node></Data>" '
                 f"&& exit 0\n{answering(reference, recording)}")  # fmt: skip
    with pytest.raises(RefusedError, match="Error setting note attribute"):
        driver.reclaim_nodes(["n99"])


def test_a_server_that_is_down_is_unreachable_for_every_command(programs, reference, driver):
    programs.put("pbsnodes", answering(reference, "server-down-pbsnodes-o.txt"))
    for call in (
        lambda: driver.reclaim_nodes(["n01"]),
        lambda: driver.restore_nodes(["n01"]),
        lambda: driver.get_status_of_nodes(["n01"]),
        driver.get_status_of_all_nodes,
    ):
        with pytest.raises(UnreachableError, match="Connection refused"):
            call()


def test_a_missing_program_is_unreachable(driver, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnreachableError, match="pbsnodes cannot be started"):
        driver.get_status_of_all_nodes()


def test_a_hanging_command_is_killed_and_its_effect_unclear(programs):
    programs.put("pbsnodes", "exec sleep 60")
    with pytest.raises(UnclearError, match=r"did not end within 0\.2 s"):
        TorqueDriver(TorqueSettings(timeout_s=0.2)).reclaim_nodes(["n01"])


def test_the_state_of_the_whole_cluster_is_one_call(programs, reference, driver):
    programs.put("pbsnodes", answering(reference, "pbsnodes-x-busy.txt"))
    states = {node: status.state for node, status in driver.get_status_of_all_nodes().items()}
    assert states == {
        "n01": "busy",
        "n02": "busy",
        "n03": "busy",
        "n04": "idle",
        "n05": "idle",
        "n06": "idle",
    }
    assert programs.calls == ["pbsnodes -x"]


def test_an_unknown_name_does_not_spoil_the_states_of_the_others(programs, reference, driver):
    programs.put(
        "pbsnodes",
        f'if [ "$2" ]; then\n{answering(reference, "pbsnodes-x-unknown.txt")}\nfi\n'
        + answering(reference, "pbsnodes-x-idle.txt"),
    )
    assert driver.get_status_of_nodes(["n05", "n99"]) == {"n05": NodeStatus("idle"), "n99": UNKNOWN}


def test_half_an_answer_is_unclear(programs, reference, driver):
    text = reference("pbsnodes-x-idle.txt")[0]
    programs.put("pbsnodes", quoted(text[: len(text) // 2]))
    with pytest.raises(UnclearError, match="not XML"):
        driver.get_status_of_all_nodes()
