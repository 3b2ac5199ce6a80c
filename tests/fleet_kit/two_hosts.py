"""Another host with a Docker engine of its own: a network namespace of this machine, joined to it by a cable."""

import os
import subprocess
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from balancer.clock import micros, wall_us

HERE, THERE = "10.231.77.1", "10.231.77.2"
_LIMIT_S = 60


@dataclass
class Host:
    """`address`: of its own; it reaches this machine at HERE."""

    namespace: str
    socket: Path

    def command(self, *words):
        # `ip netns exec` would hide the control groups that an engine needs.
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *words]

    @property
    def environ(self):
        return os.environ | {"DOCKER_HOST": f"unix://{self.socket}"}

    def docker(self, *words):
        done = subprocess.run(
            ["docker", *words], env=self.environ, capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
        return done.stdout

    def answers(self):
        with suppress(subprocess.SubprocessError):
            return bool(self.docker("version", "--format", "{{.Server.Version}}"))
        return False


@contextmanager
def another_host():
    """A host whose engine runs while the block lasts; then nothing of it is left."""
    name = f"fleet{os.getpid()}"
    with ExitStack() as stack:
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "delete", name)
        near, far = f"v{os.getpid()}a", f"v{os.getpid()}b"
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        stack.callback(subprocess.run, ["ip", "link", "delete", near], check=False, capture_output=True)
        _ip("address", "add", f"{HERE}/24", "dev", near)
        _ip("link", "set", near, "up")
        inside = ["-n", name]
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "address", "add", f"{THERE}/24", "dev", far)
        _ip(*inside, "link", "set", far, "up")
        _ip(*inside, "route", "add", "default", "via", HERE)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="host-")))
        stack.callback(_unmount, folder)
        host = Host(name, folder / "docker.sock")
        log = stack.enter_context((folder / "log").open("wb"))
        engine = subprocess.Popen(
            host.command("dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
                         "--pidfile", f"{folder}/pid", "--host", f"unix://{host.socket}", "--log-level", "warn"),
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        stack.callback(_end, engine)
        pause, end_us = threading.Event(), wall_us() + micros(_LIMIT_S)
        while not host.answers():
            assert engine.poll() is None, (folder / "log").read_text()
            assert wall_us() < end_us, (folder / "log").read_text()
            pause.wait(0.2)
        yield host


def _end(engine):
    engine.terminate()
    engine.wait(_LIMIT_S)


def _unmount(folder):
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((each for each in mounts if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=True)


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)
