"""A batch server in this process, on a clock that is moved by hand, with agents that do as the test says."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from balancer.clock import US, ManualClock
from emulator.live.torque import commands
from emulator.live.torque.config import ServerConfig
from emulator.live.torque.install import install_commands
from emulator.live.torque.server import TorqueServer

REFERENCE = Path(__file__).parents[4] / "../shared/reference/torque"
HOME = "/home/alice"
TORQUE = "/opt/torque-6.1.3.h5"  # as long as the recorded one, for the folding of lines
ENVIRON = {
    "HOME": HOME,
    "LOGNAME": "alice",
    "PATH": f"{TORQUE}/bin:{TORQUE}/sbin:/usr/bin:/bin:/usr/sbin:/sbin",
    "SHELL": "/bin/bash",
    "LANG": "C",
}


@dataclass(frozen=True)
class Recorded:
    """What a file of the reference says."""

    command: str
    stdout: str
    stderr: str
    status: int

    @classmethod
    def read(cls, name: str) -> Recorded:
        text = (REFERENCE / name).read_text(encoding="utf-8")
        command, rest = text.removeprefix("$ ").split("\n--- stdout\n", 1)
        stdout, rest = rest.split("--- stderr\n", 1)
        stderr, status = rest.split("--- exit status: ", 1)
        return cls(command, stdout, stderr, int(status))


class ObedientAgent:
    """Starts every job at once; a job ends when the test says so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages = []
        self.sessions = {}
        self.answers = True

    def send(self, message):
        self.messages.append(message)
        if message["do"] == "start" and self.answers:
            session = self.sessions.get(message["job"], 30000 + message["job"])
            self.world.executor.post(
                lambda _: self.world.batch.started(message["job"], message["run"], session)
            )
        if message["do"] == "kill" and self.answers:
            status = 271 if message["why"] == "delete" else 0
            self.world.end(message["job"], status)

    def starts(self):
        return [message["id"] for message in self.messages if message["do"] == "start"]


class World:
    """The server and its state; `do` runs a command in this process, `shell` through a real shell."""

    def __init__(self, home, **settings) -> None:
        settings.setdefault("nodes", tuple(f"n{number:02}" for number in range(1, 7)))
        settings.setdefault("np", 2)
        settings.setdefault("epoch_s", 0)
        self.clock = ManualClock()
        self.server = TorqueServer(ServerConfig(home=home / "server", **settings), self.clock)
        self.home = home
        self.batch = self.server._batch
        self.executor = self.server._executor
        self.agent = ObedientAgent(self)
        self._thread = None

    def agents_up(self, names=None):
        names = names or [node.name for node in self.batch.nodes]
        answer = self.batch.register(self.agent, names, [], self.clock.now_us())
        self.settle()
        return answer

    def settle(self):
        self.executor.settle()

    def at(self, time_s):
        """Let everything up to this time happen, each at its time."""
        until_us = round(time_s * US)
        while (next_us := self.executor._next_us) <= until_us:
            self.clock.advance_to(max(next_us, self.clock.now_us()))
            self.settle()
        self.clock.advance_to(until_us)
        return self

    def do(self, line, user="root", text=None, cwd=HOME):
        call = commands.Invocation(tuple(line.split()), user, cwd, ENVIRON, text)
        reply = commands.run(self.batch, call, self.clock.now_us())
        self.settle()
        return reply

    def qsub(self, line="", user="alice", script="sleep 90\n"):
        reply = self.do(f"qsub {line}".strip(), user, script)
        assert reply.status == 0, reply
        return self.batch.job(reply.stdout.strip(), self.clock.now_us())

    def end(self, number, exit_status=0, *, requeue=False, session=None):
        job = self.batch._jobs[number]
        session = job.session or 0 if session is None else session
        self.executor.post(
            lambda now_us: self.batch.ended(number, job.run, exit_status, session, now_us, requeue=requeue)
        )

    def ends(self, number, exit_status=0, *, requeue=False, session=None):
        self.end(number, exit_status, requeue=requeue, session=session)
        self.settle()

    def states(self):
        return {job.number: job.state.value for job in self.batch.jobs(self.clock.now_us())}

    def serve(self):
        """From now on real commands can be run."""
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()
        install_commands(self.home / "bin", self.server.address)

    def shell(self, command, user="root"):
        return subprocess.run(
            ["/bin/bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=self.home,
            env={"PATH": f"{self.home}/bin:/usr/bin:/bin", "TORQUE_USER": user},
            timeout=60,
            check=False,
        )

    def accounting(self):
        folder = self.home / "server" / "server_priv" / "accounting"
        return "".join(path.read_text() for path in sorted(folder.iterdir()))

    def close(self):
        if self._thread is not None:
            self.server.stop()
            self._thread.join()
        else:
            self.server._listener.close()
            self.server._log.close()


@pytest.fixture
def make_world(tmp_path):
    """Builds servers, and takes them down after the test."""
    made = []

    def make(**settings):
        world = World(tmp_path, **settings)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world):
    """Six nodes of two slots each, all up, nothing running."""
    made = make_world()
    made.agents_up()
    return made


@pytest.fixture
def recorded():
    """Reads a file of the reference."""
    return Recorded.read
