"""What the controller of a Swarm has said is told, also where the Swarm removes a container while it is read."""

import docker.errors

from emulator.live.containers import swarm


class Engine:
    """It lists containers, newest first; those without lines are removed before they can be read."""

    def __init__(self, **lines):
        self._lines = lines
        self.api = self

    def containers(self, *, all, filters):  # noqa: A002 the engine's own name
        assert all
        assert filters == {"label": "com.docker.swarm.service.name=fleet_controller"}
        return [{"Id": name} for name in self._lines]

    def logs(self, container):
        if self._lines[container] is None:
            raise docker.errors.NotFound("no such container")
        return self._lines[container]


def test_a_first_try_that_is_gone_when_it_is_asked_is_passed_over():
    engine = Engine(second=None, first=b"begun\n0 s of 4 h\n")
    assert swarm._controller_lines(engine, "fleet") == ["begun", "0 s of 4 h"]


def test_where_all_are_gone_nothing_is_said_yet():
    assert swarm._controller_lines(Engine(first=None), "fleet") == []
