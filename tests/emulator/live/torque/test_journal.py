"""A batch server that is started again knows all its jobs; one without nodes learns them."""

from __future__ import annotations

import json
import threading

import pytest

from balancer.clock import US
from emulator.live.settings import SettingsError
from emulator.live.torque.config import ServerConfig
from emulator.live.torque.journal import Journal, is_change
from emulator.live.torque.protocol import connect, request
from emulator.live.torque.server import TorqueServer
from manual_clock import ManualClock


class Life:
    """One life of a server, on a clock that is moved by hand; it can be killed."""

    def __init__(self, home, clock, **more):
        settings = {"home": home, "expect_nodes": 2, "keep_jobs": True, "node_down_after_s": 100_000} | more
        self._connections = []
        self.server = TorqueServer(ServerConfig(**settings), clock)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()

    def say(self, *argv, user="alice", text=None):
        connection = connect(self.server.address)
        connection.send({"do": "command", "argv": list(argv), "user": user, "cwd": "/", "env": {}})
        answer = json.loads(connection._file.readline())
        if answer[0] == "read":
            connection.send({"text": text})
            answer = json.loads(connection._file.readline())
        connection._file.close()
        connection.close()
        return tuple(answer)

    def agent(self, name, jobs=()):
        """An agent that has registered; its connection."""
        connection = connect(self.server.address)
        facts = {"address": f"10.0.0.{name[1:]}", "cores": 16, "memory_kib": 1024}
        connection.send({"do": "register", "nodes": [name], "np": 1, "jobs": list(jobs), "facts": facts})
        self._connections.append(connection)
        return connection

    def export(self):
        return request(self.server.address, {"do": "export"})

    def end(self):
        self.server.stop()
        self._thread.join(120)
        for connection in self._connections:
            connection._file.close()
            connection.close()


@pytest.fixture
def home(tmp_path):
    return tmp_path / "torque"


def test_nodes_are_learned_in_the_order_of_their_names_and_remembered(home):
    clock = ManualClock()
    life = Life(home, clock)
    assert life.say("pbsnodes", "-l", "all") == (
        1,
        "",
        "pbsnodes: 0 of 2 nodes have registered; the server waits for the others\n",
    )
    agents = [life.agent("n10"), life.agent("n2")]
    answers = [agent.receive() for agent in agents]
    assert [answer["do"] for answer in answers] == ["registered", "registered"]
    assert life.export()["facts"] == {
        "n2": {"address": "10.0.0.2", "cores": 16, "memory_kib": 1024},
        "n10": {"address": "10.0.0.10", "cores": 16, "memory_kib": 1024},
    }
    assert life.export()["nodes"] == ["n2", "n10"]
    assert "ncpus=16," in life.say("pbsnodes", "n2")[1]
    life.end()
    again = Life(home, clock)
    assert again.export()["nodes"] == ["n2", "n10"]
    again.end()


def test_a_node_that_is_counted_in_without_having_come_is_down_until_it_does(home):
    life = Life(home, ManualClock())
    agents = [life.agent("n1")]
    assert request(life.server.address, {"do": "open", "missing": ["n2"]}) == {}
    assert agents[0].receive()["do"] == "registered"
    known = {"nodes": ["n1", "n2"], "expected": 2, "open": True, "missing": ["n2"]}
    assert request(life.server.address, {"do": "nodes"}) == known
    assert life.say("pbsnodes", "-l")[1].split() == ["n2", "down"]
    agents.append(life.agent("n2"))
    assert agents[1].receive()["do"] == "registered"
    assert life.say("pbsnodes", "-l")[1] == ""
    life.end()


def test_a_server_that_is_started_again_knows_jobs_that_run_wait_and_are_over(home):
    clock = ManualClock(5 * US)
    life = Life(home, clock)
    agents = [life.agent("n1"), life.agent("n2")]
    for agent in agents:
        assert agent.receive()["do"] == "registered"
    jobs = [
        life.say("qsub", "-l", f"nodes={nodes},walltime=100", text=f"sleep {nodes}\n")[1].strip()
        for nodes in (1, 1, 2)
    ]
    starts = {agent.receive()["job"]: agent for agent in agents}
    assert sorted(starts) == [0, 1]
    ended = {"do": "ended", "job": 0, "run": 1, "exit_status": 0, "session": 7, "requeue": False}
    starts[0].send(ended)
    assert starts[0].receive()["do"] == "noted"
    assert life.say("pbsnodes", "-o", "n2", user="root")[0] == 0
    before = life.export()
    life.end()

    again = Life(home, clock)
    after = again.export()
    assert after["jobs"] == before["jobs"]
    assert after["offline"] == before["offline"]
    assert [again.say("qstat", job)[0] for job in jobs] == [0, 0, 0]
    number = again.say("qsub", text="sleep 1\n")[1].split(".")[0]
    assert number == "3"

    # The agent of the running job comes back with it, and its end counts.
    running = "n1" if starts[1] is agents[0] else "n2"
    agent = again.agent(running, jobs=[[1, 1]])
    answer = agent.receive()
    assert (answer["do"], answer["start"], answer["drop"]) == ("registered", [], [])
    agent.send(ended | {"job": 1})
    assert agent.receive() == {"do": "noted", "job": 1, "run": 1}
    assert again.export()["jobs"][1]["state"] == "ENDED"
    again.end()

    third = Life(home, clock)
    assert [job["state"] for job in third.export()["jobs"]][:2] == ["ENDED", "ENDED"]
    third.end()


def test_a_line_that_was_being_written_is_left_out_and_a_broken_file_is_named(tmp_path):
    path = tmp_path / "journal"
    path.write_text('[1,"begin",0,{}]\n[2,"du')
    journal = Journal(path)
    assert journal.past == [(1, "begin", [0, {}])]
    journal.write(3, "due")
    journal.close()
    assert path.read_text() == '[1,"begin",0,{}]\n[3,"due"]\n'
    path.write_text("nonsense\n")
    with pytest.raises(SettingsError, match=r"journal:1: not a line of a journal: .*; delete the file"):
        Journal(path)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("qsub x", True),
        ("qdel 1", True),
        ("qstat -f", False),
        ("pbsnodes -x", False),
        ("pbsnodes -o n1", True),
    ],
)
def test_only_changes_are_remembered(words, changes):
    assert is_change(tuple(words.split())) is changes
