"""A batch server in this process, on a clock that is moved by hand, with agents that do as the test says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest

from balancer.clock import US
from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock
from emulator.live.process import read_address
from emulator.live.torque import commands
from emulator.live.torque.commands import install_commands
from emulator.live.torque.config import ServerConfig
from emulator.live.torque.protocol import request
from emulator.live.torque.server import TorqueServer
from manual_clock import ManualClock
from polling import until
from testdata import RECORDED

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
        text = (RECORDED / "torque" / name).read_text(encoding="utf-8")
        if "\n--- stdout\n" not in text:  # an experiment: everything is one time line
            text = text.replace("\n", "\n--- stdout\n", 1).replace("--- exit", "--- stderr\n--- exit")
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
        answer = self.batch.register(self.agent, names, self.batch.config.np, [], self.clock.now_us())
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


class Fleet:
    """A server and an agent as processes, on a paced clock that goes exactly as far as the test says."""

    def __init__(self, home, **settings) -> None:
        self.home = home
        self.hooks_log = home / "hooks.log"
        self.master = SharedClockMaster(home / "clock", speed=1_000_000)
        self.nodes = [f"n{number:02}" for number in range(1, 7)]
        self.processes = {}
        agent = settings.pop("agent", {})
        self.agents = settings.pop("agents", {"agent": self.nodes})
        self._write(
            "server", {"home": f"{home}/server", "epoch_s": 0, "nodes": self.nodes, "np": 2, **settings}
        )
        for name, nodes in self.agents.items():
            places = {"home": f"{home}/{name}", "server_home": f"{home}/server", "nodes": nodes}
            self._write(name, {"np": 2, **places, **agent})
        self.clock = SharedClock(home / "clock")
        self._alarm = self.clock.alarm(EventPriority.WATCH)
        self._alarm.set(0)

    def _write(self, name, settings):
        (self.home / f"{name}.json").write_text(json.dumps(settings))

    def start(self, *names):
        for name in names:
            module = "emulator.live.torque.server" if name == "server" else "emulator.live.agent"
            files = ["--config", f"{self.home}/{name}.json", "--clock", f"{self.home}/clock"]
            self.processes[name] = subprocess.Popen([sys.executable, "-m", module, *files])
        return self

    def up(self):
        self.start("server", *self.agents)
        self.wait_until(lambda: read_address(self.home / "server"))
        self.commands()
        self.wait_until(self.all_up)
        self.master.start()
        return self

    def all_up(self):
        listed = self.run("pbsnodes", "-l", "all")
        return listed.returncode == 0 and "down" not in listed.stdout

    def commands(self):
        install_commands(self.home / "bin", read_address(self.home / "server"))

    def wait_until(self, condition):
        def found():
            assert all(process.poll() is None for process in self.processes.values()), "a process died"
            return condition()

        return until(found)

    def at(self, time_s):
        """Let the fleet live up to this time: everything of that instant has happened when this returns."""
        self._alarm.set(round(time_s * US))
        assert self._alarm.wait(180), f"the clock stands at {self.clock.now_us() / US} s"
        return self

    def run(self, *argv, user="root", text=None):
        return subprocess.run(
            [f"{self.home}/bin/{argv[0]}", *argv[1:]],
            input=text,
            capture_output=True,
            text=True,
            cwd=self.home,
            env={"TORQUE_USER": user, "HOME": HOME},
            timeout=60,
            check=False,
        )

    def qsub(self, *argv, script="sleep 10\n"):
        reply = self.run("qsub", *argv, user="alice", text=script)
        assert reply.returncode == 0, reply
        return int(reply.stdout.partition(".")[0])

    def export(self):
        return request(read_address(self.home / "server"), {"do": "export"})

    def state(self):
        return request(read_address(self.home / "server"), {"do": "state"})

    def runs(self, number):
        """(start, end, outcome, exit status of the job) of each run, in seconds."""
        job = next(job for job in self.export()["jobs"] if job["number"] == number)
        return [
            (run["start_us"] / US, run["end_us"] / US if run["end_us"] >= 0 else None, run["outcome"])
            for run in job["runs"]
        ]

    def exit_status(self, number):
        return next(job for job in self.export()["jobs"] if job["number"] == number)["exit_status"]

    def ended(self, number):
        return self.wait_until(lambda: self.runs(number)[-1:] and self.runs(number)[-1][1] is not None)

    def states(self):
        return {
            node.split()[0]: node.split()[1] for node in self.run("pbsnodes", "-l", "all").stdout.splitlines()
        }

    def letter(self, number):
        return self.run("qstat", str(number)).stdout.splitlines()[-1].split()[-2]

    def accounting(self, kinds="QSEDR"):
        folder = self.home / "server" / "server_priv" / "accounting"
        lines = "".join(path.read_text() for path in sorted(folder.iterdir())).splitlines()
        return [line for line in lines if line.split(";")[1] in kinds]

    def kill(self, name, number=signal.SIGKILL):
        """End a process; where it is an agent, at the instant at which the clock stands, as the server sees it."""
        self._end(name, number)
        if name in self.agents and "server" in self.processes:
            served = sum(len(nodes) for agent, nodes in self.agents.items() if agent in self.processes)
            self.wait_until(lambda: self.state()["nodes_served"] == served)

    def _end(self, name, number):
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(120)

    def close(self):
        for name in list(self.processes):
            self._end(name, signal.SIGTERM)
        self.master.stop()


HOOK = """#!/bin/bash
exec >> {log} 2>&1
echo "=== {name} on=$PBS_MSHOST cwd=$PWD argc=$#"
for n in $(seq 1 $#); do echo "argv[$n]=[${{!n}}]"; done
env | grep -v -E '^(PWD|SHLVL|_)=' | sort | sed 's/^/env /'
cat $PBS_NODEFILE
[ "{name}" = epilogue ] && {bin}/pbsnodes -l job-exclusive
exit $(cat {home}/{name}-status 2>/dev/null || echo 0)
"""


@pytest.fixture
def make_fleet(tmp_path):
    """Builds fleets whose hooks are scripts that note what they got and exit as the test says."""
    made = []

    def make(*, hooks=True, **settings):
        if hooks:
            for name in ("prologue", "epilogue"):
                script = tmp_path / name
                paths = {"log": tmp_path / "hooks.log", "home": tmp_path, "bin": tmp_path / "bin"}
                script.write_text(HOOK.format(name=name, **paths))
                script.chmod(0o755)
            kinds = {"kind": "script", "prologue": f"{tmp_path}/prologue", "epilogue": f"{tmp_path}/epilogue"}
            settings["agent"] = {"hooks": kinds, **settings.get("agent", {})}
        made.append(Fleet(tmp_path, **settings))
        return made[-1].up()

    yield make
    for fleet in made:
        fleet.close()
