"""Who of a fleet may start, and for whom everybody waits."""

import pytest

from balancer.clock import US
from emulator.live.containers import startup
from emulator.live.containers.control import NotYet
from emulator.live.containers.startup import ContainerBatch, StartupCoordinator
from emulator.live.roles import RunSettings
from emulator.live.run_files import RunFiles, State
from emulator.live.run_requirements import requirements_of
from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping


class Batch:
    """A batch server that waits for nodes."""

    def __init__(self):
        self.nodes, self.missing, self.asked = [], [], []

    def __call__(self, address, message, timeout_s):
        self.asked.append(message["do"])
        if self.nodes is None:
            raise ConnectionRefusedError("nobody there")
        if message["do"] == "open":
            self.missing = message["missing"]
            self.nodes = sorted({*self.nodes, *self.missing})
        is_open = len(self.nodes) == 3
        return {
            "nodes": {"nodes": self.nodes, "expected": 3, "open": is_open, "missing": self.missing},
            "state": {"all_nodes_up": is_open and not self.missing},
            "open": {},
        }[message["do"]]


@pytest.fixture
def batch(monkeypatch):
    made = Batch()
    monkeypatch.setattr(startup, "request", made)
    return made


@pytest.fixture
def clock(monkeypatch):
    """The wall clock, in seconds, as a list of one."""
    now_s = [0.0]
    monkeypatch.setattr(startup, "wall_us", lambda: round(now_s[0] * US))
    return now_s


@pytest.fixture
def fleet(tmp_path, batch, clock):
    scenario = from_mapping({"nodes": 3, "workload": {"generate": [{"daily_batch": {"days": 0.01}}]}})
    state = State(run="1", scenario={}, nodes=3)
    prepared = prepare(scenario)
    told = RunSettings(scenario, requirements_of(scenario, prepared), prepared.jobs, comes_back=True)
    server = ContainerBatch(RunFiles(tmp_path), state, batch_decides=False)
    return StartupCoordinator(RunFiles(tmp_path), state, told, server), state


def test_everybody_waits_for_the_nodes_that_have_not_come_and_is_told_which(fleet, batch):
    made, state = fleet
    batch.nodes = ["n001", "n003"]
    with pytest.raises(NotYet, match="2 of 3 nodes have registered; n002 not yet"):
        made.start_settings("replayer", None)
    assert made.waits_for == ["2 of 3 nodes have registered; n002 not yet"]
    batch.nodes = ["n001", "n002", "n003"]
    assert made.start_settings("replayer", None)["config"]["resume"]
    assert (made.waits_for, state.node_names) == ([], ["n001", "n002", "n003"])
    for name in ("n001", "n002..n003"):
        made.start_settings("node", name)
    assert made.parties == {"batch", "replayer", "n001", "agent of n002 to n003"}


def test_a_node_that_does_not_come_is_named_once_nobody_has_come_for_a_while(
    fleet, batch, clock, monkeypatch
):
    made, _ = fleet
    monkeypatch.setenv("FLEET_START_S", "10")
    batch.nodes = ["n001"]
    clock[0] = 11
    assert made.lost_at_start() == ""  # it has just come
    clock[0] = 20
    assert made.lost_at_start() == ""
    batch.nodes = ["n001", "n003"]
    clock[0] = 22
    assert made.lost_at_start() == ""
    clock[0] = 33
    assert made.lost_at_start() == "2 of 3 nodes have registered; n002 not yet, and no more for 10 s"


def test_a_batch_server_that_does_not_come_is_named(fleet, batch, clock):
    made, _ = fleet
    batch.nodes = None
    clock[0] = 121
    assert made.lost_at_start() == (
        "the batch server does not answer: nobody there; no node has come for 120 s"
    )


def test_a_run_may_begin_without_the_nodes_that_have_not_come(fleet, batch):
    made, state = fleet
    batch.nodes = ["n001", "n003"]
    assert made.go_on_without_lost() == ["n002"]
    assert made.start_settings("replayer", None)
    assert state.node_names == ["n001", "n002", "n003"]


def test_nodes_with_names_of_their_own_are_counted():
    assert startup._story(["alpha"], 3) == "1 of 3 nodes have registered"
    assert startup._story([], 3) == "0 of 3 nodes have registered"
