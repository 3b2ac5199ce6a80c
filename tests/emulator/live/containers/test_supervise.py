"""Who follows a fleet tells an engine that ends from a controller that somebody has stopped."""

from types import SimpleNamespace

import docker.errors
import pytest

from emulator.live.containers import fleet
from emulator.live.containers.docker_engine import FLEET_LABEL, ROLE_LABEL, FleetError


class Container:
    def __init__(self, engine, role):
        self.engine, self.role = engine, role
        self.status = "running"
        self.attrs = {"Labels": {FLEET_LABEL: "f", ROLE_LABEL: role}, "State": {"ExitCode": 0}}

    def reload(self):
        self.engine.answer()

    def end(self, code):
        self.status = "exited"
        self.attrs["State"]["ExitCode"] = code

    def start(self):
        self.engine.answer()
        self.engine.started.append(self.role)
        self.status = "running"


class Engine:
    """Three containers; `silent_for`: so many calls are not answered. `then`: what happens as the run goes on."""

    def __init__(self, *then):
        self.silent_for = 0
        self.started = []
        self.calls = 0
        self.all = [Container(self, role) for role in ("batch", "controller", "replayer")]
        self.containers = SimpleNamespace(list=self.list)
        self._then = list(then)

    def __getitem__(self, role):
        return next(each for each in self.all if each.role == role)

    def answer(self):
        self.calls += 1
        if self.silent_for:
            self.silent_for -= 1
            raise docker.errors.DockerException("no such socket")

    def list(self, **_):
        self.answer()
        return self.all

    def status(self):
        """Of the controller: what the run says, None when it says nothing."""
        if self["controller"].status != "running":
            return None
        if not self._then:
            self["controller"].end(0)
            return None
        self._then.pop(0)(self)
        return {"fault": None} if self["controller"].status == "running" else None


@pytest.fixture
def follow(monkeypatch):
    """Follow a fleet of this engine: its status, and what was told."""
    monkeypatch.setattr(fleet, "_LOOK_S", 0)
    monkeypatch.setattr(fleet, "_ALONE_US", 0)

    def run(engine):
        monkeypatch.setattr(fleet, "controller_of", lambda *_: engine)
        told = []
        return fleet.follow(engine, "f", lambda _: None, lambda: False, told.append), told

    return run


def _all_end(engine):
    for each in engine.all:
        each.end(137)


def _the_engine_ends(engine):
    """It stops its containers and is away for a while."""
    _all_end(engine)
    engine.silent_for = 5


def test_an_engine_that_was_started_again_gets_its_containers_started_the_controller_first(follow):
    engine = Engine(_the_engine_ends, lambda _: None)
    assert follow(engine) == (
        0,
        ["the engine was started again: so are the containers, and the run goes on"],
    )
    assert engine.started == ["controller", "batch", "replayer"]


def test_a_controller_that_somebody_has_killed_ends_the_following_and_nothing_is_started(follow):
    engine = Engine(lambda engine: engine["controller"].end(137))
    assert follow(engine) == (137, [])
    assert engine.started == []


def test_a_fleet_of_which_all_is_killed_beside_an_engine_that_lives_is_not_started_either(
    follow, monkeypatch
):
    monkeypatch.setattr(fleet, "_ENDS_US", 0)
    engine = Engine(_all_end)
    assert follow(engine) == (137, [])
    assert engine.started == []


def test_an_engine_that_stays_away_is_named(follow, monkeypatch):
    monkeypatch.setattr(fleet, "_PATIENCE_US", -1)
    with pytest.raises(FleetError, match="the engine does not answer any more: no such socket"):
        follow(Engine(_the_engine_ends))
