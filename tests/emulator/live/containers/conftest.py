"""Fleets of containers on a real engine, driven by Docker Compose."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from pytest_docker.plugin import get_docker_services

from balancer.clock import US, wall_us
from balancer.version import VERSION
from fleet_kit.short_trace import NODES, write_scenario
from parts import FLEET_IMAGES, OUR_IMAGES, compose_command, succeeds
from polling import until

ROOT = Path(__file__).parents[4]
_EMULATOR = (sys.executable, "-c", "from emulator.cli import main; main()")
_LIMIT_S = 600
_TOY = Path(__file__).parents[1] / "toy"
# As docs/containers.md says: how a mechanism of one's own comes into the images.
_DOCKERFILE = """ARG IMAGE
FROM ${IMAGE}
COPY packages /opt/packages
ENV PYTHONPATH=/opt/packages
"""


def _docker(*words):
    subprocess.run(["docker", *words], check=True, capture_output=True, timeout=_LIMIT_S)


@pytest.fixture
def slurm_image():
    """What is in the environment of a run on the real Slurm."""
    return {"COMPOSE_PROFILES": "slurm"}


@pytest.fixture
def toy_images(toy, tmp_path):
    """Images with the plug-ins of the tests in those that need them; the rest are ours under another name."""
    context = tmp_path / "images"
    shutil.copytree(tmp_path / "packages", context / "packages")
    for module in _TOY.glob("*.py"):
        shutil.copy(module, context / "packages")
    (context / "Dockerfile").write_text(_DOCKERFILE)
    made = f"fleettest{os.getpid()}"
    for name in FLEET_IMAGES:
        if name in {"batch", "controller", "balancer"}:
            _docker(
                "build",
                "-q",
                "--build-arg",
                f"IMAGE={OUR_IMAGES}/{name}:{VERSION}",
                "-t",
                f"{made}/{name}:{VERSION}",
                str(context),
            )
        else:
            _docker("tag", f"{OUR_IMAGES}/{name}:{VERSION}", f"{made}/{name}:{VERSION}")
    yield made
    _docker("rmi", *(f"{made}/{name}:{VERSION}" for name in FLEET_IMAGES))


@pytest.fixture
def postgres():
    """What is in the environment of a fleet with its ledger in PostgreSQL."""
    image = {}
    if "POSTGRES_IMAGE" not in os.environ and succeeds("docker", "image", "inspect", "local/python-base"):
        subprocess.run([ROOT / "scripts" / "postgres-image"], check=True, timeout=_LIMIT_S)
        image = {"POSTGRES_IMAGE": "local/postgres"}
    ledger = "postgresql://balancer:balancer@database/balancer"
    return image | {"FLEET_LEDGER": ledger, "COMPOSE_PROFILES": "postgres"}


@pytest.fixture
def alone():
    """One fleet at a time, whatever the number of workers: they would only take the processors from each other."""
    with (Path(tempfile.gettempdir()) / "balancer-fleet-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def docker_compose_command():
    return " ".join(compose_command())


class Compose:
    """One project of docker-compose.yml, with a scenario of its own and free ports."""

    def __init__(self, command, folder, scenario, images, changes):
        self.project = f"fleettest{os.getpid()}{scenario.stem}"
        self.files = [str(ROOT / "docker-compose.yml")]
        if changes:
            (folder / "changes.json").write_text(json.dumps(changes))
            self.files.append(str(folder / "changes.json"))
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.scenario = scenario
        self._command = [*command.split(), "-p", self.project]
        for file in self.files:
            self._command += ["-f", file]
        ports = {f"FLEET_{name}_PORT": "" for name in ("CONTROLLER", "BATCH", "BALANCER", "ONDEMAND")}
        self.environ = os.environ | ports | {
            "FLEET_SCENARIOS": str(scenario.parent),
            "FLEET_SCENARIO": f"/scenarios/{scenario.name}",
            "FLEET_RUNS": str(self.runs),
            "FLEET_IMAGES": images,
            "BASE_IMAGE": "none",  # the images are there
            "FLEET_NODES": str(NODES),
        }  # fmt: skip

    def __call__(self, *arguments, check=True):
        done = subprocess.run(
            [*self._command, *arguments], env=self.environ, capture_output=True, text=True, timeout=_LIMIT_S,
            check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def _until(self, condition, wanted):
        return until(condition, lambda: f"{wanted}\n{self('logs', '--tail', '30', check=False)}", _LIMIT_S)

    def take_down(self):
        """Remove all of it. A network may count a container that is gone for a moment: then once more."""
        command = [*self._command, "down", "-v", "-t", "5"]

        def is_down():
            done = subprocess.run(
                command, env=self.environ, capture_output=True, timeout=_LIMIT_S, check=False
            )
            return done.returncode == 0

        self._until(is_down, "it can be taken down")

    def ctrl_c(self, *arguments, seen):
        """`docker compose ARGUMENTS...` at a terminal, where somebody sees this text, types Ctrl-C and waits."""
        at_terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
        command = [sys.executable, "-c", at_terminal, *self._command, *arguments]
        with tempfile.TemporaryFile() as shown:
            process = subprocess.Popen(
                command, env=self.environ, stdin=subprocess.PIPE, stdout=shown, stderr=shown, bufsize=0
            )
            try:
                self._until(lambda: seen in os.pread(shown.fileno(), 1 << 24, 0), f"{seen} is to be seen")
                process.stdin.write(b"\x03")
                process.wait(_LIMIT_S)
            finally:
                process.kill()
                process.wait()
                process.stdin.close()

    def docker(self, *words):
        """`docker WORDS...`, the last of which is a service (its first container)."""
        *words, service = words
        container = self("ps", "-q", service).split()[0]
        subprocess.run(["docker", *words, container], check=True, capture_output=True, timeout=_LIMIT_S)

    def docker_all(self, word):
        """`docker WORD` of all containers of the project at once."""
        containers = self("ps", "-q").split()
        subprocess.run(["docker", word, *containers], check=True, capture_output=True, timeout=_LIMIT_S)

    def address(self, service, port):
        """HOST, PORT by which a service is reached from outside."""
        host, _, port = self("port", service, str(port)).strip().rpartition(":")
        return host, int(port)

    def fleet(self, *arguments, check=True):
        """`emulator fleet ... --fleet PROJECT`: what it prints on stdout."""
        done = subprocess.run(
            [*_EMULATOR, "fleet", *arguments, "--fleet", self.project],
            env=self.environ, capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=ROOT,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def status(self):
        """What the controller says of the run; {} while it says nothing."""
        return json.loads(self.fleet("status", "--json"))["run"] or {}

    def pace_until_jobs(self, count):
        """Cluster seconds in a wall second, from the first that passes until so many jobs, and one more, have ended."""
        stood_s = self.cluster_time_s()
        self._until(lambda: self.cluster_time_s() > stood_s, "the clock goes on")
        begun_us, begun_s = wall_us(), self.cluster_time_s()
        self.wait_for_jobs(max(count, self.status().get("jobs_ended", 0) + 1))
        return (self.cluster_time_s() - begun_s) / (wall_us() - begun_us) * US

    def cluster_time_s(self):
        """The run's time, as soon as the controller tells it."""
        return self._until(self.status, "the controller says something")["cluster_time_s"]

    def wait_for_jobs(self, count):
        """Until so many jobs have ended; how many have."""

        def ended():
            jobs = self.status().get("jobs_ended", 0)
            return jobs if jobs >= count else 0

        return self._until(ended, f"{count} jobs have ended")

    def wait_for_silence(self, *, of_nobody=False):
        """Until the clock goes on without somebody who says nothing, or again with everybody."""

        def is_so():
            silent = self.status().get("silent")
            return silent is not None and (not silent) is of_nobody

        self._until(is_so, "it comes")

    def result(self, service="controller"):
        """Wait for the end of the run: its exit status and its results folder."""
        container = self("ps", "-q", service).strip()
        waited = subprocess.run(
            ["docker", "wait", container],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
        return int(waited.stdout), self.runs / f"{self.scenario.stem}-live"

    def left(self):
        """Containers, networks and volumes of this project."""
        mark = f"label=com.docker.compose.project={self.project}"
        lists = (["ps", "-aq"], ["network", "ls", "-q"], ["volume", "ls", "-q"])
        return [
            subprocess.run(
                ["docker", *words, "--filter", mark],
                env=self.environ,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            for words in lists
        ]


@pytest.fixture
def compose(alone, docker_compose_command, tmp_path, monkeypatch):
    """Start a fleet (the short trace, if the test writes nothing else); whatever happens, nothing of it is left."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    made = []

    def start(
        name, *, write=write_scenario, images=OUR_IMAGES, environ=None, service="", changes=None, **live
    ):
        scenario = write(folder, name=name, **live)
        fleet = Compose(docker_compose_command, tmp_path, scenario, images, changes)
        fleet.environ |= environ or {}
        made.append(fleet)
        for key, value in fleet.environ.items():
            monkeypatch.setenv(key, value)
        stack.enter_context(
            get_docker_services(
                docker_compose_command,
                fleet.files,
                fleet.project,
                [f"up -d --no-build {service}"],
                [],
            )
        )
        stack.callback(fleet.take_down)
        return fleet

    with ExitStack() as stack:
        yield start
    for fleet in made:
        assert fleet.left() == [[], [], []]
